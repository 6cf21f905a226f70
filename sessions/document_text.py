"""The text of a file: what its bytes say, or one sentence about why a model cannot read them.

Looks at the bytes first and at the name only where they say nothing. Everything that is text is read as it is, in
UTF-8, in UTF-16 or UTF-32 with a mark, else in Windows' Latin letters. PDF: see ``pdf_text``.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import unicodedata

from . import pdf_text
from .checks import clean_text
from .extracted import MOST_CHARACTERS, Extract

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_IMAGES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0", b"8BPS")
_SOUNDS = (b"ID3", b"fLaC", b"OggS", b"\xff\xfb", b"\xff\xf3", b"\xff\xf1", b"\xff\xf9", b"MThd", b".snd", b"#!AMR")
_FORMS = {b"WEBP": "image", b"WAVE": "sound", b"AVI ": "video", b"AIFF": "sound", b"AIFC": "sound"}
_BRANDS = {b"heic": "image", b"heix": "image", b"mif1": "image", b"avif": "image", b"M4A ": "sound", b"M4B ": "sound"}
_KINDS = {"image": "an image", "sound": "a recording", "video": "a video"}
_OFFICE = ("docx", "doc", "odt", "rtf", "xlsx", "xls", "ods", "pptx", "ppt", "odp", "pages", "epub")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_PLAIN_CONTROLS = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT = 1 << 16
_FEW = 400
"""Of so many bytes one control may be an accident in a text of old letters."""


async def extract(data: bytes, name: str) -> Extract:
    """The text of a file, found beside the event loop.

    Args:
        name: for its ending, which says what kind a file of unknown bytes is.
    """
    if not data:
        return Extract(None, "The file is empty.")
    if pdf_text.is_pdf(data):
        return await asyncio.to_thread(_checked, await pdf_text.read(data))
    return await asyncio.to_thread(_extract, data, name)


def _extract(data: bytes, name: str) -> Extract:
    kind = _kind(data)
    if kind is not None:
        return Extract(None, f"This model reads text only; {_KINDS[kind]} cannot be sent, so say what is in it.")
    text = _decoded(data)
    if text is None:
        return Extract(None, _unreadable(name))
    return _checked(Extract(text))


def tidy(text: str) -> str:
    """A text with line feeds as its line ends, without controls that no reader sees and a tokenizer may choke on."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n").replace("\v", "\n")
    return _CONTROLS.sub("", clean_text(text))


def _checked(found: Extract) -> Extract:
    if found.text is None:
        return found
    text = tidy(found.text)
    if len(text) > MOST_CHARACTERS:
        limit = f"{MOST_CHARACTERS:,}"
        return Extract(None, f"The file has {len(text):,} characters, but {limit} can be read; attach a part of it.")
    return Extract(text) if text.strip() else Extract(None, "The file has nothing in it but blanks.")


def _kind(data: bytes) -> str | None:
    if data.startswith(b"RIFF") or data.startswith(b"FORM"):
        return _FORMS.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video")
    if data.startswith(b"\x1aE\xdf\xa3"):
        return "video"
    if data.startswith(_IMAGES) and not _is_text(data):
        return "image"
    return "sound" if data.startswith(_SOUNDS) and not _is_text(data) else None


def _is_text(data: bytes) -> bool:
    """Whether bytes that begin like some other kind of file are letters all the same."""
    return data[:_LOOKED_AT].isascii() and not _PLAIN_CONTROLS.search(data[:_LOOKED_AT])


def _decoded(data: bytes) -> str | None:
    """The text that the bytes spell; None if they are none."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded_as(data, encoding)
    if b"\0" in data[:_LOOKED_AT]:
        return None
    text = _decoded_as(data, "utf-8")
    if text is not None:
        return text if _few_controls(data) else None
    if not _few_controls(data):
        return None
    old = _decoded_as(data, "cp1252") or data.decode("latin-1")
    letters = sum(unicodedata.category(one)[0] in "LNPZS" or one in "\n\r\t" for one in old[:_LOOKED_AT])
    return old if letters >= 0.97 * len(old[:_LOOKED_AT]) else None


def _few_controls(data: bytes) -> bool:
    part = data[:_LOOKED_AT]
    return len(_PLAIN_CONTROLS.findall(part)) <= len(part) // _FEW


def _decoded_as(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeError:
        return None


def _unreadable(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    if ending in _OFFICE:
        return f"A .{ending} file cannot be read; save it as a PDF or as text and attach that."
    return "Only text, Markdown, code, CSV, JSON and PDF files can be read, and this is none of them."
