"""Reads a file of chats, whatever program made it: finds out by its content, never by its name.

Every entry is looked at by itself: what no reader knows is left out with the reason, the rest is read.
"""

from __future__ import annotations

import logging
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ...engine.sizes import size_in_words
from . import chatgpt, linear, llama_cpp, markdown, openwebui, ours, textgen
from .mend import mend
from .parsing import MOST_BYTES, Parsed, check_size, is_archive, open_archive, parse, unpack
from .report import ExchangeError, Mends, Report, UnknownFormat
from .tree import ChatTree, Preset, Shelf
from .values import as_dict, as_list, as_name

_log = logging.getLogger(__name__)
_UNKNOWN = (
    "No chats were found in this file. Known are the exports of pagedchat, ChatGPT, Open WebUI, llama.cpp and "
    "text-generation-webui, OpenAI messages and ShareGPT; choose such a file."
)
_MARKDOWN = (
    "This file is a chat that pagedchat wrote as Markdown, which is only for reading; export it as pagedchat JSON and "
    "import that."
)
_NO_MESSAGES = "It has no messages."
_NO_CHAT = "It is no chat of a form that is known here."
_MOST_UPLOADS = 256 << 20


@dataclass
class Reading:
    """What was read from a file, mended, and not yet stored.

    Attributes:
        trees: the chats, each with what was mended in it.
        shelf: of a file of ours, what it holds besides.
    """

    report: Report
    trees: list[tuple[ChatTree, list[str]]] = field(default_factory=list)
    shelf: Shelf = field(default_factory=Shelf)


def read_file(name: str, data: bytes) -> Reading:
    """The chats of a file.

    Raises:
        ExchangeError: too large, of a newer pagedchat, or nothing in it that could be a chat; says what to do.
    """
    reading = Reading(Report(as_name(name) or ""))
    check_size(len(data))
    try:
        if is_archive(data):
            _read_archive(data, reading)
        elif markdown.is_ours(data):
            raise ExchangeError(_MARKDOWN)
        else:
            _read_text(data, reading, _nothing)
    except ExchangeError:
        raise
    except RecursionError as error:
        raise ExchangeError("This file is nested too deeply to be an export of chats; nothing was imported.") from error
    except MemoryError as error:
        raise ExchangeError("There is not enough memory to read this file; split it first.") from error
    if not reading.trees and not reading.report.skipped:
        raise UnknownFormat(_UNKNOWN)
    return reading


def _read_archive(data: bytes, reading: Reading) -> None:
    archive = open_archive(data)
    files = _ArchiveFiles(archive)
    texts = [one for one in archive.infolist() if one.filename.lower().endswith((".json", ".jsonl"))]
    if sum(one.file_size for one in texts) > MOST_BYTES:
        raise ExchangeError(
            f"This archive unpacks to more than {size_in_words(MOST_BYTES)} of chats, the most that is imported at "
            "once; unpack it and import its files one by one."
        )
    seen: set[tuple[str, str]] = set()
    for info in sorted(texts, key=lambda one: (one.filename.count("/"), one.filename)):
        content = unpack(archive, info)
        if content is None:
            reading.report.skip(info.filename, "It is damaged or has a password.")
            continue
        before = len(reading.trees)
        inner = Reading(reading.report, reading.trees, reading.shelf)
        try:
            _read_text(content, inner, files.find)
        except UnknownFormat:  # settings, feedback and lists lie beside the chats
            continue
        except ExchangeError as error:
            reading.report.skip(info.filename, str(error))
            continue
        kept = [pair for pair in reading.trees[before:] if _new(pair[0], seen)]  # some archives hold a chat twice
        reading.trees[before:] = kept


def _new(tree: ChatTree, seen: set[tuple[str, str]]) -> bool:
    name = (tree.origin, tree.id)
    known = bool(tree.id) and name in seen
    seen.add(name)
    return not known


def _read_text(data: bytes, reading: Reading, find_file: chatgpt.FileFinder) -> None:
    parsed = parse(data)
    entries, presets = _entries(parsed)
    reading.shelf.presets += presets.values()
    for head in [parsed.head, *parsed.values]:
        if isinstance(head, dict) and head.get("format") == ours.FORMAT:
            reading.shelf.folders += ours.read_folders(head)
    formats: Counter[str] = Counter()
    strange: list[str] = []
    for place, entry in entries:
        reader = _reader(entry, presets, find_file)
        if reader is None:
            strange.append(place)
            continue
        origin, read = reader
        formats[origin] += 1
        _read_one(place, entry, read, reading)
    if not formats:
        if reading.trees or not parsed.notes:
            raise UnknownFormat(_UNKNOWN)
        raise ExchangeError(f"{parsed.notes[-1]} There is no whole chat in it; export it again.")
    for place in strange:
        reading.report.skip(place, _NO_CHAT)
    for number in parsed.broken:
        reading.report.skip(f"line {number}", "It is no whole JSON.")
    reading.report.format = reading.report.format or formats.most_common(1)[0][0]
    reading.report.notes += parsed.notes


