"""Messages as a page gets them."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Any

from .markdown import render_blocks

View = dict[str, Any]
Blocks = dict[str, list[str]]
"""HTML of a reply, block by block: ``blocks`` of the answer, ``thoughts`` of what came before it."""


_LISTED = ("id", "title", "updated_at", "version", "hue")
_LISTED_IF_SET = ("pinned", "archived", "running", "folder_id", "deleted_at", "temporary")


def list_item(session: View) -> View:
    """A chat as the list shows it: of thousands, each byte counts, so what is false or none is left out."""
    item = {name: session[name] for name in _LISTED}
    item.update((name, value) for name in _LISTED_IF_SET if (value := session.get(name)))
    return item


MOST_REMEMBERED = 2_048
LONGEST_AT_ONCE_S = 0.01
_remembered: OrderedDict[str, tuple[str, ...]] = OrderedDict()


def blocks_of(text: str) -> tuple[str, ...]:
    """The HTML of a finished reply, block by block."""
    known = _remembered.get(text)
    if known is None:
        known = tuple(block.html for block in render_blocks(text))
    remember_blocks(text, known)
    return known


async def render_ahead(messages: list[View]) -> bool:
    """Render the replies among some messages that nobody has rendered yet, with room for others in between.

    Returns:
        Whether there was room for others, so that the messages may have changed meanwhile.
    """
    began, waited = time.perf_counter(), False
    for message in messages:
        if message["role"] != "assistant" or message["status"] == "streaming":
            continue
        finished_blocks(message)
        if time.perf_counter() - began > LONGEST_AT_ONCE_S:
            await asyncio.sleep(0)
            began, waited = time.perf_counter(), True
    return waited


def remember_blocks(text: str, blocks: tuple[str, ...]) -> None:
    """Spare the next page that shows ``text`` its rendering."""
    _remembered[text] = blocks
    _remembered.move_to_end(text)
    if len(_remembered) > MOST_REMEMBERED:
        _remembered.popitem(last=False)


def finished_blocks(message: View) -> Blocks:
    """The blocks of a reply that will not grow."""
    return {"blocks": list(blocks_of(message["content"])), "thoughts": list(blocks_of(message["reasoning"] or ""))}


def finished_message(message: View) -> View:
    """A message that will not grow: its text as typed, and as HTML if a model wrote it."""
    if message["role"] != "assistant":
        return {**message, "blocks": None}
    return {**message, **finished_blocks(message)}


def growing_message(message: View, blocks: Blocks | None) -> View:
    """A running reply: its text travels as HTML only. Without ``blocks`` the page keeps what it has."""
    view = {key: value for key, value in message.items() if key not in ("content", "reasoning")}
    return {**view, **(blocks or {})}


def aside_view(message: View) -> View:
    """A reply that the page does not show: enough to tell whether it still runs, and how many tokens it has brought."""
    made = message["generation"] or {}
    tokens = made.get("completion_tokens")
    return {**{name: message[name] for name in ("id", "parent_id", "status")}, "tokens": tokens}


def stamp(message: View) -> str:
    """Equal for two views that look the same on a page. The text of a running reply does not count: it is patched."""
    parts = [message[name] for name in ("status", "error", "siblings", "sibling_index")]
    made = message["generation"] or {}
    if message["status"] == "streaming":
        return repr([*parts, made.get("cached_tokens"), made.get("ttft_s") is not None])
    return repr([*parts, made, hash(message["content"]), hash(message["reasoning"])])


def patch(old: list[str], new: list[str]) -> View | None:
    """What turns the blocks ``old`` into ``new``; None if they are equal. ``keep`` is in UTF-16 units, as browsers
    count."""
    at = 0
    while at < min(len(old), len(new)) and old[at] == new[at]:
        at += 1
    if at == len(new) == len(old):
        return None
    keep = _common_prefix(old[at], new[at]) if at < min(len(old), len(new)) else 0
    html = new[at:]
    if html:
        html = [html[0][keep:], *html[1:]]
        keep = len(new[at][:keep].encode("utf-16-le")) // 2
    return {"at": at, "keep": keep, "html": html, "total": len(new)}


def _common_prefix(left: str, right: str) -> int:
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
