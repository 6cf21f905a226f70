"""Chats as plain text, to be read and printed: what Markdown has, without its marks. Not read back."""

from __future__ import annotations

from collections.abc import Iterable

from ..titles import UNTITLED
from .markdown import about, attached, branches_of, name_of, one_line, when
from .tree import ChatTree, Node

_RULE = "-" * 60


def write(trees: Iterable[ChatTree], *, branches: bool) -> bytes:
    """The branch that is shown of each chat, or all of them one after the other."""
    return (f"\n\n{'=' * 60}\n\n".join(_chat(tree, branches) for tree in trees) + "\n").encode()


def _chat(tree: ChatTree, branches: bool) -> str:
    parts = [f"{one_line(tree.title or UNTITLED)}\n{about(tree)}"]
    if tree.system_prompt:
        parts.append(f"System prompt:\n{tree.system_prompt}")
    for heading, messages in branches_of(tree, branches):
        if heading:
            parts.append(f"{_RULE}\n{heading}")
        parts += [_message(one) for one in messages]
    return "\n\n".join(parts)


def _message(node: Node) -> str:
    parts = [f"{name_of(node)}, {when(node)}:"]
    if node.reasoning:
        parts.append(f"[Thoughts]\n{node.reasoning}\n[Answer]")
    if node.content:
        parts.append(node.content)
    parts += attached(node)
    if node.error:
        parts.append(f"[{one_line(node.error)}]")
    return "\n".join(parts)