def _entries(parsed: Parsed) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Preset]]:
    """(what to call it, entry) for everything that may be a chat, and the presets of a file of ours.

    Raises:
        ExchangeError: a file of ours of a newer version.
    """
    values = parsed.values
    if parsed.head.get("format") == ours.FORMAT:
        return _ours({**parsed.head, "chats": values})
    if parsed.lines:
        if any(isinstance(one, dict) and llama_cpp.is_line(one) for one in values[:1]):
            return _numbered("chat", llama_cpp.from_lines(values)), {}
        if values and as_dict(values[0]).get("format") == ours.FORMAT:
            found: list[tuple[str, dict[str, Any]]] = []
            presets: dict[str, Preset] = {}
            for one in values:
                more, named = _ours(one)
                found += more
                presets |= named
            return found, presets
        return [(f"line {number}", one) for number, one in zip(parsed.lines, values, strict=True)], {}
    if len(values) == 1 and isinstance(values[0], dict):
        return _of_object(values[0])
    only = values[0] if len(values) == 1 and isinstance(values[0], list) and not parsed.broken_off else values
    dicts = [one for one in only if isinstance(one, dict)]
    if dicts and all(llama_cpp.is_table(one) for one in dicts):
        return _numbered("chat", llama_cpp.from_tables(dicts)), {}
    if dicts and all("role" in one and "content" in one for one in dicts):
        return [("the chat", {"messages": dicts})], {}
    if dicts and all("from" in one and "value" in one for one in dicts):
        return [("the chat", {"conversations": dicts})], {}
    return _numbered("entry", only), {}


def _of_object(value: dict[str, Any]) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Preset]]:
    if value.get("format") == ours.FORMAT:
        return _ours(value)
    if llama_cpp.is_line(value):
        return _numbered("chat", llama_cpp.from_lines([value])), {}
    for name in ("chats", "conversations", "data"):  # a list in a wrapper
        inner = as_list(value.get(name))
        if inner and all(isinstance(one, dict) and _reader(one, {}, _nothing) for one in inner):
            return _numbered("entry", inner), {}
    return [("the chat", value)], {}


def _ours(file: dict[str, Any]) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Preset]]:
    ours.check_version(file)
    presets = ours.read_presets(file)
    chats = [{"format": ours.FORMAT, "chat": one} for one in as_list(file.get("chats"))]
    return _numbered("chat", chats), presets


def _numbered(noun: str, values: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(f"{noun} {place}", one) for place, one in enumerate(values, 1)]


_Read = Callable[[dict[str, Any], Mends], ChatTree]


def _reader(entry: Any, presets: dict[str, Preset], find_file: chatgpt.FileFinder) -> tuple[str, _Read] | None:
    """The format of an entry and what reads it; None if no reader knows it."""
    if not isinstance(entry, dict):
        return None
    if entry.get("format") == ours.FORMAT:
        if not isinstance(entry.get("chat"), dict):
            return None
        return ours.FORMAT, lambda found, mends: ours.read_chat(found["chat"], presets, mends)
    if chatgpt.is_chatgpt(entry):
        return "chatgpt", lambda found, mends: chatgpt.read_chatgpt(found, mends, find_file)
    if llama_cpp.is_llama_cpp(entry):
        return "llama.cpp", llama_cpp.read_llama_cpp
    if openwebui.is_openwebui(entry):
        return "openwebui", openwebui.read_openwebui
    if linear.is_openai(entry):
        return "openai", linear.read_openai
    if linear.is_sharegpt(entry):
        return "sharegpt", linear.read_sharegpt
    if textgen.is_textgen(entry):
        return "text-generation-webui", textgen.read_textgen
    return None


def _read_one(place: str, entry: dict[str, Any], read: _Read, reading: Reading) -> None:
    """Read one chat. One that a reader cannot take must not keep the others out."""
    mends = Mends()
    try:
        tree = mend(read(entry, mends), mends)
    except Exception as error:
        _log.exception("A chat of an imported file could not be read.")
        reading.report.skip(place, f"It could not be read ({type(error).__name__}).")
        return
    title = tree.title or place
    if not tree.nodes and not tree.exact:
        reading.report.skip(title, _NO_MESSAGES)
        return
    reading.trees.append((tree, mends.sentences()))


def _nothing(_: str) -> None:
    return None


class _ArchiveFiles:
    """The pictures and documents of an archive, found by the beginning of their names; at most 256 MiB of them."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = _MOST_UPLOADS
        self._names: dict[str, zipfile.ZipInfo] | None = None

    def find(self, beginning: str) -> tuple[str, bytes] | None:
        """(name, content) of the file whose name begins so."""
        if self._names is None:
            self._names = {}
            for info in self._archive.infolist():
                name = info.filename.rpartition("/")[2]
                for end in (len(name), name.find("."), _second_dash(name)):
                    if end > 0:
                        self._names.setdefault(name[:end], info)
        info = self._names.get(beginning)
        if info is None or info.file_size > self._left:
            return None
        content = unpack(self._archive, info)
        if content is None:
            return None
        self._left -= len(content)
        return info.filename.rpartition("/")[2], content


def _second_dash(name: str) -> int:
    """Where "file-ID-its own name.png" has its second dash."""
    return name.find("-", name.find("-") + 1) if "-" in name else -1
