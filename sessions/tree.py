"""Questions about a message tree, answered in SQL. Reads only; every function takes an open connection.

A message has one ``parent_id``; everything else follows from it: the path to the root, the siblings, the leaf that
was used last below a message. Messages that are hidden or in the trash are nobody's sibling or leaf.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import accumulate

from .rows import GENERATION_COLUMNS, MESSAGE_COLUMNS, Generation, Message, MessageFile, PromptPath, Session, unpack

_PATH = """
WITH RECURSIVE path (id, depth) AS (
    SELECT id, 0 FROM messages WHERE id = :id
    UNION ALL
    SELECT m.parent_id, path.depth + 1 FROM path JOIN messages m ON m.id = path.id WHERE m.parent_id IS NOT NULL
)
"""

_FROM_SUMMARY = """
WITH RECURSIVE path (id, depth) AS (
    SELECT id, 0 FROM messages WHERE id = :id
    UNION ALL
    SELECT m.parent_id, path.depth + 1 FROM path JOIN messages m ON m.id = path.id
    WHERE m.parent_id IS NOT NULL AND path.id NOT IN
        (SELECT id FROM messages WHERE session_id = :session AND kind = 'summary' AND status != 'streaming')
)
SELECT id FROM path ORDER BY depth DESC
"""
"""The part of a path that prompts have: from the last summary on. One that is still being written sums up what is
above it."""

_LAST_LEAF = """
WITH RECURSIVE below (id, shown) AS (
    SELECT id, shown FROM messages WHERE {begin}
    UNION ALL
    SELECT m.id, m.shown FROM below JOIN messages m
        ON m.session_id = :session AND m.parent_id = below.id WHERE m.hidden = 0 AND m.deleted_at IS NULL
)
SELECT id FROM below
WHERE NOT EXISTS (
    SELECT 1 FROM messages c
    WHERE c.session_id = :session AND c.parent_id = below.id AND c.hidden = 0 AND c.deleted_at IS NULL
)
ORDER BY shown DESC, id DESC LIMIT 1
"""
_LAST_LEAF_BELOW = _LAST_LEAF.format(begin="id = :id")
_LAST_LEAF_BESIDE = _LAST_LEAF.format(
    begin="session_id = :session AND parent_id IS :parent AND id != :id AND hidden = 0 AND deleted_at IS NULL"
)

_AT_ONCE = 500
_MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages m WHERE m.id IN (?)"
_FAR_MESSAGES = _MESSAGES.replace("m.content", "'' AS content").replace("m.reasoning", "NULL AS reasoning")
_LATE = ("deleted_root", "copied_from", "kind", "sent_before", "sent_after", "sources")
for _late in _LATE:  # columns behind a text: reading them would read the text
    _FAR_MESSAGES = _FAR_MESSAGES.replace(f"m.{_late}", f"NULL AS {_late}")
_CHILDREN = (
    "SELECT parent_id, id FROM messages WHERE session_id = ? AND parent_id IN (?) AND hidden = 0 "
    "AND deleted_at IS NULL ORDER BY key"
)
_CUTS = "SELECT message_id, kept_from FROM generations WHERE message_id IN (?) AND kept_from IS NOT NULL ORDER BY run"
_TOKENS = "SELECT message_id, token_ids FROM message_tokens WHERE fingerprint = ? AND message_id IN (?)"
_LENGTHS = "SELECT message_id, length(token_ids) / 4 FROM message_tokens WHERE fingerprint = ? AND message_id IN (?)"
_QUESTIONS = "SELECT id FROM messages WHERE id IN (?) AND role = 'user'"
_FAR = 2  # times the room that has to follow a message that is far
_NEAR_TURNS = 4  # questions before the cut that are never far
_RUNS = f"SELECT {GENERATION_COLUMNS} FROM generations g WHERE g.message_id IN (?) ORDER BY g.run"
_FILES = (
    "SELECT message_id, id, name, media_type, size, sha256 FROM attachments WHERE session_id = ? "
    "AND message_id IN (?) AND deleted_at IS NULL ORDER BY key"
)
_HAS_FILES = "SELECT 1 FROM attachments WHERE session_id = ? LIMIT 1"
_LAST_RUN = f"SELECT {GENERATION_COLUMNS} FROM generations g WHERE message_id = ? ORDER BY run DESC LIMIT 1"


def message(connection: sqlite3.Connection, message_id: str) -> Message | None:
    """One message with its siblings and its last run."""
    row = connection.execute(f"SELECT {MESSAGE_COLUMNS} FROM messages m WHERE id = ?", [message_id]).fetchone()
    if row is None:
        return None
    found = Message.from_row(row)
    found.siblings = siblings(connection, found)
    run = connection.execute(_LAST_RUN, [message_id]).fetchone()
    found.generation = Generation.from_row(run) if run else None
    _add_files(connection, [found])
    return found


def siblings(connection: sqlite3.Connection, message: Message) -> list[str]:
    """Ids of the visible messages under ``message``'s parent, oldest first."""
    rows = connection.execute(
        "SELECT id FROM messages WHERE session_id = ? AND parent_id IS ? AND hidden = 0 AND deleted_at IS NULL "
        "ORDER BY key",
        [message.session_id, message.parent_id],
    )
    return [row[0] for row in rows]


