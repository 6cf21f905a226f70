"""Calls about the whole tree of a chat: its outline, what is found in it, and branches side by side."""

from __future__ import annotations

from .call_registry import call, pass_on
from .connection import Connection
from .markdown import render_blocks
from .views import View

pass_on("outline_find", "outline.find", "session", "query", answers=True)


@call
async def outline(connection: Connection, frame: View) -> View | None:
    """All messages of a chat in a few words each. From then on the page is told of each; null ends that."""
    connection.follow_tree(frame["session"])
    if frame["session"] is None:
        return None
    return await connection.hub.service.outline.outline(frame["session"])


@call
async def compare(connection: Connection, frame: View) -> View:
    """Two to four versions of a message, or branches; ``follow``: with what follows each of them."""
    found = await connection.hub.service.comparison.compare(frame["ids"], follow=bool(frame.get("follow")))
    branches = [{**one, "messages": [_in_blocks(message) for message in one["messages"]]} for one in found["branches"]]
    return {**found, "branches": branches}


def _in_blocks(message: View) -> View:
    """A message with its text paragraph by paragraph, as it was written and, if a model wrote it, as HTML."""
    text = message["content"]
    blocks = [{"text": one} for one in text.split("\n\n") if one.strip()]
    if message["role"] == "assistant":
        blocks = [{"text": text[one.begin : one.end].strip("\n"), "html": one.html} for one in render_blocks(text)]
    shown = ("id", "role", "kind", "status", "created_at", "siblings", "sibling_index", "generation")
    return {**{name: message[name] for name in shown}, "blocks": blocks}
