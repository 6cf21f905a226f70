"""Processes that are killed (SIGKILL) at random moments: what they were told is stored must be there.

One trial is one database and one or two kills: while chats are written, in a migration, while a copy is made, while a
copy is put in the database's place. Processes are forked, so that a trial costs little more than the time it lives.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from pagedchat.sessions.backups import backup_folder, list_backups
from pagedchat.sessions.reply_job import SAVE_INTERVAL_S
from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.versions import MIGRATION_NAMES
from support.forked import kill, start_fork
from support.older_versions import facts, sample, version_of
from support.stored_chats import add_chats, texts
from trials import kill_scenes
from trials.kill_scenes import SCRIPT, Teller, digest

MOST_LOST_S = 0.3
"""Text of a running reply that a kill may take, in seconds before it."""
QUICK_WRITE_S = MOST_LOST_S - SAVE_INTERVAL_S
"""What a write may take for that: where it waits longer for other writes or the disk, so much more may be lost."""
LATE_TIMER_S = 0.05
"""How late a busy machine may wake the process up to save."""
_SHARES = {"chats": 10, "migrate": 4, "copy": 3, "restore": 3}
_START_S = 20.0


def trial(draw: random.Random) -> Counter[str]:
    """One trial. Raises AssertionError when anything is lost or damaged."""
    kind = draw.choices(list(_SHARES), list(_SHARES.values()))[0]
    with tempfile.TemporaryDirectory(prefix="kills ß ") as folder:
        notes = {"chats": _chats, "migrate": _migrate, "copy": _copy, "restore": _restore}[kind](Path(folder), draw)
    return Counter({f"kills: {kind}": 1}) + notes


# -- the four kinds -------------------------------------------------------------------------------------------------


def _chats(folder: Path, draw: random.Random) -> Counter[str]:
    path, told, notes = folder / "sessions.db", Told(), Counter()
    for _ in range(draw.randint(1, 2)):
        told.take(_killed(kill_scenes.chats, path, draw, draw.uniform(0.0, 0.5)))
        _check_sound(path)
        store = SessionStore(path)
        store.interrupt_running()
        assert store.interrupt_running() == 0
        for session in store.sessions():
            shown = store.shown_branch(session.id)[1]
            assert (session.head_id is None) == (not shown), "the head of a chat leads nowhere"
        store.close()
        notes += told.check(path)
    return notes


def _migrate(folder: Path, draw: random.Random) -> Counter[str]:
    version = draw.randrange(1, len(MIGRATION_NAMES))
    path = sample(version, folder)
    before = facts(path)
    _killed(kill_scenes.migrate, path, draw, draw.uniform(0.0, 0.12), wait=False)
    found, _ = state = version_of(path)
    assert state in ((version, version), (len(MIGRATION_NAMES),) * 2), "neither the old version nor the new one"
    _check_same(before, path)
    SessionStore(path).close()
    _check_same(before, path)
    copies = list_backups(path)
    assert len(copies) == 1 or (found == version and len(copies) == 2)
    assert all(facts(one.path) == before for one in copies)
    return Counter({"migrations undone": found == version, "migrations done": found != version})


def _copy(folder: Path, draw: random.Random) -> Counter[str]:
    path = folder / "sessions.db"
    shutil.copyfile(_base()[1], path)
    told = Told()
    told.take(_killed(kill_scenes.copy, path, draw, draw.uniform(0.0, 0.15)))
    _check_sound(path)
    before = texts(_base()[1])
    copies = list_backups(path)
    assert {one.name for one in copies} >= told.copies
    for one in copies:
        _check_sound(one.path)
        assert before.items() <= texts(one.path).items(), "a copy lacks what was there before it"
    return told.check(path) + Counter({"copies": len(copies)})


def _restore(folder: Path, draw: random.Random) -> Counter[str]:
    path = folder / "sessions.db"
    backup_folder(path).mkdir()
    states = [texts(one) for one in _base()]
    for source, name in zip(_base(), ("old.db", "new.db"), strict=True):
        shutil.copyfile(source, backup_folder(path) / name)
    shutil.copyfile(_base()[1], path)
    _write_into_log(path)
    written = texts_after_a_kill(path)
    told = Told()
    told.take(_killed(kill_scenes.bring_back, path, draw, draw.uniform(0.0, 0.1)))
    SessionStore(path).close()
    _check_sound(path)
    assert texts(path) in [*states, written], "the database is none of the states that it had"
    kept = [texts(one.path) for one in list_backups(path)]
    assert written in [*kept, texts(path)], "what lay there before is nowhere"
    return Counter({"restores": told.restored})


# -- the parent's side ----------------------------------------------------------------------------------------------


class Told:
    """What the killed processes said was safe."""

    def __init__(self) -> None:
        self.messages: dict[str, tuple[str, str]] = {}
        self.chats: set[str] = set()
        self.imported: dict[str, int] = {}
        self.copies: set[str] = set()
        self.restored = 0
        self.running: dict[str, list[tuple[float, int]]] = {}
        self._last = 0.0
        self._saving: dict[str, float] = {}
        self._took: dict[str, float] = {}

    def take(self, lines: list[dict[str, Any]]) -> None:
        """Take in what one process said."""
        self.running, self._saving, self._took = {}, {}, {}
        for line in lines:
            self._last = line.get("at", self._last)
            if "delta" in line:
                self.running.setdefault(line["delta"], []).append((line["at"], line["length"]))
            elif "saving" in line:
                self._saving[line["saving"]] = line["at"]
            elif "saved" in line:
                self._took[line["saved"]] = line["at"] - self._saving.pop(line["saved"])
            elif "message" in line:
                self.messages[line["message"]] = (line["text"], line["status"])
                self.running.pop(line["message"], None)
            elif "chat" in line:
                self.chats.add(line["chat"])
            elif "imported" in line:
                self.imported[line["imported"]] = line["messages"]
            elif "copy" in line:
                self.copies.add(line["copy"])
            self.restored += "restored" in line

    def check(self, path: Path) -> Counter[str]:
        """Compare with the database after the next start."""
        with closing(sqlite3.connect(path)) as connection:
            rows = {row[0]: row[1:] for row in connection.execute("SELECT id, content, status, hidden FROM messages")}
            chats = {row[0] for row in connection.execute("SELECT id FROM sessions")}
            counts = dict(connection.execute("SELECT session_id, count(*) FROM messages GROUP BY 1").fetchall())
        for message, (text, status) in self.messages.items():
            assert message in rows, f"the message {message} was acknowledged and is gone"
            assert digest(rows[message][0]) == text, f"the message {message} is another one"
            assert rows[message][1] == status, f"{message} was {status} and is {rows[message][1]}"
        assert self.chats | self.imported.keys() <= chats, "a chat that was acknowledged is gone"
        for chat, count in self.imported.items():
            assert counts.get(chat, 0) >= count, "an imported chat came in part"
        slow = [self._check_partial(rows[reply], reply, deltas) for reply, deltas in self.running.items()]
        cut = Counter({"replies cut off": len(slow), "of them with a slow write": sum(one > 0 for one in slow)})
        return Counter({"messages acknowledged": len(self.messages)}) + cut

    def _check_partial(self, row: tuple[str, str, int], reply: str, deltas: list[tuple[float, int]]) -> float:
        """Seconds that its last writes waited beyond what they may."""
        content, status, hidden = row
        pending = self._last - self._saving.get(reply, self._last)
        slow = max(0.0, max(pending, self._took.get(reply, 0.0)) - QUICK_WRITE_S)
        before = self._last - MOST_LOST_S - slow - LATE_TIMER_S
        must_have = max((length for at, length in deltas if at < before), default=0)
        assert status in ("interrupted", "done", "stopped"), f"a reply that was cut off is {status}"
        assert SCRIPT.startswith(content), "the text of a reply is not what was written"
        age = self._last - deltas[0][0]
        assert len(content) >= must_have, (
            f"{must_have} characters were there for 0.3 s, {len(content)} are stored; the first {age:.3f} s ago, "
            f"the last save took {self._took.get(reply, -1):.3f} s, one has been waiting for {pending:.3f} s"
        )
        assert bool(content) is not bool(hidden)
        return slow


def _killed(
    scene: Callable, path: Path, draw: random.Random, after_s: float, *, wait: bool = True
) -> list[dict[str, Any]]:
    """Run a scene in a process, kill it so long after it was ready; what it said."""
    reading, writing = os.pipe()
    child_draw = random.Random(draw.random())

    def work() -> None:
        os.close(reading)
        scene(path, child_draw, Teller(writing))

    child = start_fork(work)
    os.close(writing)
    said, end, deadline = b"", None if wait else time.monotonic() + after_s, time.monotonic() + _START_S
    try:
        while time.monotonic() < (end or deadline):
            if select.select([reading], [], [], max(0.0, (end or deadline) - time.monotonic()))[0]:
                said += (part := os.read(reading, 1 << 16))
                if not part:
                    break
            end = end or (time.monotonic() + after_s if said else None)
    finally:
        status = kill(child)
    while part := os.read(reading, 1 << 16):
        said += part
    os.close(reading)
    assert status in (-9, 0) and (status == -9 or not wait), f"the process ended by itself: {status}"
    assert said or not wait, "the process was never ready"
    return [json.loads(line) for line in said.split(b"\n")[:-1]]


def _check_sound(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchone() is None


def _check_same(before: dict[str, object], path: Path) -> None:
    after = facts(path)
    assert {name: after[name] for name in before} == before, "a row changed or is gone"


def _write_into_log(path: Path) -> None:
    def work() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE messages SET content = 'only in the log' WHERE key = 1")
        os._exit(0)

    os.waitpid(start_fork(work), 0)


def texts_after_a_kill(path: Path) -> dict[str, tuple[str, str, str]]:
    """The texts of a database with a log, which is left as it is."""
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", f"{folder}/copy.db{end}")
        return texts(Path(folder) / "copy.db")


@cache
def _base() -> tuple[Path, Path]:
    """An old state of a database and a later one."""
    folder = Path(tempfile.mkdtemp(prefix="kills-base-"))
    add_chats(folder / "old.db", 2, 10)
    shutil.copyfile(folder / "old.db", folder / "new.db")
    add_chats(folder / "new.db", 2, 10, seed=1)
    return folder / "old.db", folder / "new.db"
