"""What an import did: the chats it brought, what it left out and why, what it mended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..errors import SessionError
from ..wording import counted

MOST_LINES = 500
"""Entries of one kind that a report spells; the rest are counted."""

MENDS = {
    "again": "messages that were in the file twice, word for word, and taken once",
    "same id": "messages with the id of a different one; both were kept",
    "no id": "messages without an id; they got one",
    "no parent": "messages that answer one that is not in the file; each begins a branch of its own",
    "cycle": "circles of messages that answer each other; each was opened at its oldest message",
    "role": "messages with a role that is not known, taken as a question or a reply by their place",
    "time": "messages without a time that can be; they got that of the message above",
    "future": "messages from the future by this computer's clock; their times were kept",
    "head": "the message shown last is not in the file or says nothing; the last branch is shown",
    "streaming": "replies that were still being written; they are marked as interrupted",
    "text": "messages with something else than text, which was written as text",
    "broken": "messages that could not be read and were left out",
    "kind": "messages of a kind that is not known here; what they say was written as text",
    "tools": "messages that call tools; the calls were written as text",
    "attachment": "attachments that are not in the file; their names were written into the message",
    "param": "settings that are not known or have no meaning here; they were left out",
    "tokens": "lists of token ids that could not be read; they were left out",
    "head inside": "the chat ended in the middle of a branch; its end is shown",
}
"""Repairs by kind; a report adds how many where it is more than one."""


_ONCE = ("head", "head inside")


class ExchangeError(SessionError):
    """A file that cannot be imported, or a format that does not exist. Nothing was stored."""


class UnknownFormat(ExchangeError):
    """A file that no reader knows."""


class Mends(Counter[str]):
    """How often each kind of ``MENDS`` was needed in one chat."""

    def sentences(self) -> list[str]:
        """What was mended, one sentence a kind."""
        return [MENDS[kind] + (f": {count:,}" if kind not in _ONCE else "") for kind, count in self.items() if count]


@dataclass
class ImportedChat:
    """A chat that is now in the database.

    Attributes:
        seen_before: the same chat had been imported already, or is the one that was exported.
    """

    id: str
    title: str
    messages: int
    seen_before: bool = False
    repairs: list[str] = field(default_factory=list)


@dataclass
class Report:
    """An import.

    Attributes:
        format: of the file: a key of ``formats.FORMATS``; "" while nothing was recognised.
        skipped: {"chat", "reason"}: what was left out.
        notes: about the file as a whole.
        folders: names of folders that were made.
        new_presets: how many presets were made.
    """

    file: str = ""
    format: str = ""
    chats: list[ImportedChat] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    new_presets: int = 0

    def skip(self, chat: str, reason: str) -> None:
        """Note something that is not imported."""
        self.skipped.append({"chat": chat, "reason": reason})

    @property
    def summary(self) -> str:
        """One sentence for a person."""
        messages = sum(one.messages for one in self.chats)
        chats, said = counted(len(self.chats), "chat"), counted(messages, "message")
        parts = [f"{chats} with {said} imported" if self.chats else "Nothing was imported"]
        if again := sum(one.seen_before for one in self.chats):
            parts.append(f"{again} of them had been here before")
        if self.skipped:
            parts.append(f"{len(self.skipped)} left out")
        if mended := sum(bool(one.repairs) for one in self.chats):
            parts.append(f"{mended} mended")
        return "; ".join(parts) + "."

    def to_view(self) -> dict[str, Any]:
        """As JSON: counts are of everything, lists end at ``MOST_LINES``."""
        return {
            "file": self.file,
            "format": self.format,
            "summary": self.summary,
            "imported": len(self.chats),
            "messages": sum(one.messages for one in self.chats),
            "seen_before": sum(one.seen_before for one in self.chats),
            "left_out": len(self.skipped),
            "chats": [_chat_view(one) for one in self.chats[:MOST_LINES]],
            "skipped": self.skipped[:MOST_LINES],
            "notes": self.notes[:MOST_LINES],
            "folders": self.folders[:MOST_LINES],
        }


def _chat_view(chat: ImportedChat) -> dict[str, Any]:
    return {
        "id": chat.id,
        "title": chat.title,
        "messages": chat.messages,
        "seen_before": chat.seen_before,
        "repairs": chat.repairs,
    }
