"""From the bytes of a file to JSON entries, also where the file ends too early or holds what JSON must not hold.

Knows no format but its layout: one value, lines, or a list that breaks off. Limits keep a small file from becoming a
large one.
"""

from __future__ import annotations

import codecs
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from ...engine.sizes import size_in_words
from .report import ExchangeError

MOST_BYTES = 512 << 20
"""The largest file that is read, and the most that an archive may unpack to, in bytes."""

MOST_FILES = 200_000
"""Entries of an archive."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TOO_DEEP = "This file is nested deeper than any export of chats, so it was not read; check that it is the right one."
_NOT_JSON = (
    "This is no export of chats that is known here: it is neither JSON nor lines of JSON nor a ZIP archive of them. "
    "Choose the file that the other program exported."
)
_BLANKS = " \t\r\n"


@dataclass
class Parsed:
    """What a file holds.

    Attributes:
        values: top-level values: one, or one a line, or the whole ones of a list that breaks off.
        lines: numbers of the lines, from 1, where the values are lines.
        broken: numbers of lines that are no JSON.
        notes: sentences about the file.
        broken_off: whether the values are those of a list that breaks off.
        head: the fields before a list of ours that breaks off.
    """

    values: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    broken_off: bool = False
    head: dict[str, Any] = field(default_factory=dict)


def check_size(size: int) -> None:
    """Refuse a file that is too large.

    Raises:
        ExchangeError: larger than ``MOST_BYTES``.
    """
    if size > MOST_BYTES:
        raise ExchangeError(
            f"The file is larger than {size_in_words(MOST_BYTES)}, the most that is imported at once; split it first."
        )


def is_archive(data: bytes) -> bool:
    """Whether the bytes are those of a ZIP archive."""
    return data.startswith(_ZIP)


def open_archive(data: bytes) -> zipfile.ZipFile:
    """The archive, with its list of files.

    Raises:
        ExchangeError: it is damaged or has too many files.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, EOFError) as error:
        raise ExchangeError(f"The ZIP archive is damaged ({error}); export or download it again.") from error
    if len(archive.infolist()) > MOST_FILES:
        raise ExchangeError(f"The ZIP archive has more than {MOST_FILES:,} files; unpack the chats and import those.")
    return archive


def unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    """A file of an archive, never more than it says its size is; None if it is damaged or locked."""
    try:
        return archive.read(info)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError, zlib.error):
        return None


def parse(data: bytes) -> Parsed:
    """The values in a text file.

    Raises:
        ExchangeError: it holds no JSON at all, or is nested too deeply.
    """
    data = _as_utf8(data)
    try:
        return Parsed([orjson.loads(data)])
    except orjson.JSONDecodeError:
        pass
    text, notes = data.decode("utf-8", "replace"), []
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        notes.append("The file holds bytes that are no text (UTF-8); a replacement character stands for each.")
    parsed = _lines(text) or _whole(text) or _broken_off(text) or _mostly_lines(text)
    if parsed is None:
        raise ExchangeError(_NOT_JSON)
    parsed.notes[:0] = notes
    return parsed


def _as_utf8(data: bytes) -> bytes:
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace").encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)


def _lines(text: str) -> Parsed | None:
    """One value a line, if the first line is a whole object and others follow."""
    start = len(text) - len(text.lstrip(_BLANKS))
    end = text.find("\n", start)
    if end < 0 or not isinstance(_loads(text[start:end]), dict):
        return None
    return _all_lines(text)


def _mostly_lines(text: str) -> Parsed | None:
    """One value a line, if at least half of the lines are whole objects."""
    found = _all_lines(text)
    return found if found.values and len(found.values) >= len(found.broken) else None


def _all_lines(text: str) -> Parsed:
    found = Parsed()
    for number, line in enumerate(_split(text), 1):
        if not line.strip(_BLANKS):
            continue
        value = _loads(line)
        if isinstance(value, dict):
            found.values.append(value)
            found.lines.append(number)
        else:
            found.broken.append(number)
    return found


def _split(text: str) -> Iterator[str]:
    """Lines as JSON has them; other line separators may stand within texts."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _whole(text: str) -> Parsed | None:
    """One value with something in it that strict JSON refuses, such as half a character."""
    try:
        return Parsed([json.loads(text)])
    except RecursionError as error:
        raise ExchangeError(_TOO_DEEP) from error
    except ValueError:
        return None


def _broken_off(text: str) -> Parsed | None:
    """The whole elements of a list, or of the chats of ours, up to the place where the file is damaged.

    A file of ours has a chat a line: of a damaged one its first messages are read, and then the chats after it.
    """
    place, head = _list_start(text)
    if place is None:
        return None
    found = Parsed(broken_off=True, head=head)
    found.values, place = _elements(text, place)
    damaged_at = place
    while head and not text.startswith("]", place):
        end = text.find("\n{", place)
        part = _part_of_chat(text[place : end if end >= 0 else len(text)])
        found.values += [part] if part else []
        if end < 0:
            break
        more, place = _elements(text, end)
        found.values += more
    found.notes.append(
        f"The file ends too early or is damaged at character {damaged_at:,} of {len(text):,}; what is whole was read."
    )
    return found


def _elements(text: str, place: int) -> tuple[list[Any], int]:
    """The values from ``place`` on, parted by commas, and where the next one would be."""
    decoder, values = json.JSONDecoder(), []
    try:
        while True:
            while place < len(text) and text[place] in _BLANKS + ",":
                place += 1
            value, place = decoder.raw_decode(text, place)
            values.append(value)
    except RecursionError as error:
        raise ExchangeError(_TOO_DEEP) from error
    except ValueError:
        return values, place


def _part_of_chat(text: str) -> dict[str, Any] | None:
    """A chat of ours that breaks off among its messages, with those before."""
    key = text.find(_MESSAGES)
    chat = _loads(text[:key].rstrip(_BLANKS + ",") + "}") if key >= 0 else None
    if not isinstance(chat, dict):
        return None
    chat["messages"], _ = _elements(text, key + len(_MESSAGES))
    return chat


def _list_start(text: str) -> tuple[int | None, dict[str, Any]]:
    place = len(text) - len(text.lstrip(_BLANKS))
    if text.startswith("[", place):
        return place + 1, {}
    key = text.find(_CHATS, place, place + _HEAD_LIMIT)
    if not text.startswith("{", place) or key < 0:
        return None, {}
    head = _loads(text[place:key].rstrip(_BLANKS + ",") + "}")
    return (key + len(_CHATS), head) if isinstance(head, dict) else (None, {})


_CHATS, _MESSAGES = '"chats":[', '"messages":['
_HEAD_LIMIT = 16 << 20


def _loads(text: str) -> Any:
    """The value of ``text``; None if it is no JSON."""
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
