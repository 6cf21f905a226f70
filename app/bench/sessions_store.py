"""A large store for ``bench sessions``: chats of made-up words, in the real schema, all of it from one seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random

from ...sessions import search_index
from ...sessions.connection import Connection
from ...sessions.ids import new_id
from ...sessions.rows import pack
from ...sessions.schema import open_database
from .words import COMMON

RARE = "zyzzyva"
"""A word that three messages have."""

CJK = "北京大学"
"""A phrase in every tenth Chinese paragraph."""

MODEL = "made-up-model"
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
_PARAGRAPHS, _TAIL, _HAN = 3000, 30_000, 2500
_COLUMNS = "id, session_id, parent_id, role, status, created_at, updated_at, shown, content"
_PUT_MESSAGE = f"INSERT INTO messages ({_COLUMNS}) VALUES (?, ?, ?, ?, 'done', ?, ?, ?, ?)"
_PUT_SESSION = (
    "INSERT INTO sessions (id, title, title_by, head_id, model, folder_id, archived, created_at, updated_at) "
    "VALUES (?, ?, 'words', NULL, ?, ?, ?, ?, ?)"
)
_PUT_RUN = (
    "INSERT INTO generations (message_id, run, model, model_fingerprint, params, seed, started_at, finish_reason, "
    "prompt_tokens, completion_tokens) VALUES (?, 1, ?, 'made-up', ?, 7, ?, 'stop', 900, 200)"
)
_PUT_TOKENS = (
    "INSERT INTO message_tokens (message_id, fingerprint, header_tokens, token_ids) VALUES (?, 'made-up', 0, ?)"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the store is.

    Attributes:
        messages: in all sessions, those of the long one included, about.
        long_messages: messages on the shown branch of the long session.
        long_characters: characters of all of them.
    """

    messages: int = 100_000
    sessions: int = 5000
    long_messages: int = 1500
    long_characters: int = 30_000_000


@dataclass(frozen=True, slots=True)
class Made:
    """What was made.

    Attributes:
        long_id: the long session.
        forked_id: a message with siblings near the beginning of the long session.
        middle_id: the last message of a session of ordinary length.
        common: a word that most messages have.
        text_mb: characters in all messages, in millions.
    """

    long_id: str
    forked_id: str
    middle_id: str
    common: str
    text_mb: float


class _Texts:
    """Paragraphs with a few words very often and many rarely, one in ten in Chinese."""

    def __init__(self, random: Random) -> None:
        self._random = random
        words = COMMON + ["".join(random.choices(_SYLLABLES, k=random.randint(2, 4))) for _ in range(_TAIL)]
        weights = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
        han = [chr(0x4E00 + 7 * rank) for rank in range(_HAN)]
        han_weights = list(accumulate(1 / (rank + 10) for rank in range(_HAN)))
        self.common = words[0]
        self._words, self._weights = words, weights
        self._paragraphs: list[str] = []
        for number in range(_PARAGRAPHS):
            if number % 10 == 0:
                run = "".join(random.choices(han, cum_weights=han_weights, k=random.randint(20, 120)))
                self._paragraphs.append(run + ("，" + CJK if number % 100 == 0 else "") + "。")
            else:
                self._paragraphs.append(self.words(random.randint(20, 140)) + ".")
        for number in range(5, _PARAGRAPHS, 25):
            self._paragraphs[number] = f"```python\n{self._paragraphs[number]}\n```"

    def words(self, number: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=number))

    def text(self, characters: int) -> str:
        """At least so many characters, in whole paragraphs."""
        parts: list[str] = []
        length = 0
        while length < characters:
            parts.append(self._random.choice(self._paragraphs))
            length += len(parts[-1]) + 2
        return "\n\n".join(parts)


def make_store(path: Path, shape: Shape, seed: int, tell: Callable[[str], None]) -> Made:
    """Write a database at ``path``, which must not be there.

    Args:
        tell: is told what is done now.
    """
    maker = _Maker(Random(seed), shape)
    writer = Connection(open_database(path, busy_timeout_s=5.0), path)
    try:
        tell(f"writing {shape.messages:,} messages")
        with writer.transaction(durable=False) as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            connection.execute("INSERT INTO folders (id, name, created_at) VALUES ('work', 'Work', '')")
            for statement, rows in maker.rows():
                connection.executemany(statement, rows)
        tell("filling the search index")
        with writer.transaction(durable=False) as connection:
            search_index.rebuild(connection)
        writer.shorten_log()
    finally:
        writer.close()
    return maker.made()


class _Maker:
    def __init__(self, random: Random, shape: Shape) -> None:
        self._random, self._shape = random, shape
        self._texts = _Texts(random)
        self._long_id = self._forked_id = self._middle_id = ""
        self._characters = 0
        self._left = shape.messages
        self._moment = datetime.now(UTC) - timedelta(days=2 * 365)

    def made(self) -> Made:
        return Made(self._long_id, self._forked_id, self._middle_id, self._texts.common, self._characters / 1e6)

    def rows(self) -> Iterator[tuple[str, list[tuple]]]:
        """(statement, rows) of one session after the other."""
        shape = self._shape
        for number in range(shape.sessions):
            last = number == shape.sessions - 1
            rest = shape.sessions - number - 1
            if last:
                size = shape.long_messages
            else:
                size = max(2, round((self._left - shape.long_messages) / rest * self._random.uniform(0.3, 1.7)) & ~1)
            self._moment += timedelta(days=2 * 365) / shape.sessions
            yield from self._session(number, size, long=last)

    def _session(self, number: int, size: int, *, long: bool) -> Iterator[tuple[str, list[tuple]]]:
        random, session_id = self._random, new_id()
        self._left -= size
        characters = self._shape.long_characters // size if long else 0
        messages, runs, tokens = [], [], []
        parent, started = None, self._moment
        for place in range(size):
            message_id, role = new_id(), "assistant" if place % 2 else "user"
            text = self._texts.text(characters or (random.randint(40, 400) if role == "user" else 900))
            if number in (3, 30, 300) and place == 1:
                text += f" {RARE}"
            self._characters += len(text)
            time = _iso(started + timedelta(seconds=40 * place))
            messages.append((message_id, session_id, parent, role, time, time, place + 1, text))
            if role == "assistant":
                runs.append((message_id, MODEL, json.dumps({"temperature": 0.7}), time))
            if long:
                tokens.append((message_id, pack([random.randrange(50_000)] * (len(text) // 5))))
                if place == 3:  # a second version, below which nothing was written
                    self._forked_id = new_id()
                    messages.append((self._forked_id, session_id, parent, role, time, time, 0, "Another version."))
            parent = message_id
        if long:
            self._long_id = session_id
        elif number == self._shape.sessions // 2:
            self._middle_id = str(parent)
        folder = "work" if number % 50 == 0 else None
        stamp = _iso(started + timedelta(seconds=40 * size))
        title = self._texts.words(6)
        yield _PUT_SESSION, [(session_id, title, MODEL, folder, int(number % 10 == 0), _iso(started), stamp)]
        yield _PUT_MESSAGE, messages
        yield "UPDATE sessions SET head_id = ? WHERE id = ?", [(parent, session_id)]
        yield _PUT_RUN, runs
        yield _PUT_TOKENS, tokens


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
