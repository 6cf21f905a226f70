"""A long chat with branches of every kind, written straight into a database: for what shows whole trees."""

from __future__ import annotations

import random
import time
from contextlib import closing
from pathlib import Path

from pagedchat.sessions.ids import new_id
from pagedchat.sessions.schema import open_database

MODELS = ("SmolLM2-135M-Instruct", "gemma-3-270m")
_TOPICS = (
    "the block table",
    "copy-on-write",
    "prefix sharing",
    "a rainy weekend",
    "rotary embeddings",
    "the scheduler",
)
_ASKS = ("How does {} work?", "Show me {} in ten lines of Python.", "And what does {} cost?", "Why not leave {} out?")
_ANSWER = (
    "In short, **{0}** is less work than it seems. Sixteen tokens are read in one run, and {1} follows from that.",
    "Let us look at {0} step by step:\n\n1. The position picks a row.\n2. The row names a block.\n\nSo much for {1}.",
    "There are two views of {0}. One is about memory; the other, which {1} shows, is about time.",
)


class BranchedChat:
    """Grows one chat in an open database.

    Attributes:
        session_id: of the chat.
        spine: ids of the shown branch.
    """

    def __init__(self, path: Path, seed: int = 3) -> None:
        self.draw = random.Random(seed)
        self.path = path
        self.session_id = new_id()
        self.spine: list[str] = []
        self.rows: list[tuple[object, ...]] = []
        self.runs: list[tuple[object, ...]] = []
        self.minute = 0

    def add(self, parent: str | None, role: str, text: str, status: str = "done", model: str = MODELS[0]) -> str:
        """One message; returns its id."""
        one = new_id()
        self.minute += 3
        when = time.strftime("%Y-%m-%dT%H:%M:00.000Z", time.gmtime(1_790_000_000 + 60 * self.minute))
        self.rows.append((one, self.session_id, parent, role, status, text, when, when, len(self.rows)))
        if role == "assistant":
            self.runs.append((one, model, '{"temperature": 0.7}', when))
        return one

    def ask(self) -> str:
        return self.draw.choice(_ASKS).format(self.draw.choice(_TOPICS))

    def answer(self) -> str:
        return self.draw.choice(_ANSWER).format(*self.draw.sample(_TOPICS, 2))

    def turn(self, parent: str | None, depth: int = 0) -> str:
        """A question and its reply under ``parent``, now and then with other versions; returns the reply's id."""
        question = self.add(parent, "user", self.ask())
        for _ in range(self.draw.choice((0, 0, 0, 0, 0, 0, 1, 2)) if depth < 3 else 0):
            other = self.add(question, "assistant", self.answer(), self.draw.choice(("done", "done", "stopped")))
            for _ in range(self.draw.choice((0, 0, 1, 6))):
                other = self.turn(other, depth + 1)
        if depth == 0 and self.draw.random() < 0.06:
            edited = self.add(parent, "user", "No: " + self.ask())
            self.add(edited, "assistant", self.answer(), self.draw.choice(("done", "error")), MODELS[1])
        reply = self.add(question, "assistant", self.answer())
        if depth == 0:
            self.spine += [question, reply]
        return reply

    def write(self) -> str:
        """Store all of it, the spine shown; returns the chat's id."""
        place = {one: at for at, one in enumerate(self.spine)}
        rows = [(*row[:8], 1_000_000 + place[str(row[0])] if row[0] in place else row[8]) for row in self.rows]
        with closing(open_database(self.path, busy_timeout_s=5.0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO sessions (id, title, title_by, created_at, updated_at) VALUES (?, ?, 'user', ?, ?)",
                [self.session_id, "A long chat about paging", rows[0][6], rows[-1][6]],
            )
            connection.executemany(
                "INSERT INTO messages (id, session_id, parent_id, role, status, content, created_at, updated_at, shown)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            connection.executemany(
                "INSERT INTO generations (message_id, run, model, params, started_at) VALUES (?, 1, ?, ?, ?)", self.runs
            )
            head = [self.spine[-1], self.session_id]
            connection.execute("UPDATE sessions SET head_id = ? WHERE id = ?", head)
            connection.execute("COMMIT")
        return self.session_id


def branched_chat(path: Path, turns: int = 300, seed: int = 3) -> BranchedChat:
    """A chat of so many turns on its shown branch, stored in ``path``."""
    chat = BranchedChat(path, seed)
    parent = None
    for _ in range(turns):
        parent = chat.turn(parent)
    chat.write()
    return chat
