"""Formats without branches: OpenAI's ``{"messages": [...]}`` and ShareGPT's ``{"conversations": [...]}``.

One line or entry is one conversation from beginning to end, so a chat with branches is written as several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from ..ids import new_id
from ..summaries import SUMMARY
from .contents import calls_text, joined, model_run, text_of, thoughts_of
from .mend import ROLES
from .report import Mends
from .tree import ChatTree, Node
from .values import as_dict, as_id, as_list, as_name, as_text, as_time

_SUMMARY = "Summary of what was said so far:"
_SHAREGPT_ROLES = {"user": "human", "assistant": "gpt", "system": "system", "tool": "tool"}


def write_openai(trees: Iterable[ChatTree], *, branches: bool) -> bytes:
    """A line for each branch: all of them, or the one that is shown."""
    return b"".join(
        orjson.dumps({"messages": [{"role": role, "content": text} for role, text in turns]}) + b"\n"
        for _, turns in _conversations(trees, branches)
    )


def write_sharegpt(trees: Iterable[ChatTree], *, branches: bool) -> bytes:
    """A list with an entry for each branch: all of them, or the one that is shown."""
    entries = [
        {"id": name, "conversations": [{"from": _SHAREGPT_ROLES[role], "value": text} for role, text in turns]}
        for name, turns in _conversations(trees, branches)
    ]
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2) + b"\n"


def _conversations(trees: Iterable[ChatTree], branches: bool) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    for tree in trees:
        by_id = tree.by_id()
        ends = [one.id for one in tree.leaves()] if branches else [tree.head_id]
        for place, end in enumerate(ends, 1):
            turns = [(one.role, _told(one)) for one in tree.branch(end, by_id) if one.content]
            if not turns:
                continue
            if tree.system_prompt:
                turns.insert(0, ("system", tree.system_prompt))
            yield (f"{tree.id}_{place}" if len(ends) > 1 else tree.id), turns


def _told(node: Node) -> str:
    """Its text; a summary, which these formats do not know, says what it is."""
    return f"{_SUMMARY}\n\n{node.content}" if node.kind == SUMMARY else node.content


def is_openai(entry: dict[str, Any]) -> bool:
    """Whether an entry is a conversation of OpenAI's form."""
    messages = entry.get("messages")
    return isinstance(messages, list) and any("role" in one for one in messages if isinstance(one, dict))


def is_sharegpt(entry: dict[str, Any]) -> bool:
    """Whether an entry is one of ShareGPT's form."""
    turns = _turns_of(entry)
    return any(isinstance(one, dict) and ("from" in one or "value" in one) for one in turns)


def read_openai(entry: dict[str, Any], mends: Mends) -> ChatTree:
    """One conversation of OpenAI's form."""
    tree = _new_tree(entry, "openai")
    tree.model = as_name(entry.get("model"))
    _add_turns(tree, as_list(entry.get("messages")), _openai_node, mends)
    return tree


def read_sharegpt(entry: dict[str, Any], mends: Mends) -> ChatTree:
    """One conversation of ShareGPT's form."""
    tree = _new_tree(entry, "sharegpt")
    tree.model = as_name(entry.get("model"))
    system = entry.get("system") or entry.get("system_prompt")
    tree.system_prompt = as_text(system) or None if isinstance(system, str) else None
    _add_turns(tree, _turns_of(entry), _sharegpt_node, mends)
    return tree


def _turns_of(entry: dict[str, Any]) -> list[Any]:
    return as_list(entry.get("conversations")) or as_list(entry.get("conversation")) or as_list(entry.get("items"))


def _new_tree(entry: dict[str, Any], origin: str) -> ChatTree:
    metadata = as_dict(entry.get("metadata"))
    title = as_name(entry.get("title")) or as_name(metadata.get("title"))
    created = as_time(entry.get("created_at")) or as_time(entry.get("create_time")) or ""
    return ChatTree(as_id(entry.get("id")) or "", title, created_at=created, origin=origin)


def _add_turns(
    tree: ChatTree, turns: list[Any], read: Callable[[dict[str, Any], Node, Mends], None], mends: Mends
) -> None:
    """Each turn under the one before it; a system message at the beginning is the chat's system prompt."""
    for turn in turns:
        if not isinstance(turn, dict):
            mends["broken"] += 1
            continue
        above = tree.nodes[-1].id if tree.nodes else None
        node = Node(new_id(), above, "")
        read(turn, node, mends)
        role = ROLES.get(node.role.strip().lower())
        if role == "system" and not tree.nodes and tree.system_prompt is None:
            tree.system_prompt = node.content
            continue
        if role == "assistant":
            node.runs = model_run(turn.get("model") or tree.model, node.created_at)
        tree.nodes.append(node)
    tree.head_id = tree.nodes[-1].id if tree.nodes else None


def _openai_node(turn: dict[str, Any], node: Node, mends: Mends) -> None:
    node.role = as_text(turn.get("role"))
    text = text_of(turn.get("content"), mends, node.attachments)
    calls = calls_text(turn.get("tool_calls") or turn.get("function_call"), mends)
    if turn.get("refusal"):
        text = joined(text, as_text(turn["refusal"]))
    thoughts = turn.get("reasoning_content") or turn.get("reasoning") or turn.get("thinking")
    node.content, node.reasoning = joined(text, calls), as_text(thoughts) or None
    if node.reasoning is None and node.role == "assistant":
        node.content, node.reasoning = thoughts_of(node.content)
    node.created_at = as_time(turn.get("timestamp") or turn.get("created_at")) or ""


def _sharegpt_node(turn: dict[str, Any], node: Node, mends: Mends) -> None:
    node.role = as_text(turn.get("from") or turn.get("role"))
    node.content = text_of(turn.get("value", turn.get("content", turn.get("text"))), mends, node.attachments)
    if ROLES.get(node.role.lower()) == "assistant":
        node.content, node.reasoning = thoughts_of(node.content)
