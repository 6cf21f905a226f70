"""The first rows of a chat: its settings, and the example messages of the preset that it begins with."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from . import turns
from .ids import new_id, now
from .library import check_folder
from .presets import Preset, preset


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