def path(connection: sqlite3.Connection, message_id: str) -> list[Message]:
    """Messages from the root to ``message_id``, each with siblings and last run; empty if there is no such message."""
    return part(connection, path_ids(connection, message_id))


def part(connection: sqlite3.Connection, ids: list[str]) -> list[Message]:
    """Messages that follow each other on a path, each with siblings and last run.

    Args:
        ids: theirs, from the root's side down.
    """
    if not ids:
        return []
    rows = {row["id"]: Message.from_row(row) for row in of_each(connection, _MESSAGES, ids)}
    found = [rows[one] for one in ids]
    groups = {found[0].parent_id: siblings(connection, found[0])}
    for parent_id, one in of_each(connection, _CHILDREN, ids[:-1], found[0].session_id):
        groups.setdefault(parent_id, []).append(one)
    runs = {row["message_id"]: Generation.from_row(row) for row in of_each(connection, _RUNS, ids)}
    for one in found:
        one.siblings = groups.get(one.parent_id, [])
        one.generation = runs.get(one.id)
    _add_files(connection, found)
    return found


def _add_files(connection: sqlite3.Connection, messages: list[Message]) -> None:
    """Let the questions among the messages of a chat know their files."""
    questions = {one.id: one for one in messages if one.role == "user"}
    session = messages[0].session_id
    if not questions or connection.execute(_HAS_FILES, [session]).fetchone() is None:
        return
    for message_id, *file in of_each(connection, _FILES, list(questions), session):
        questions[message_id].files.append(MessageFile(*file))


def path_ids(connection: sqlite3.Connection, message_id: str) -> list[str]:
    """Ids from the root to ``message_id``; empty if there is no such message."""
    rows = connection.execute(_PATH + "SELECT id FROM path ORDER BY depth DESC", {"id": message_id})
    return [row[0] for row in rows]


def question_numbers(connection: sqlite3.Connection, message_id: str) -> dict[str, int]:
    """Of the branch that ends at ``message_id``: which question each message is, or belongs to, from 1."""
    ids = path_ids(connection, message_id)
    questions = {row[0] for row in of_each(connection, _QUESTIONS, ids)}
    return dict(zip(ids, accumulate(int(one in questions) for one in ids), strict=True))


def of_each(connection: sqlite3.Connection, query: str, ids: list[str], *before: str) -> Iterator[sqlite3.Row]:
    """Rows of all ``ids``, some hundred at once: walking the path in each query would cost more than the query."""
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        yield from connection.execute(query.replace("(?)", f"({', '.join('?' * len(some))})"), [*before, *some])


