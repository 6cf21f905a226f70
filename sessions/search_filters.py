"""What the filters of a search mean in SQL.

Each filter is a condition on one message and its session; most can also name all messages they leave, so that a filter
that leaves few need not be asked of every message with a common word.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from .errors import SessionError, there_are
from .search_query import Query
from .search_text import fold

FEW = 10_000
"""A filter that leaves no more messages is applied first, as the set of their keys."""

_MESSAGE_FILTERS = ("role", "model", "has")
_ORDINARY_ROLES = ("user", "assistant")
_HAS = {
    "attachment": (
        "EXISTS (SELECT 1 FROM attachments a WHERE a.session_id = m.session_id AND a.message_id = m.id "
        "AND a.deleted_at IS NULL)",
        "SELECT o.key FROM attachments a JOIN messages o ON o.id = a.message_id WHERE a.deleted_at IS NULL",
    ),
    "branch": (
        "EXISTS (SELECT 1 FROM messages o WHERE o.session_id = m.session_id AND o.parent_id IS m.parent_id "
        "AND o.key != m.key AND o.hidden = 0 AND o.deleted_at IS NULL)",
        "SELECT o.key FROM (SELECT session_id, parent_id FROM messages GROUP BY session_id, parent_id "
        "HAVING count(*) > 1) p JOIN messages o ON o.session_id = p.session_id AND o.parent_id IS p.parent_id",
    ),
    "error": ("m.status = 'error'", "SELECT o.key FROM messages o WHERE o.status = 'error'"),
    "reasoning": ("m.reasoning IS NOT NULL", "SELECT o.key FROM messages o WHERE o.reasoning IS NOT NULL"),
}
_MODELS = """
WITH RECURSIVE known (model) AS (
    SELECT min(model) FROM generations
    UNION ALL
    SELECT (SELECT min(model) FROM generations WHERE model > known.model) FROM known WHERE known.model IS NOT NULL
)
SELECT model FROM known WHERE model IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL over a message ``m`` and its session ``s``.

    Attributes:
        row: holds for the messages that stay.
        keys: selects the keys of all of them; "" where only ``row`` can tell.
        costly: ``row`` is, so ``keys`` are always asked first; they may leave a few messages too many.
        values: for the parameters of ``row``, and of ``keys``, which are the same.
    """

    row: str
    keys: str = ""
    values: list[str] = field(default_factory=list)
    costly: bool = False


def conditions(connection: sqlite3.Connection, query: Query) -> list[Condition]:
    """The filters of ``query``, but for what the index itself knows (see ``search``).

    Raises:
        SessionError: there is no such folder or model.
    """
    found: list[Condition] = []
    for negated in (False, True):
        parts = [
            *_role(query.values("role", negated=negated)),
            *_folder(connection, query.values("folder", negated=negated)),
            *_model(connection, query.values("model", negated=negated)),
            *(
                Condition(*_HAS[one], costly=one == "branch")
                for one in query.values("has", negated=negated)
                if one in _HAS
            ),
        ]
        found += [_turned(one) for one in parts] if negated else parts
    return found + _dates(query)


def only_messages(query: Query) -> bool:
    """Whether a filter asks for something that no title has."""
    return any(one.name in _MESSAGE_FILTERS for one in query.filters)


def leaves_few(connection: sqlite3.Connection, condition: Condition) -> bool:
    """Whether the condition can name the messages it leaves and there are few."""
    if not condition.keys or condition.costly:
        return condition.costly
    counted = f"SELECT count(*) FROM (SELECT 1 FROM ({condition.keys}) LIMIT {FEW + 1})"
    return connection.execute(counted, condition.values).fetchone()[0] <= FEW


def _turned(condition: Condition) -> Condition:
    return Condition(f"NOT ({condition.row})", "", condition.values)


def _role(roles: list[str]) -> list[Condition]:
    if not roles:
        return []
    listed = f"IN ({_marks(roles)})"
    rare = not set(roles) & set(_ORDINARY_ROLES)
    keys = f"SELECT o.key FROM messages o WHERE o.role NOT IN {_ORDINARY_ROLES} AND o.role {listed}" if rare else ""
    return [Condition(f"m.role {listed}", keys, roles)]


def _folder(connection: sqlite3.Connection, names: list[str]) -> list[Condition]:
    if not names:
        return []
    rows = connection.execute("SELECT id, name FROM folders WHERE deleted_at IS NULL ORDER BY name").fetchall()
    known = {" ".join(fold(row[1]).split()): row[0] for row in rows}
    for name in names:
        if name not in known:
            raise SessionError(f'There is no folder "{name}"; {there_are(row[1] for row in rows)}.')
    ids = [known[name] for name in names]
    listed = f"folder_id IN ({_marks(ids)})"
    keys = f"SELECT o.key FROM messages o WHERE o.session_id IN (SELECT id FROM sessions WHERE {listed})"
    return [Condition(f"coalesce(s.{listed}, 0)", keys, ids)]


def _model(connection: sqlite3.Connection, names: list[str]) -> list[Condition]:
    """A name, or a part of it, of a model that wrote the message."""
    if not names:
        return []
    models = [row[0] for row in connection.execute(_MODELS)]
    found: list[str] = []
    for name in names:
        fitting = [one for one in models if name in fold(one)]
        if not fitting:
            raise SessionError(f'No reply was written by a model named "{name}"; {there_are(models)}.')
        found += fitting
    found = list(dict.fromkeys(found))
    listed = f"g.model IN ({_marks(found)})"
    return [
        Condition(
            f"EXISTS (SELECT 1 FROM generations g WHERE g.message_id = m.id AND {listed})",
            f"SELECT o.key FROM generations g JOIN messages o ON o.id = g.message_id WHERE {listed}",
            found,
        )
    ]


def _dates(query: Query) -> list[Condition]:
    bounds = [(">=", query.after), ("<", query.before)]
    given = [(sign, value) for sign, value in bounds if value is not None]
    if not given:
        return []
    row, keys = (" AND ".join(f"{name}.created_at {sign} ?" for sign, _ in given) for name in "mo")
    return [Condition(row, f"SELECT o.key FROM messages o WHERE {keys}", [value for _, value in given])]


def _marks(values: list[str]) -> str:
    return ", ".join("?" * len(values))
