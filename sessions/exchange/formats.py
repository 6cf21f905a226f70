"""The formats: which can be written, which can be read, and what each of them keeps."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from ..ids import now
from ..titles import UNTITLED
from . import linear, markdown, ours, plain_text
from .report import ExchangeError
from .tree import ChatTree, Shelf

Write = Callable[[list[ChatTree], bool, Shelf | None], bytes]

KEPT = (
    "texts",
    "system prompt",
    "branches",
    "times",
    "models",
    "thoughts",
    "settings",
    "folder, pin, archive",
    "attachments",
    "trash, drafts, presets",
    "runs and token ids",
)
"""What a format may keep, in the order of the table in docs/formats.md."""


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        label: its name for people.
        kept: those of ``KEPT`` that it has; of one that is only read, what is taken from it.
        reads: whether such files can be imported.
        write: makes the file of chats, whether all branches are meant, and what belongs to no chat; None if it is
            only read.
        suffix: of the file, with its dot.
        media_type: of the file.
    """

    label: str
    kept: frozenset[str]
    reads: bool
    write: Write | None = None
    suffix: str = ""
    media_type: str = ""


@dataclass(frozen=True)
class Exported:
    """A file of chats. ``name`` is safe on every system."""

    name: str
    media_type: str
    data: bytes


_TALK = frozenset(("texts", "system prompt"))
_TREE = _TALK | {"branches", "times", "models", "thoughts"}

FORMATS: dict[str, Format] = {
    "pagedchat": Format(
        "pagedchat JSON",
        frozenset(KEPT),
        True,
        lambda trees, branches, shelf: ours.write(trees, shelf),
        ".pagedchat.json",
        "application/json",
    ),
    "markdown": Format(
        "Markdown",
        _TREE,
        False,
        lambda trees, branches, _: markdown.write(trees, branches=branches),
        ".md",
        "text/markdown; charset=utf-8",
    ),
    "text": Format(
        "plain text",
        _TREE,
        False,
        lambda trees, branches, _: plain_text.write(trees, branches=branches),
        ".txt",
        "text/plain; charset=utf-8",
    ),
    "openai": Format(
        "OpenAI messages, JSONL",
        _TALK,
        True,
        lambda trees, branches, _: linear.write_openai(trees, branches=branches),
        ".jsonl",
        "application/jsonl",
    ),
    "sharegpt": Format(
        "ShareGPT",
        _TALK,
        True,
        lambda trees, branches, _: linear.write_sharegpt(trees, branches=branches),
        ".sharegpt.json",
        "application/json",
    ),
    "chatgpt": Format("ChatGPT", _TREE | {"folder, pin, archive", "attachments"}, True),
    "openwebui": Format("Open WebUI", _TREE | {"settings", "folder, pin, archive", "attachments"}, True),
    "llama.cpp": Format("llama.cpp", _TREE | {"folder, pin, archive", "attachments"}, True),
    "text-generation-webui": Format("text-generation-webui", frozenset(("texts", "thoughts")), True),
}

WRITTEN = tuple(name for name, one in FORMATS.items() if one.write is not None)
"""Names of the formats that can be exported."""


def check_format(name: str) -> None:
    """Refuse what is no format to write.

    Raises:
        ExchangeError: says which there are.
    """
    if name not in WRITTEN:
        raise ExchangeError(f"Chats cannot be exported as {name[:40]!r}; choose one of {', '.join(WRITTEN)}.")


def export(trees: list[ChatTree], name: str, *, branches: bool = True, shelf: Shelf | None = None) -> Exported:
    """The file that holds ``trees``.

    Args:
        branches: all branches, or only the ones that are shown. The format of ours always has all.
        shelf: what belongs to no chat and shall be in the file, too, where its format has a place for it.

    Raises:
        ExchangeError: no such format, or no chats.
    """
    check_format(name)
    found = FORMATS[name]
    assert found.write is not None
    if not trees:
        raise ExchangeError("There are no chats to export; name some or begin one.")
    title = trees[0].title or UNTITLED if len(trees) == 1 else f"{len(trees)} chats {now()[:10]}"
    return Exported(safe_name(title) + found.suffix, found.media_type, found.write(trees, branches, shelf))


_UNSAFE = re.compile(r'[\\/:*?"<>|]')
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
_NAME_BYTES = 120


def safe_name(title: str) -> str:
    """``title`` as the name of a file on any system, in its own script; at most 120 bytes."""
    letters = "".join(" " if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") else one for one in title)
    line = " ".join(_UNSAFE.sub(" ", letters).split()).strip(". ")
    line = line.encode()[:_NAME_BYTES].decode("utf-8", "ignore").strip(". ")
    if not line or _RESERVED.match(line):
        line = f"chat {line}".strip()
    return line
