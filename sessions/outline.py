"""A chat's whole tree in outline: of each message what it begins with and where it hangs. Reads only.

One pass over the chat's rows. The answer is made of columns, one entry a message, because a list of objects would
spell each name a hundred thousand times.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from . import turns
from .connection import Connection
from .search_text import fold
from .views import View

LONGEST = 120
"""Characters of a message that an outline has."""
_READ = 400  # characters that are looked at for them: blanks and signs of Markdown do not count
_AT_ONCE = 1_000_000  # characters that are searched before another reader gets a turn
_ROLES = {"user": "u", "assistant": "a", "system": "s", "tool": "t"}
_TEXT = "CASE WHEN m.content != '' THEN m.content ELSE coalesce(m.reasoning, '') END"
_NODES = f"""
SELECT m.id, m.parent_id, m.role, m.status, m.shown, m.created_at, m.kind, substr({_TEXT}, 1, {_READ}), length({_TEXT}),
    (SELECT g.model FROM generations g WHERE g.message_id = m.id ORDER BY g.run DESC LIMIT 1)
FROM messages m WHERE m.session_id = ? AND m.hidden = 0 AND m.deleted_at IS NULL ORDER BY m.key
"""
_TEXTS = """
SELECT m.key, m.id, m.content, m.reasoning FROM (
    SELECT key FROM messages WHERE session_id = ? AND hidden = 0 AND deleted_at IS NULL AND key > ?
    ORDER BY key LIMIT -1
) part CROSS JOIN messages m ON m.key = part.key
"""
"""Keys are put in order before any text is read: a part of a long chat costs what is in the part."""


class Outlines:
    """The outlines of one database's chats.

    Args:
        reader: the connection that reads.
    """

    def __init__(self, reader: Connection) -> None:
        self._reader = reader

    def outline(self, session_id: str) -> View:
        """Every visible message of a chat in the order in which they were made, as columns.

        ``ids``; ``parents`` (places in ``ids``, -1 for none); ``roles`` (a letter each); ``statuses`` and ``kinds``
        by place, of those that are not "done" and no turn; ``texts`` (the first words); ``times`` (seconds since
        1970); ``lengths`` (characters); ``models`` (places in ``names``, -1 for none); ``shown`` (the greater, the
        later it ended the shown branch).

        Raises:
            SessionError: there is no such chat.
        """
        with self._reader.reading() as connection:
            session = turns.session(connection, session_id)
            rows = connection.execute(_NODES, [session_id]).fetchall()
        return {"head_id": session.head_id, **_columns(rows)}

    def find(self, session_id: str, words: str, after: int = 0) -> tuple[list[str], int | None]:
        """A part of a chat's messages, searched: ids of those that have all of these words, in the order made.

        Args:
            words: each may be a part of one in the text.
            after: where the part before ended.

        Returns:
            The ids, and where this part ends; None at the end of the chat.

        Raises:
            SessionError: there is no such chat.
        """
        wanted = fold(words).split()
        found: list[str] = []
        searched = 0
        with self._reader.reading() as connection:
            turns.session(connection, session_id)
            rows = connection.execute(_TEXTS, [session_id, after]) if wanted else ()
            for key, one, content, reasoning in rows:
                text = fold(f"{content}\n{reasoning}" if reasoning else content)
                searched += len(text)
                if all(word in text for word in wanted):
                    found.append(one)
                if searched >= _AT_ONCE:
                    return found, key
        return found, None


def node_view(message: View) -> View:
    """A message, as pages see it, as an outline has it."""
    text = message["content"] or message["reasoning"] or ""
    return {
        "id": message["id"],
        "parent": message["parent_id"],
        "role": _ROLES.get(message["role"], "s"),
        "status": message["status"],
        "kind": message["kind"],
        "text": beginning(text[:_READ]),
        "time": _seconds(message["created_at"]),
        "length": len(text),
        "model": (message["generation"] or {}).get("model"),
        "hidden": message["hidden"] or message["deleted_at"] is not None,
    }


def beginning(text: str) -> str:
    """The first words of a text on one line, without the signs that make a heading, a list or bold type of them."""
    line = " ".join(text[:_READ].replace("```", " ").split()).lstrip("#*_>`- ").replace("**", "").replace("`", "")
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def _columns(rows: list[sqlite3.Row]) -> View:
    places = {row[0]: place for place, row in enumerate(rows)}
    names: dict[str, int] = {}
    statuses: dict[str, str] = {}
    kinds: dict[str, str] = {}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("ids", "parents", "texts", "times", "lengths", "models", "shown")
    }
    put = [column.append for column in columns.values()]
    roles = []
    for place, (one, parent, role, status, shown, created_at, kind, text, length, model) in enumerate(rows):
        named = -1 if model is None else names.setdefault(model, len(names))
        seconds = _seconds(created_at)
        for add, value in zip(
            put, (one, places.get(parent, -1), beginning(text), seconds, length, named, shown), strict=True
        ):
            add(value)
        roles.append(_ROLES.get(role, "s"))
        if status != "done":
            statuses[str(place)] = status
        if kind is not None:
            kinds[str(place)] = kind
    return {**columns, "roles": "".join(roles), "statuses": statuses, "kinds": kinds, "names": list(names)}


def _seconds(moment: str) -> int:
    """Seconds since 1970; 0 where a file that was brought in says none."""
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except (TypeError, ValueError):
        return 0
