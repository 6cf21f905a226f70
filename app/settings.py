"""Settings of the server: flags before environment before config file before profile before defaults.

A rollback (see `operate.known_good`) stands between flags and environment while it lasts.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..engine.config import EngineConfig
from ..engine.errors import ConfigError
from .folders import Folders, find_folders, reason_of
from .operate.known_good import KnownGoodStore, Rollback, config_digest
from .profiles import profile_values

DEFAULT_PORT = 7861
ENV_PREFIX = "PAGEDCHAT_"
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
ENGINE_FIELDS = (
    "device",
    "dtype",
    "max_model_len",
    "block_size",
    "num_blocks",
    "gpu_memory_utilization",
    "kv_cache_memory",
    "max_num_seqs",
    "max_num_batched_tokens",
    "threads",
    "enable_prefix_caching",
    "deterministic",
    "context_policy",
    "hang_timeout_s",
)
POOL_SIZES = ("num_blocks", "kv_cache_memory", "gpu_memory_utilization")
"""Ways to say one thing: where a higher place says it in one way, what lower ones say in another is left out."""
KEPT_FIELDS = ("model", "profile", *ENGINE_FIELDS)
"""What a known good configuration consists of; addresses and folders are not part of it."""
OTHER_VARIABLES = ("PAGEDCHAT_TRIALS",)
"""Variables that others than the server read."""


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


class Settings(BaseModel):
    """What ``pagedchat serve`` runs with. Field names are the flags' names, and the keys of config.toml.

    Engine fields mean what they mean in ``EngineConfig``. ``port`` is None when the user named none. Thresholds of
    alerts (``alert_...``, see `watch.rules`) have no flags. ``titles`` says who names a chat: its first words, or the
    model after its first reply.
    """

    model_config = ConfigDict(extra="forbid")

    host: str = "127.0.0.1"
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    no_browser: bool = False
    allowed_host: Annotated[list[str], BeforeValidator(_split_commas)] = []
    data_dir: Annotated[Path | None, BeforeValidator(_empty_as_none)] = None
    models_dir: Annotated[Path | None, BeforeValidator(_empty_as_none)] = None

    model: str = "default"
    profile: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    block_size: int = 16
    num_blocks: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory: Annotated[int | None, BeforeValidator(parse_size)] = None
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 512
    threads: int | None = None
    enable_prefix_caching: bool = True
    deterministic: bool = False
    context_policy: str = "trim"
    hang_timeout_s: float = 60.0

    titles: Literal["words", "model"] = "words"

    alert_kv_usage: Annotated[float, Field(gt=0, lt=1)] = 0.9
    alert_waiting_growth: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    alert_ttft_factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 1.3
    alert_tpot_factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 1.3
    alert_hit_margin: Annotated[float, Field(gt=0, lt=1)] = 0.2
    alert_min_replies: Annotated[int, Field(ge=1)] = 20

    def engine_config(self, model_path: str | Path) -> EngineConfig:
        """The engine's share of the settings.

        Raises:
            ConfigError: on a value that cannot work.
        """
        return EngineConfig(model=str(model_path), **{name: getattr(self, name) for name in ENGINE_FIELDS})

    def warnings(self, info: dict[str, Any]) -> list[str]:
        """Where an engine that says ``info`` of itself does less than was asked for, a sentence each."""
        asked, given = self.max_model_len, info.get("max_model_len")
        if asked is None or given is None or asked <= given:
            return []
        blocks, size = info.get("num_blocks"), info.get("block_size")
        pool = blocks * size if blocks and size else given
        limits = f"({given:,} tokens)" if pool >= given else f"({given:,} tokens), and its KV cache holds {pool:,}"
        return [
            f"--max-model-len {asked:,} is more than this model can take {limits}; chats may have "
            f"{min(given, pool):,} tokens."
        ]


@dataclass(frozen=True)
class Configuration:
    """Settings with where they come from.

    Attributes:
        origins: of every setting: "flag", "environment", "config file", "profile", "default" or "rollback".
        warnings: a sentence each, for the terminal.
        rollback: the rollback in force, if one is.
        rollback_over: a rollback is there that no longer counts, since the config file has changed.
    """

    settings: Settings
    folders: Folders
    origins: dict[str, str]
    warnings: list[str]
    rollback: Rollback | None = None
    rollback_over: bool = False

    def kept(self) -> dict[str, Any]:
        """The settings that a known good configuration consists of, JSON values."""
        return self.settings.model_dump(mode="json", include=set(KEPT_FIELDS))


def load_settings(flags: dict[str, Any]) -> tuple[Settings, Folders]:
    """Settings and folders for the flags given; flags that are None were not given.

    Raises:
        ConfigError: naming the setting, the value and where to look.
    """
    found = load_configuration(flags)
    return found.settings, found.folders


def load_configuration(flags: dict[str, Any]) -> Configuration:
    """Settings with their origins, and folders, for the flags given; flags that are None were not given.

    Raises:
        ConfigError: naming the setting, the value and where to look.
    """
    given = {name: value for name, value in flags.items() if value is not None and value not in ([], ())}
    environment, warnings = read_environment(os.environ)
    above = {**environment, **given}
    first = usual_folders(flags)
    try:
        from_file, trouble = read_config_file(first.config_file), None
    except ConfigError as error:
        from_file, trouble = {}, error
    named = {**from_file, **above}
    folders = replace(find_folders(_path(named.get("data_dir")), _path(named.get("models_dir"))), config=first.config)
    rollback = KnownGoodStore(folders.state).rollback()
    over = rollback is not None and rollback.config_digest != config_digest(folders.config_file)
    if over:
        warnings.append(f"The config file {folders.config_file} has changed since the rollback, which is over now.")
    in_force = None if over else rollback
    if in_force is not None:
        from_file, faults = _without_faults(from_file, trouble, folders.config_file)
        warnings += faults
    elif trouble is not None:
        raise trouble
    layers = _layers(given, environment, from_file, in_force)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in reversed(layers.items()):
        values |= layer
        origins |= dict.fromkeys(layer, origin)
    try:
        settings = _build(values, folders.config_file)
    except ConfigError as error:
        blamed = str(error).partition(" ")[0].removeprefix("--").replace("-", "_")
        if origins.get(blamed) != "rollback":
            raise
        raise ConfigError(f"{error} A rollback says so; `pagedchat rollback --undo` ends it.") from error
    return Configuration(settings, folders, origins, warnings, in_force, over)


def usual_folders(flags: dict[str, Any]) -> Folders:
    """The folders by flags and environment alone, for when the config file cannot be used."""
    environment, _ = read_environment(os.environ)
    named = {**environment, **{name: value for name, value in flags.items() if value is not None}}
    return find_folders(_path(named.get("data_dir")), _path(named.get("models_dir")))


def _without_faults(
    from_file: dict[str, Any], trouble: ConfigError | None, file: Path
) -> tuple[dict[str, Any], list[str]]:
    """What of a config file can be used while a rollback lasts, and a sentence for each part that is left aside."""
    unknown = [_unknown_key(file, name) for name in from_file if name not in Settings.model_fields]
    faults = [str(trouble), *unknown] if trouble else unknown
    known = {name: value for name, value in from_file.items() if name in Settings.model_fields}
    return known, [f"{fault} It is left aside while the rollback lasts." for fault in faults]


def _layers(
    given: dict[str, Any], environment: dict[str, Any], from_file: dict[str, Any], rollback: Rollback | None
) -> dict[str, dict[str, Any]]:
    """What each place says, the highest first."""
    known = rollback.record.settings if rollback else {}
    layers: dict[str, dict[str, Any]] = {
        "flag": given,
        "rollback": {name: value for name, value in known.items() if name in KEPT_FIELDS},
        "environment": environment,
        "config file": from_file,
    }
    wanted = next((layer["profile"] for layer in layers.values() if "profile" in layer), None)
    layers["profile"] = profile_values(_empty_as_none(wanted))
    said = False
    for origin, layer in layers.items():
        if said:
            layers[origin] = {name: value for name, value in layer.items() if name not in POOL_SIZES}
        said = said or any(name in layer for name in POOL_SIZES)
    return layers


def read_environment(variables: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Settings among environment variables, empty ones left out, and a sentence for each that means nothing here."""
    values: dict[str, Any] = {}
    warnings = []
    for variable, value in variables.items():
        if not variable.upper().startswith(ENV_PREFIX):
            continue
        name = variable[len(ENV_PREFIX) :].lower()
        if name in Settings.model_fields:
            if value:
                values[name] = value
        elif variable.upper() not in OTHER_VARIABLES:
            warnings.append(f"{variable} is set, but pagedchat knows no such setting{_like(name)}")
    return values, warnings


def _like(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, Settings.model_fields, 1)
    return f"; did you mean {ENV_PREFIX}{near[0].upper()}?" if near else "."


def _path(value: Any) -> Path | None:
    return Path(value) if value and isinstance(value, str | Path) else None


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
        return _unknown_key(file, name)
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ").rstrip(".")
    elsewhere = f"{ENV_PREFIX}{name.upper()}, or {name} in the config file"
    named = elsewhere if name.startswith("alert_") else f"--{name.replace('_', '-')} (or {elsewhere})"
    return f"{named} {reason}, not {first['input']!r}."


def _unknown_key(file: Path | None, name: str) -> str:
    return f"The config file {file} has a setting {name!r} that pagedchat does not know; remove or correct it."
