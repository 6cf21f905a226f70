"""What the panel's tour asks of the engine: two probes of a chat's prompt, and a trial of a few short replies."""

from __future__ import annotations

from datetime import datetime
from weakref import WeakSet

from ..engine.errors import RequestError
from .call_registry import call
from .connection import Connection
from .hub import Hub
from .tour_trial import measure
from .views import View

NEXT_MESSAGE = "Go on."
"""The message that both ask with, after the branch that is shown."""
_measuring: WeakSet[Hub] = WeakSet()


@call
async def tour_prefix(connection: Connection, frame: View) -> View:
    """What the chat's next prompt would find cached as it is, and with a line in front that changes each time:
    {"plain", "stamped"}, each as ``EngineClient.probe`` tells it, and that "line"."""
    hub = connection.hub
    question = await _question(connection, frame)
    line = f"It is {datetime.now().astimezone():%Y-%m-%d %H:%M:%S}."
    usual = hub.client.status.info.get("default_system_prompt") or ""
    stamped = {**question, "messages": stamped_messages(question["messages"], line, usual)}
    return {"plain": await hub.client.probe(**question), "stamped": await hub.client.probe(**stamped), "line": line}


@call
async def tour_speed(connection: Connection, frame: View) -> View:
    """A few short replies to the chat's next prompt, one after the other and then at once: see `tour_trial.measure`.

    Raises:
        RequestError: another page measures at the moment.
    """
    hub = connection.hub
    if hub in _measuring:
        raise RequestError("Another page measures at the moment; try again in a few seconds.")
    _measuring.add(hub)
    try:
        return await measure(hub.client, await _question(connection, frame))
    finally:
        _measuring.discard(hub)


async def _question(connection: Connection, frame: View) -> View:
    return await connection.hub.service.question(frame["session"] or None, frame.get("parent"), NEXT_MESSAGE)


def stamped_messages(messages: list[View], line: str, usual: str) -> list[View]:
    """The messages of a prompt with a line before all others; ``usual`` is the system prompt where they have none."""
    begins = bool(messages) and messages[0]["role"] == "system"
    system = (messages[0]["content"] if begins else usual) or ""
    first = {"role": "system", "content": f"{line}\n{system}".rstrip(), "token_ids": None}
    if begins:
        return [first, *messages[1:]]
    return [first, *({**one, **_one_later(one)} for one in messages)]


def _one_later(message: View) -> View:
    """Where a reply's prompt began, with one more message before it."""
    return {"kept_from": message["kept_from"] + 1} if "kept_from" in message else {}
