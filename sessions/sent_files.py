"""What a prompt has of the files of a message, written once when it is sent.

::

    │ user turn                                                                                │
    │ File "notes.md":   ```…```   │ question                      │ passages [1], [2] … of     │
    │ '- sent_before: whole files -'│ '- content, as it was typed -' │ '- sent_after: large ones -'│

Whole files stand before the question: whoever edits it, or asks another one about the same file, finds their blocks
cached. Passages depend on the question and stand after it; a later question gets more of the same documents (see
``quoted_before``). Both texts are stored with the message, so that its turn is the same bytes for ever, whatever
becomes of the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from .wording import counted

RETRIEVAL = """\
These passages of {files} may help to answer. After what you take from one, put its number in brackets, such as [1].

{passages}"""
"""How passages are quoted where the chat's preset says nothing of it.

Placeholders: ``{passages}`` are the passages, each as ``[1] …`` with its file's name; ``{files}`` are the names of the
files that they are from. Where a template has no ``{passages}``, they follow it. Other braces stand for themselves."""

PASSAGES, MORE = "passages", "more"
"""``Source.how``: passages of a file of this message, or of one of a message above it."""

_RUN = re.compile("`+")


@dataclass(frozen=True, slots=True)
class SentPassage:
    """A passage as it was quoted.

    Attributes:
        n: what it is called in the prompt, from 1 over all files of the turn.
        number: its place in its document, from 1.
        start, end: characters of the document's text.
    """

    n: int
    number: int
    start: int
    end: int


@dataclass(slots=True)
class Source:
    """What of one file was sent.

    Attributes:
        sha256: names the content.
        how: "whole", "passages", "more" (passages of a file of a message above), or "none" for a file that a model
            cannot read.
        tokens: of the text that was sent; None where nobody counted.
        of: how many passages the document has.
    """

    sha256: str
    name: str
    how: str
    tokens: int | None = None
    passages: list[SentPassage] = field(default_factory=list)
    of: int = 0

    @property
    def words(self) -> str:
        """For people: "whole (2,310 tokens)", "6 of 212 passages", "3 more of 212 passages" or "not sent"."""
        if self.how == "whole":
            return "whole" if self.tokens is None else f"whole ({counted(self.tokens, 'token')})"
        if self.how not in (PASSAGES, MORE):
            return "not sent"
        more = " more" if self.how == MORE else ""
        return f"{len(self.passages):,}{more} of {self.of:,} passages"


@dataclass(slots=True)
class Sent:
    """All that goes with the text of a message."""

    before: str = ""
    after: str = ""
    sources: list[Source] = field(default_factory=list)

    def columns(self) -> tuple[str | None, str | None, str | None]:
        """As they are stored: texts before and after, and the sources as JSON."""
        return self.before or None, self.after or None, sources_text(self.sources)


class _Carrier(Protocol):
    @property
    def content(self) -> str: ...
    @property
    def sent_before(self) -> str | None: ...
    @property
    def sent_after(self) -> str | None: ...


def sent_text(message: _Carrier) -> str:
    """What a prompt has of a message: the one place where its files and its content come together."""
    return around(message.content, message.sent_before, message.sent_after)


def around(content: str, before: str | None, after: str | None) -> str:
    """A content with what is sent before and after it."""
    return f"{before or ''}{content}{after or ''}"


def file_section(name: str, text: str) -> str:
    """A whole file with its name, closed by a fence that the text itself cannot close."""
    fence = _fence(text)
    return f'File "{_quotable(name)}":\n{fence}\n{text.rstrip()}\n{fence}\n\n'


def passages_section(quoted: Sequence[tuple[int, str, str]], template: str = "") -> str:
    """Numbered passages, after a blank line; nothing for none.

    Args:
        quoted: number, name of the file, text of each.
        template: of the chat's preset; see ``RETRIEVAL``.
    """
    if not quoted:
        return ""
    listed = "\n\n".join(f'[{number}] From "{_quotable(name)}":\n{text.strip()}' for number, name, text in quoted)
    names = ", ".join(dict.fromkeys(f'"{_quotable(name)}"' for _, name, _ in quoted))
    template = template.strip() or RETRIEVAL
    template = template if "{passages}" in template else template + "\n\n{passages}"
    parts = {"{passages}": listed, "{files}": names}
    filled = re.sub(r"\{passages\}|\{files\}", lambda found: parts[found[0]], template)
    return f"\n\n{filled}"


def sources_text(sources: Sequence[Source]) -> str | None:
    """Sources as JSON; None for none."""
    return json.dumps([_plain(one) for one in sources], ensure_ascii=False) if sources else None


def read_sources(text: str | None) -> list[Source]:
    """The inverse of ``sources_text``; what another program wrote and we cannot read is left out."""
    try:
        raw = json.loads(text or "[]")
    except ValueError:
        return []
    return [found for one in raw if (found := _source(one))] if isinstance(raw, list) else []


def _source(raw: Any) -> Source | None:
    try:
        passages = [SentPassage(**{name: int(one[name]) for name in _PASSAGE}) for one in raw.get("passages", [])]
        tokens = raw.get("tokens")
        return Source(
            str(raw["sha256"]),
            str(raw["name"]),
            str(raw["how"]),
            None if tokens is None else int(tokens),
            passages,
            int(raw.get("of", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


_PASSAGE = ("n", "number", "start", "end")


def _plain(one: Source) -> dict[str, Any]:
    found = asdict(one)
    return {name: value for name, value in found.items() if value not in (None, [], 0)}


def _fence(text: str) -> str:
    return "`" * max(3, 1 + max((len(run) for run in _RUN.findall(text)), default=0))


def _quotable(name: str) -> str:
    return name.replace('"', "'")
