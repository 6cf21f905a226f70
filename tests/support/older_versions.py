"""Databases as earlier versions wrote them (see ``store_sample``), and what must not change in them."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from pagedchat.sessions.backups import row_counts

SAMPLES = Path(__file__).parents[1] / "data" / "store"


def sample(version: int, folder: Path) -> Path:
    """A fresh copy of the database that this version wrote."""
    path = folder / "sessions.db"
    path.write_bytes(zlib.decompress((SAMPLES / f"version_{version}.db.z").read_bytes()))
    return path


def facts(path: Path) -> dict[str, object]:
    """What must not change: rows of every table, messages by status and role, texts, trees, tokens by chat."""
    queries = {
        "statuses": "SELECT status, hidden, role, count(*) FROM messages GROUP BY 1, 2, 3",
        "messages": "SELECT key, id, session_id, parent_id, role, content, reasoning, shown, created_at FROM messages",
        "sessions": "SELECT key, id, title, head_id, system_prompt, params, updated_at, deleted_at FROM sessions",
        "generations": "SELECT message_id, run, model, params, seed, prompt_tokens, completion_tokens FROM generations",
        "tokens": "SELECT message_id, fingerprint, header_tokens, token_ids FROM message_tokens",
        "tokens by status": "SELECT status, sum(length(token_ids)) FROM messages m JOIN message_tokens t "
        "ON t.message_id = m.id GROUP BY 1",
        "system": "SELECT * FROM system_tokens",
    }
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchone() is None
        found: dict[str, object] = {name: sorted(connection.execute(sql), key=repr) for name, sql in queries.items()}
        counts = row_counts(connection)
    counts.pop("_sqlite_migrations")
    counts.pop("state")
    return found | {f"rows of {name}": count for name, count in counts.items()}


def version_of(path: Path) -> tuple[int, int]:
    """(user_version, steps noted as applied)."""
    with closing(sqlite3.connect(path)) as connection:
        steps_done = connection.execute("SELECT count(*) FROM _sqlite_migrations").fetchone()[0]
        return connection.execute("PRAGMA user_version").fetchone()[0], steps_done
