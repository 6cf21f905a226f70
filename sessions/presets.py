"""Presets: what a new chat begins with. A chat takes a copy, so changing a preset later changes no chat.

::

    system prompt │ policy │ tools │ example messages │ question …
    └── the chat's system prompt ──┘ └ first messages ┘

What is always the same stands first and is always the same bytes, so that chats of one preset share its blocks.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field, fields
from typing import Any

from .checks import clean_params, clean_text, clean_title
from .connection import Connection
from .errors import SessionError
from .ids import new_id, now
from .preset_beginnings import Beginning, beginnings
from .rows import json_object

_TEXTS = ("system_prompt", "policy", "retrieval")
_GONE = "This preset does not exist any more; choose another one."
_STALE = "This preset was changed in another window meanwhile; it is shown as it is now, so try again."


@dataclass(slots=True)
class Preset:
    """A preset, its parts in the order in which a prompt has them.

    Attributes:
        tools: JSON, a list of tools; "" for none.
        examples: {"role", "content"} each, questions and answers in turn.
        retrieval: how found passages are quoted at the end of a question.
        params: sampling that differs from the model's own.
        version: grows with each change.
    """

    id: str
    name: str
    system_prompt: str = ""
    policy: str = ""
    tools: str = ""
    examples: list[dict[str, str]] = field(default_factory=list)
    retrieval: str = ""
    model: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""
    version: int = 1
    deleted_at: str | None = None

    @property
    def system_turn(self) -> str | None:
        """The system prompt of a chat that begins with it; None if it says nothing."""
        return "\n\n".join(part for part in (self.system_prompt, self.policy, self.tools) if part) or None


_COLUMNS = ", ".join(one.name for one in fields(Preset))
CHANGEABLE = ("name", *_TEXTS, "tools", "examples", "model", "params")


class Presets:
    """The presets of one store.

    Args:
        writer, reader: the store's connections.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    def presets(self) -> list[Preset]:
        """All presets that are not deleted, by name."""
        with self._reader.reading() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM presets WHERE deleted_at IS NULL")
            return sorted((_from_row(row) for row in rows), key=lambda one: (one.name.casefold(), one.id))

    def preset(self, preset_id: str) -> Preset:
        """One preset.

        Raises:
            SessionError: there is none, or it is deleted.
        """
        with self._reader.reading() as connection:
            return preset(connection, preset_id)

    def beginnings(self, preset_id: str, fingerprint: str, messages: int, limit: int) -> list[Beginning]:
        """See ``preset_beginnings``."""
        with self._reader.reading() as connection:
            return beginnings(connection, preset_id, fingerprint, messages, limit)

    def save(self, preset_id: str | None, changes: dict[str, Any], version: int | None) -> Preset:
        """Change the named parts of a preset, or make one.

        Args:
            preset_id: None makes a new one.
            version: of the preset that was changed; None changes whatever there is.

        Raises:
            SessionError: there is none, it has changed since that version, or a part is not what it should be.
        """
        changes = _checked(changes)
        with self._writer.transaction(durable=True) as connection:
            if preset_id is None:
                time_now = now()
                found = Preset(new_id(), "New preset", created_at=time_now, version=0)
            else:
                found = preset(connection, preset_id)
                if version is not None and version != found.version:
                    raise SessionError(_STALE)
            for name, value in changes.items():
                setattr(found, name, value)
            found.version, found.updated_at = found.version + 1, now()
            _write(connection, found)
            return found

    def set_deleted(self, preset_id: str, deleted: bool) -> None:
        """Take a preset away, or bring it back; chats that began with it do not change.

        Raises:
            SessionError: there is none.
        """
        with self._writer.transaction(durable=True) as connection:
            done = connection.execute(
                "UPDATE presets SET deleted_at = ?, version = version + 1 WHERE id = ?",
                [now() if deleted else None, preset_id],
            )
            if not done.rowcount:
                raise SessionError(_GONE)


def preset(connection: sqlite3.Connection, preset_id: str) -> Preset:
    """A preset that is not deleted.

    Raises:
        SessionError: there is none.
    """
    query = f"SELECT {_COLUMNS} FROM presets WHERE id = ? AND deleted_at IS NULL"
    row = connection.execute(query, [preset_id]).fetchone()
    if row is None:
        raise SessionError(_GONE)
    return _from_row(row)


def canonical_tools(tools: Any) -> str:
    """Tools, as JSON text or as what it spells, in always the same bytes; "" for none.

    Raises:
        SessionError: it is no list of tools.
    """
    if isinstance(tools, str):
        try:
            tools = json.loads(tools) if tools.strip() else []
        except ValueError as error:
            raise SessionError(f"The tools are no valid JSON: {error}; write a list of tools.") from error
    tools = tools or []
    if not isinstance(tools, list) or not all(isinstance(one, dict) and one for one in tools):
        raise SessionError("The tools must be a list of objects, one for each tool.")
    return clean_text(json.dumps(tools, ensure_ascii=False, sort_keys=True, separators=(",", ":"))) if tools else ""


def checked_examples(examples: Any) -> list[dict[str, str]]:
    """Example messages: questions and answers in turn, beginning with a question and ending with an answer.

    Raises:
        SessionError: they are not.
    """
    examples = examples or []
    if not isinstance(examples, list) or not all(isinstance(one, dict) for one in examples):
        raise SessionError("The example messages must be a list of messages with a role and a content.")
    found = []
    for place, one in enumerate(examples):
        if one.get("role") != ("user", "assistant")[place % 2]:
            raise SessionError("The example messages must be questions (user) and answers (assistant) in turn.")
        found.append({"role": str(one["role"]), "content": clean_text(one.get("content", ""), needed=True)})
    if len(found) % 2:
        raise SessionError("The last example question has no answer; write one or leave the question out.")
    return found


def _checked(changes: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(changes) - set(CHANGEABLE))
    if unknown:
        raise SessionError(f"{', '.join(unknown)}: no such part of a preset; there are {', '.join(CHANGEABLE)}.")
    checked: dict[str, Any] = {name: clean_text(changes[name] or "") for name in _TEXTS if name in changes}
    if "name" in changes:
        checked["name"] = clean_title(changes["name"], "preset")
    if "tools" in changes:
        checked["tools"] = canonical_tools(changes["tools"])
    if "examples" in changes:
        checked["examples"] = checked_examples(changes["examples"])
    if "model" in changes:
        checked["model"] = clean_text(changes["model"]) if changes["model"] else None
    if "params" in changes:
        checked["params"] = clean_params({}, changes["params"] or {})
    return checked


def _from_row(row: sqlite3.Row) -> Preset:
    found = Preset(*row)
    found.params = json_object(row["params"])
    try:
        found.examples = checked_examples(json.loads(row["examples"] or "[]"))
    except (ValueError, SessionError):  # of another program's making; the rest of the preset is worth having
        found.examples = []
    return found


def _write(connection: sqlite3.Connection, found: Preset) -> None:
    values = {name: getattr(found, name) for name in _COLUMNS.split(", ")}
    values.update(params=json.dumps(found.params), examples=json.dumps(found.examples, ensure_ascii=False))
    names = list(values)
    connection.execute(
        f"INSERT INTO presets ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)}) "
        f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in names if name != 'id')}",
        values,
    )
