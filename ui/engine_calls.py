"""What the panel asks about the engine's work: what its steps run."""

from __future__ import annotations

from .call_registry import call
from .connection import Connection
from .views import View


@call
async def kv_engine(connection: Connection, frame: View) -> View | None:
    """Counters and the newest steps; from then on the page is told of new steps, until it says that it is ``on`` no
    longer."""
    connection.panel.shows_steps = bool(frame["on"])
    return await connection.hub.kv.engine_now() if frame["on"] else None
