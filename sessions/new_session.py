"""The first rows of a chat: its settings, and the example messages of the preset that it begins with.

A chat that was never used is as good as a new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection
from typing import Any

from . import turns
from .ids import new_id, now
from .library import check_folder
from .presets import Preset, preset

_UNUSED = """
SELECT id FROM sessions s WHERE deleted_at IS NULL AND head_id IS NULL AND title IS NULL AND system_prompt IS NULL
AND params = '{}' AND pinned = 0 AND archived = 0 AND folder_id IS NULL AND preset_id IS NULL AND source IS NULL
AND NOT EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)
AND NOT EXISTS (SELECT 1 FROM attachments WHERE session_id = s.id)
AND NOT EXISTS (SELECT 1 FROM drafts WHERE session_id = s.id AND text != '')
ORDER BY updated_at DESC
"""


def begin_unused(connection: sqlite3.Connection, model: str | None, besides: Collection[str]) -> str | None:
    """Id of a chat with nothing in it and no choice made for it, which begins now; None if there is none.

    Args:
        besides: ids of chats that are in use somewhere.
    """
    found = next((row[0] for row in connection.execute(_UNUSED).fetchall() if row[0] not in besides), None)
    if found is not None:
        change = "UPDATE sessions SET model = ?, created_at = ?, updated_at = ?, version = version + 1 WHERE id = ?"
        connection.execute(change, [model, now(), now(), found])
    return found


def create(
    connection: sqlite3.Connection,
    system_prompt: str | None,
    params: dict[str, Any],
    model: str | None,
    preset_id: str | None = None,
    folder_id: str | None = None,
    begins_with: Preset | None = None,
) -> str:
    """A new chat; returns its id.

    Of a preset come its system turn where ``system_prompt`` is None, sampling that ``params`` does not name, its model,
    and its example messages as the first messages, the last of which is shown.

    Args:
        begins_with: the preset itself, where it is not in this database.

    Raises:
        SessionError: there is no such preset or folder.
    """
    if begins_with is None and preset_id is not None:
        begins_with = preset(connection, preset_id)
    if folder_id is not None:
        check_folder(connection, folder_id)
    if begins_with is not None:
        system_prompt = begins_with.system_turn if system_prompt is None else system_prompt
        params = {**begins_with.params, **params}
        model = begins_with.model or model
    session_id, time_now = new_id(), now()
    connection.execute(
        "INSERT INTO sessions (id, system_prompt, params, model, preset_id, folder_id, created_at, updated_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [session_id, system_prompt, json.dumps(params), model, preset_id, folder_id, time_now, time_now],
    )
    last_id: str | None = None
    for one in begins_with.examples if begins_with else []:
        role = "user" if one["role"] == "user" else "assistant"
        last_id = turns.add_written(connection, session_id, last_id, role, one["content"])
    if last_id is not None:
        turns.move_head(connection, session_id, last_id)
    return session_id
