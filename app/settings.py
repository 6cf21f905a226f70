"""Settings of the server, from flags, environment, config file and defaults, in this order."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from ..engine.config import EngineConfig
from ..engine.errors import ConfigError
from .folders import Folders, find_folders, reason_of

DEFAULT_PORT = 7861
ENV_PREFIX = "PAGEDCHAT_"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_ENGINE_FIELDS = (
    "device",
    "dtype",
    "max_model_len",
    "block_size",
    "num_blocks",
    "gpu_memory_utilization",
    "kv_cache_memory",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "deterministic",
    "context_policy",
    "hang_timeout_s",
)


def parse_size(value: Any) -> Any:
    """Bytes from a number or from text such as ``512MiB``, ``2GiB`` or ``1.5GB``; K, M and G alone are binary.

    Raises:
        ValueError: if it is neither.
    """
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is no size; write bytes or, for example, 512MiB or 2GiB")
    number, unit, suffix = match.groups()
    base = 1000 if (suffix or "").lower() == "b" else 1024
    return int(float(number) * base ** _POWERS[unit.lower()]) if unit else int(float(number))


def _split_commas(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _empty_as_none(value: Any) -> Any:
    return None if value == "" else value


class Settings(BaseSettings):
    """What ``pagedchat serve`` runs with. Field names are the flags' names, and the keys of config.toml.

    Engine fields mean what they mean in ``EngineConfig``. ``port`` is None when the user named none.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    no_browser: bool = False
    allowed_host: Annotated[list[str], NoDecode, BeforeValidator(_split_commas)] = []
    data_dir: Annotated[Path | None, BeforeValidator(_empty_as_none)] = None
    models_dir: Annotated[Path | None, BeforeValidator(_empty_as_none)] = None

    model: str = "default"
    device: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    block_size: int = 16
    num_blocks: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory: Annotated[int | None, BeforeValidator(parse_size)] = None
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    enable_prefix_caching: bool = True
    deterministic: bool = False
    context_policy: str = "trim"
    hang_timeout_s: float = 60.0

    alert_kv_usage: Annotated[float, Field(gt=0, lt=1)] = 0.9
    alert_waiting_growth: Annotated[float, Field(ge=0)] = 1.0
    alert_ttft_factor: Annotated[float, Field(gt=1)] = 1.3
    alert_tpot_factor: Annotated[float, Field(gt=1)] = 1.3
    alert_hit_margin: Annotated[float, Field(gt=0, lt=1)] = 0.2
    alert_min_replies: Annotated[int, Field(ge=1)] = 20

    def engine_config(self, model_path: str | Path) -> EngineConfig:
        """The engine's share of the settings.

        Raises:
            ConfigError: on a value that cannot work.
        """
        return EngineConfig(model=str(model_path), **{name: getattr(self, name) for name in _ENGINE_FIELDS})

    def warnings(self, info: dict[str, Any]) -> list[str]:
        """Where an engine that says ``info`` of itself does less than was asked for, a sentence each."""
        asked, given = self.max_model_len, info.get("max_model_len")
        if asked is None or given is None or asked <= given:
            return []
        return [f"--max-model-len {asked:,} is more than this model can take; chats may have {given:,} tokens."]


def load_settings(flags: dict[str, Any]) -> tuple[Settings, Folders]:
    """Settings and folders for the flags given; flags that are None were not given.

    Raises:
        ConfigError: naming the setting, the value and where to look.
    """
    named = _build({name: value for name, value in flags.items() if value is not None and value != []})
    folders = find_folders(named.data_dir, named.models_dir)
    from_file = read_config_file(folders.config_file)
    settings = _build({**from_file, **named.model_dump(include=named.model_fields_set)}, folders.config_file)
    found = find_folders(settings.data_dir, settings.models_dir)
    return settings, replace(found, config=folders.config)


def read_config_file(path: Path) -> dict[str, Any]:
    """Settings of a TOML file, dashes and underscores alike; none if there is no file.

    Raises:
        ConfigError: if it cannot be read or is no TOML.
    """
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"The config file {path} cannot be read ({reason_of(error)}).") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The config file {path} is not valid TOML: {str(error).rstrip('.')}.") from error
    return {name.replace("-", "_"): value for name, value in values.items()}


def _build(values: dict[str, Any], file: Path | None = None) -> Settings:
    try:
        return Settings(**values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, file)) from error


def _sentence(error: ValidationError, file: Path | None) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        return f"The config file {file} has a setting {name!r} that pagedchat does not know; remove or correct it."
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    flag = "--" + name.replace("_", "-")
    return f"{flag} (or {ENV_PREFIX}{name.upper()}, or {name} in the config file) {reason}, not {first['input']!r}."
