"""Chats as Markdown, to be read by people and in other programs; not read back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..summaries import SUMMARY
from ..titles import UNTITLED
from .tree import ChatTree, Node

_NAMES = {"user": "You", "assistant": "Reply", "system": "System", "tool": "Tool"}


_HEAD = re.compile(rb"# [^\n]*\n\n\*Begun \d{4}-\d\d-\d\d ")


def is_ours(data: bytes) -> bool:
    """Whether a file was made by ``write``."""
    return _HEAD.match(data.replace(b"\r\n", b"\n") if len(data) < 1 << 20 else data) is not None


def write(trees: Iterable[ChatTree], *, branches: bool) -> bytes:
    """The branch that is shown of each chat, or all of them one after the other."""
    return ("\n\n---\n\n".join(_chat(tree, branches) for tree in trees) + "\n").encode()


def _chat(tree: ChatTree, branches: bool) -> str:
    by_id = tree.by_id()
    ends: list[str | None] = [tree.head_id]  # the branch that is shown comes first
    if branches:
        ends += [one.id for one in tree.leaves() if one.id != tree.head_id]
    parts = [f"# {_line(tree.title or UNTITLED)}", _about(tree)]
    if tree.system_prompt:
        parts += ["## System prompt", tree.system_prompt]
    shown: set[str] = set()
    for place, end in enumerate(ends, 1):
        path = tree.branch(end, by_id)
        fresh = [one for one in path if one.id not in shown]
        if place > 1:
            above = path[len(path) - len(fresh) - 1] if len(fresh) < len(path) else None
            parts.append(f"---\n\n*Branch {place} of {len(ends)}, {_after(above)}*")
        parts += [_message(one) for one in fresh]
        shown |= {one.id for one in fresh}
    return "\n\n".join(parts)


def _about(tree: ChatTree) -> str:
    facts = [f"Begun {_moment(tree.created_at)}"]
    if tree.model:
        facts.append(f"model {_line(tree.model)}")
    if tree.folder:
        facts.append(f"folder {_line(tree.folder)}")
    return f"*{', '.join(facts)}*"


def _after(above: Node | None) -> str:
    if above is None:
        return "from the beginning"
    words = _line(above.content)
    return f"after “{words[:60]}{'…' if len(words) > 60 else ''}”"


def _message(node: Node) -> str:
    model = next((run.model for run in reversed(node.runs) if run.model), None)
    name = "Summary" if node.kind == SUMMARY else _NAMES.get(node.role, node.role)
    parts = [f"## {name}{f' ({_line(model)})' if model else ''}\n\n*{_moment(node.created_at)}{_state(node)}*"]
    if node.reasoning:
        parts.append("> **Thoughts**\n>\n" + "\n".join(f"> {line}" for line in node.reasoning.split("\n")))
    if node.content:
        parts.append(node.content)
    parts += [f"[attachment: {_line(one.name)}]" for one in node.attachments if one.deleted_at is None]
    if node.error:
        parts.append(f"*{_line(node.error)}*")
    return "\n\n".join(parts)


def _state(node: Node) -> str:
    return {"stopped": ", stopped", "interrupted": ", cut off", "error": ", failed"}.get(node.status, "")


def _moment(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"


def _line(text: str) -> str:
    return " ".join(text.split())
