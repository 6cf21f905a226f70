"""A tokenizer from a Hugging Face directory: tokenizer.json and the small files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import ModelFileError
from .files import read_json
from .tokenizer_base import Tokenizer

_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")


def tokenizer_from_directory(path: Path) -> Tokenizer:
    """Read tokenizer.json, tokenizer_config.json, chat_template.jinja, generation_config.json and config.json.

    Raises:
        ModelFileError: no tokenizer.json, or one of these files is damaged.
    """
    from tokenizers import Tokenizer as Backend

    file = path / "tokenizer.json"
    if not file.is_file():
        raise ModelFileError(f"{path} has no tokenizer.json, which is needed to read and write text.")
    try:
        backend = Backend.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ModelFileError(f"{file} cannot be read: {error}.") from None
    config = read_json(path / "tokenizer_config.json")
    named = {**read_json(path / "special_tokens_map.json"), **config}
    special = {name: text for name in _NAMED if (text := _token_text(named.get(name))) is not None}
    bos = backend.token_to_id(special["bos_token"]) if "bos_token" in special else None
    return Tokenizer(
        backend,
        end_ids=_end_ids(path, backend, special),
        bos_id=bos,
        add_bos=_adds_bos(backend, config, bos),
        special_tokens=special,
        chat_template=_chat_template(path, config),
    )


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _end_ids(path: Path, backend: Any, special: dict[str, str]) -> set[int]:
    """Ends of all files together: each may name one id, several, or none."""
    found: set[int] = set()
    for file in ("generation_config.json", "config.json"):
        value = read_json(path / file).get("eos_token_id")
        found.update(one for one in (value if isinstance(value, list) else [value]) if isinstance(one, int))
    if "eos_token" in special:
        number = backend.token_to_id(special["eos_token"])
        found.update([] if number is None else [number])
    return found


def _adds_bos(backend: Any, config: dict[str, Any], bos: int | None) -> bool:
    stated = config.get("add_bos_token")
    if isinstance(stated, bool):
        return stated
    return bos is not None and backend.encode("", add_special_tokens=True).ids[:1] == [bos]


def _chat_template(path: Path, config: dict[str, Any]) -> str | None:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    stated = config.get("chat_template")
    if isinstance(stated, list):
        by_name = {one.get("name"): one.get("template") for one in stated if isinstance(one, dict)}
        stated = by_name.get("default")
    return stated if isinstance(stated, str) else None
