"""Calls about how old blocks are, and which are held long for little."""

from __future__ import annotations

from .call_registry import call
from .connection import Connection
from .views import View

MOST_IDLE = 100


@call
async def kv_ages(connection: Connection, frame: View) -> View:
    """When all blocks were born and last used and how often they were reused; the page follows the events from there.
    See ``block_ages``."""
    return await connection.hub.client.ages()


@call
async def kv_idle(connection: Connection, frame: View) -> list[View]:
    """Blocks that are held long and reused little, ``count`` of them: those first that have lived longest for each time
    they were used. ``idle_s`` is for how long nobody has used it."""
    rows = await connection.hub.client.idle(min(frame["count"], MOST_IDLE))
    return [
        {
            "id": row["id"],
            "held_s": row["born_s"],
            "idle_s": row["last_used_s"],
            "reuses": row["reuses"],
            "pinned": row["pinned"],
            "sessions": row["sessions"],
        }
        for row in rows
    ]
