"""What the questions above one quote of documents, so that it quotes what fits itself best, and nothing twice.

::

    │ q1 "where is the oak?"  big.txt: [1] 17, [2] 18 │ r1 │ q2 "and the ship?"  more of big.txt: [3] 5, [4] 30 │
    '---- stored with q1, as it was sent -------------'                          '- at the end: the prefix stays -'
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import tree, turns
from .sent_files import MORE, PASSAGES, read_sources

_SOURCES = """
SELECT m.id, m.role, m.sources FROM json_each(?) one CROSS JOIN messages m ON m.id = one.value
WHERE m.sources IS NOT NULL ORDER BY one.key
"""
_ANY = "SELECT 1 FROM attachments WHERE session_id = ? AND message_id IS NOT NULL AND deleted_at IS NULL LIMIT 1"


@dataclass(slots=True)
class QuotedBefore:
    """Documents of which a branch quotes passages.

    Attributes:
        names: of the documents, by the SHA-256 of their bytes, in the order they came in.
        places: of each, the places of the passages that are quoted, from 0.
        last: the highest number that a passage has there.
    """

    names: dict[str, str] = field(default_factory=dict)
    places: dict[str, set[int]] = field(default_factory=dict)
    last: int = 0


def quoted_before(sources: Iterable[str]) -> QuotedBefore:
    """What questions quote.

    Args:
        sources: of each, from the root down, as they are stored.
    """
    found = QuotedBefore()
    for text in sources:
        for source in read_sources(text):
            if source.how not in (PASSAGES, MORE):
                continue
            found.names.setdefault(source.sha256, source.name)
            quoted = found.places.setdefault(source.sha256, set())
            quoted.update(one.number - 1 for one in source.passages)
            found.last = max([found.last, *(one.n for one in source.passages)])
    return found


def sources_above(connection: sqlite3.Connection, session_id: str, parent_id: str) -> list[str]:
    """What the questions above one that goes under ``parent_id`` sent of files, as stored, from the root down.

    Raises:
        SessionError: see ``turns.question_place``.
    """
    place = turns.question_place(connection, session_id, parent_id)
    if place is None or connection.execute(_ANY, [session_id]).fetchone() is None:
        return []
    return [sources for _, role, sources in sources_down_to(connection, place) if role == "user"]


def sources_down_to(connection: sqlite3.Connection, message_id: str) -> list[tuple[str, str, str]]:
    """(id, role, sources as stored) of the messages down to ``message_id`` that sent something of files."""
    return connection.execute(_SOURCES, [json.dumps(tree.path_ids(connection, message_id))]).fetchall()
