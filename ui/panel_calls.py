"""Calls of the KV panel about the pool and the engine's work as a whole. Those about one block: ``block_calls``."""

from __future__ import annotations

from .call_registry import call
from .connection import Connection
from .views import View

MOST_IDLE = 100


@call
async def kv(connection: Connection, frame: View) -> None:
    """The panel is open (``on``), or closed: whether the page is told of blocks."""
    connection.panel.follow(bool(frame["on"]))


@call
async def kv_end(connection: Connection, frame: View) -> None:
    """The panel's block table ends with a message further up: the next one goes there."""
    connection.panel.end_at(frame.get("message"))


@call
async def kv_engine(connection: Connection, frame: View) -> View | None:
    """Counters and the newest steps; from then on the page is told of new steps, until it says that it is ``on`` no
    longer."""
    connection.panel.shows_steps = bool(frame["on"])
    return await connection.hub.kv.engine_now() if frame["on"] else None


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


@call
async def kv_forget(connection: Connection, frame: View) -> View:
    """Forget all cached blocks, pinned ones too: {"blocks": how many there were}.

    Raises:
        EngineError: while replies hold blocks, or without an engine.
    """
    client = connection.hub.client
    held = (await client.books())["cached"]
    await client.reset_cache()
    return {"blocks": held}