def prompt_path(
    connection: sqlite3.Connection, session: Session, last_id: str | None, fingerprint: str, room: int | None = None
) -> PromptPath:
    """The branch that ends at ``last_id``, from its last summary on, with the ids its messages had in prompts of that
    model.

    Args:
        room: tokens that the context holds. Messages far before the last reply's cut then come with their length only:
            more than twice the room follows them, so that no cut can bring them back, and the cost of a question does
            not grow with all that the chat once held.
    """
    query = "SELECT token_ids FROM system_tokens WHERE session_id = ? AND fingerprint = ?"
    row = connection.execute(query, [session.id, fingerprint]).fetchone()
    path = PromptPath(session, [], {}, unpack(row[0]) if row else None)
    if last_id is None:
        return path
    order = _since_summary(connection, path, last_id)
    path.kept_from = {row[0]: row[1] for row in of_each(connection, _CUTS, order)}
    path.far = _far(connection, order, path.kept_from, fingerprint, room)
    near = order[len(path.far) :]
    path.token_ids = {row[0]: unpack(row[1]) for row in of_each(connection, _TOKENS, near, fingerprint)}
    found = {row["id"]: Message.from_row(row) for row in of_each(connection, _FAR_MESSAGES, list(path.far))}
    found |= {row["id"]: Message.from_row(row) for row in of_each(connection, _MESSAGES, near)}
    path.messages = [found[one] for one in order]
    return path


def _far(
    connection: sqlite3.Connection, order: list[str], cuts: dict[str, str], fingerprint: str, room: int | None
) -> dict[str, int]:
    """The first messages of a path that no prompt can hold, and the tokens each has; none where nobody can tell."""
    cut = next((cuts[one] for one in reversed(order) if one in cuts), None)
    if room is None or cut is None or cut not in order:
        return {}
    lengths = {row[0]: row[1] for row in of_each(connection, _LENGTHS, order, fingerprint)}
    start, tokens = len(order), 0
    while start and tokens < _FAR * room:
        start -= 1
        tokens += lengths.get(order[start], 0)
    before = order[: order.index(cut)]
    questions = {row[0] for row in of_each(connection, _QUESTIONS, before)}
    places = [place for place, one in enumerate(before) if one in questions][-_NEAR_TURNS:]
    return {one: lengths.get(one, 0) for one in order[: min([start, *places])]} if places else {}


def _since_summary(connection: sqlite3.Connection, path: PromptPath, last_id: str) -> list[str]:
    """Ids down to ``last_id`` of the messages that prompts have; notes the summary above them."""
    place = {"id": last_id, "session": path.session.id}
    order = [row[0] for row in connection.execute(_FROM_SUMMARY, place)]
    row = connection.execute(_MESSAGES + " AND kind = 'summary'", order[:1]).fetchone()
    if row is None or row["status"] == "streaming":
        return order
    path.summary = Message.from_row(row)
    return order[1:]


def last_leaf(connection: sqlite3.Connection, message: Message) -> str:
    """Of the visible leaves at or below ``message``, the one that was shown last."""
    return connection.execute(_LAST_LEAF_BELOW, {"id": message.id, "session": message.session_id}).fetchone()[0]


def nearest(connection: sqlite3.Connection, message: Message) -> str | None:
    """What to show in place of ``message``: the leaf beside it that was shown last, else the message above.

    None if nothing of the chat can be seen any more.
    """
    place = {"id": message.id, "session": message.session_id, "parent": message.parent_id}
    beside = connection.execute(_LAST_LEAF_BESIDE, place).fetchone()
    if beside is not None or message.parent_id is None:
        return beside[0] if beside else None
    if is_visible(connection, message.parent_id):
        return message.parent_id
    row = connection.execute(f"SELECT {MESSAGE_COLUMNS} FROM messages m WHERE id = ?", [message.parent_id]).fetchone()
    return nearest(connection, Message.from_row(row))


def is_visible(connection: sqlite3.Connection, message_id: str) -> bool:
    """Whether there is such a message, neither hidden nor in the trash."""
    query = "SELECT 1 FROM messages WHERE id = ? AND hidden = 0 AND deleted_at IS NULL"
    return connection.execute(query, [message_id]).fetchone() is not None


def is_on_path(connection: sqlite3.Connection, message_id: str, leaf_id: str | None) -> bool:
    """Whether ``message_id`` is ``leaf_id`` or above it."""
    query = _PATH + "SELECT 1 FROM path WHERE id = :wanted"
    return connection.execute(query, {"id": leaf_id, "wanted": message_id}).fetchone() is not None


def has_children(connection: sqlite3.Connection, message: Message) -> bool:
    """Whether any message lies under ``message``: hidden ones too, and those in the trash, which may come back."""
    query = "SELECT 1 FROM messages WHERE session_id = ? AND parent_id = ? LIMIT 1"
    return connection.execute(query, [message.session_id, message.id]).fetchone() is not None
