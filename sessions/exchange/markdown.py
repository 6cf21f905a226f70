"""Chats as Markdown, to be read by people and in other programs; not read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..summaries import SUMMARY
from ..titles import UNTITLED
from .tree import ChatTree, Node

_NAMES = {"user": "You", "assistant": "Reply", "system": "System", "tool": "Tool"}
_ENDS = {"stopped": ", stopped", "interrupted": ", cut off", "error": ", failed"}

_HEAD = re.compile(rb"# [^\n]*\n\n\*Begun \d{4}-\d\d-\d\d ")


def is_ours(data: bytes) -> bool:
    """Whether a file was made by ``write``."""
    return _HEAD.match(data.replace(b"\r\n", b"\n") if len(data) < 1 << 20 else data) is not None


def write(trees: Iterable[ChatTree], *, branches: bool) -> bytes:
    """The branch that is shown of each chat, or all of them one after the other."""
    return ("\n\n---\n\n".join(_chat(tree, branches) for tree in trees) + "\n").encode()


def branches_of(tree: ChatTree, branches: bool) -> Iterator[tuple[str, list[Node]]]:
    """Each branch, the one that is shown first: a heading ("" for the first), and the messages that none before had."""
    by_id = tree.by_id()
    ends: list[str | None] = [tree.head_id]
    if branches:
        ends += [one.id for one in tree.leaves() if one.id != tree.head_id]
    shown: set[str] = set()
    for place, end in enumerate(ends, 1):
        path = tree.branch(end, by_id)
        fresh = [one for one in path if one.id not in shown]
        above = path[len(path) - len(fresh) - 1] if len(fresh) < len(path) else None
        yield f"Branch {place} of {len(ends)}, {_after(above)}" if place > 1 else "", fresh
        shown |= {one.id for one in fresh}


def about(tree: ChatTree) -> str:
    """When a chat began, with which model and in which folder."""
    facts = [f"Begun {moment(tree.created_at)}"]
    if tree.model:
        facts.append(f"model {one_line(tree.model)}")
    if tree.folder:
        facts.append(f"folder {one_line(tree.folder)}")
    return ", ".join(facts)


def name_of(node: Node) -> str:
    """Who wrote a message, and with which model."""
    model = next((run.model for run in reversed(node.runs) if run.model), None)
    name = "Summary" if node.kind == SUMMARY else _NAMES.get(node.role, node.role)
    return f"{name} ({one_line(model)})" if model else name


def when(node: Node) -> str:
    """The time of a message, and how it ended if not well."""
    return moment(node.created_at) + _ENDS.get(node.status, "")


def attached(node: Node) -> list[str]:
    """A line for each file of a message."""
    return [f"[attachment: {one_line(one.name)}]" for one in node.attachments if one.deleted_at is None]


def moment(text: str) -> str:
    """A time to the minute."""
    return f"{text[:10]} {text[11:16]} UTC"


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def _chat(tree: ChatTree, branches: bool) -> str:
    parts = [f"# {one_line(tree.title or UNTITLED)}", f"*{about(tree)}*"]
    if tree.system_prompt:
        parts += ["## System prompt", tree.system_prompt]
    for heading, messages in branches_of(tree, branches):
        if heading:
            parts.append(f"---\n\n*{heading}*")
        parts += [_message(one) for one in messages]
    return "\n\n".join(parts)


def _after(above: Node | None) -> str:
    if above is None:
        return "from the beginning"
    words = one_line(above.content)
    return f"after “{words[:60]}{'…' if len(words) > 60 else ''}”"


def _message(node: Node) -> str:
    parts = [f"## {name_of(node)}\n\n*{when(node)}*"]
    if node.reasoning:
        parts.append("> **Thoughts**\n>\n" + "\n".join(f"> {line}" for line in node.reasoning.split("\n")))
    if node.content:
        parts.append(node.content)
    parts += attached(node)
    if node.error:
        parts.append(f"*{one_line(node.error)}*")
    return "\n\n".join(parts)
