"""The chats of text-generation-webui: ``{"internal": [[question, reply], …], "visible": […]}``, once named ``data``.

``visible`` is the same as HTML, so it is read only where there is nothing else. What a character says before any
question has a mark in the question's place.
"""

from __future__ import annotations

import html
from typing import Any

from ..ids import new_id
from .contents import thoughts_of
from .report import Mends
from .tree import ChatTree, Node
from .values import as_list, as_text

_BEGIN = "<|BEGIN-VISIBLE-CHAT|>"
_PLAIN, _HTML = ("internal", "data"), ("visible", "data_visible")


def is_textgen(entry: dict[str, Any]) -> bool:
    """Whether an entry is a chat of text-generation-webui."""
    return any(_is_pairs(entry.get(name)) for name in (*_PLAIN, *_HTML))


def read_textgen(entry: dict[str, Any], mends: Mends) -> ChatTree:
    """One chat, without branches: the file holds what was shown last."""
    tree = ChatTree("", None, origin="text-generation-webui")
    plain = next((entry[name] for name in _PLAIN if _is_pairs(entry.get(name))), None)
    pairs = plain or next((as_list(entry.get(name)) for name in _HTML if _is_pairs(entry.get(name))), [])
    for pair in pairs:
        if not _is_pair(pair):
            mends["broken"] += 1
            continue
        question, reply = (as_text(text) if plain else html.unescape(as_text(text)) for text in pair[:2])
        if question and question != _BEGIN:
            _add(tree, "user", question)
        if reply:
            content, reasoning = thoughts_of(reply)
            _add(tree, "assistant", content, reasoning)
    tree.head_id = tree.nodes[-1].id if tree.nodes else None
    return tree


def _add(tree: ChatTree, role: str, content: str, reasoning: str | None = None) -> None:
    node = Node(new_id(), tree.nodes[-1].id if tree.nodes else None, role)
    node.content, node.reasoning = content, reasoning
    tree.nodes.append(node)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and any(map(_is_pair, value))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= 2 and all(isinstance(one, str) for one in value[:2])
