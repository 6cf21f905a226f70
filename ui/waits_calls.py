"""The call that tells what replies without any text wait for. A page asks it once a second while it shows one."""

from __future__ import annotations

from typing import Any

from .call_registry import call
from .connection import Connection
from .views import View


@call
async def waits(connection: Connection, frame: View) -> View:
    """By message: whether its request waits, or how much of its prompt is computed."""
    client = connection.hub.client
    return waits_of(await client.list_requests()) if client.status.state == "ready" else {}


def waits_of(requests: list[dict[str, Any]]) -> View:
    """What requests without a token wait for, by message: ``session``, and ``state``:

    - "waiting" for its turn, behind ``ahead`` others;
    - "pending": another request computes the same beginning, and this one takes it over;
    - "reading" its prompt, ``done`` of ``total`` tokens.
    """
    found: View = {}
    ahead = 0
    for row in requests:
        told = _told(row, ahead)
        if row.get("state") == "waiting":
            ahead += 1
        labels = row.get("labels") or {}
        if told is not None and labels.get("message"):
            found[labels["message"]] = {**told, "session": labels.get("session")}
    return found


def _told(row: dict[str, Any], ahead: int) -> View | None:
    done, total = row.get("num_computed", 0), row.get("num_tokens", 0)
    if row.get("state") == "waiting":
        return {"state": "pending"} if row.get("pending_on") else {"state": "waiting", "ahead": ahead}
    if row.get("state") != "running" or (row.get("metrics") or {}).get("completion_tokens"):
        return None
    return {"state": "reading", "done": min(done, total), "total": total}
