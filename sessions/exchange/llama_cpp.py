"""The exports of llama.cpp's web page, three forms over the years:

- ``{"conv": {…}, "messages": […]}``, or a list of such;
- lines: ``{"type": "session", …}`` and then ``{"type": "message", "message": {…}}`` for each message;
- the whole browser database: ``[{"table": "conversations", "rows": […]}, {"table": "messages", "rows": […]}]``.

A chat hangs under an empty root (``type`` "root"), which is no message here. One system message under it is the chat's
system prompt; several stay messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .contents import calls_text, count_tokens, joined, missing, model_run, picture, seconds, thoughts_of
from .report import Mends
from .tree import Attached, ChatTree, Node, tree_order
from .values import as_count, as_dict, as_id, as_list, as_name, as_text, as_time, data_of_base64

_TEXT_KINDS = ("text", "context", "textfile", "mcp_prompt", "mcp_resource")


def is_llama_cpp(entry: dict[str, Any]) -> bool:
    """Whether an entry is a chat of llama.cpp's page."""
    return isinstance(entry.get("conv"), dict) and isinstance(entry.get("messages"), list)


def is_line(entry: dict[str, Any]) -> bool:
    """Whether an entry is a line of the second form."""
    kind = entry.get("type")
    return kind == "session" or (kind == "message" and isinstance(entry.get("message"), dict))


def is_table(entry: dict[str, Any]) -> bool:
    """Whether an entry is a table of the third form."""
    return isinstance(entry.get("table"), str) and isinstance(entry.get("rows"), list)


def from_lines(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Entries of the first form from lines of the second; messages before any chat make one of their own."""
    current: dict[str, Any] | None = None
    for line in lines:
        if line.get("type") == "session":
            if current is not None:
                yield current
            current = {"conv": line, "messages": []}
        elif line.get("type") == "message":
            current = current or {"conv": {}, "messages": []}
            current["messages"].append(line.get("message"))
    if current is not None:
        yield current


def from_tables(tables: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Entries of the first form from the tables of the third."""
    rows = {as_text(one["table"]): as_list(one["rows"]) for one in tables}
    chats = {as_id(one.get("id")): one for one in rows.get("conversations", []) if isinstance(one, dict)}
    messages: dict[str | None, list[Any]] = {name: [] for name in chats}
    for one in rows.get("messages", []):
        messages.setdefault(as_id(as_dict(one).get("convId")), []).append(one)
    for name, found in messages.items():
        yield {"conv": chats.get(name, {}), "messages": found}


def read_llama_cpp(entry: dict[str, Any], mends: Mends) -> ChatTree:
    """One chat."""
    conv = as_dict(entry.get("conv"))
    tree = ChatTree(as_id(conv.get("id")) or "", as_name(conv.get("name")), origin="llama.cpp")
    tree.updated_at = as_time(conv.get("lastModified")) or ""
    tree.pinned = conv.get("pinned") is True
    tree.head_id = as_id(conv.get("currNode"))
    children: dict[str, list[str]] = {}
    roots: set[str] = set()
    for raw in as_list(entry.get("messages")):
        if not isinstance(raw, dict):
            mends["broken"] += 1
            continue
        node = _node(raw, mends)
        below = [one for raw_id in as_list(raw.get("children")) if (one := as_id(raw_id))]
        if raw.get("type") == "root" and node.id:
            roots.add(node.id)
        else:
            tree.nodes.append(node)
            children[node.id] = below
    _drop_roots(tree, roots)
    _lift_system(tree)
    tree_order(tree.nodes, children)
    return tree


def _drop_roots(tree: ChatTree, roots: set[str]) -> None:
    for node in tree.nodes:
        if node.parent_id in roots or node.parent_id == "-1":  # "-1": none, in the oldest exports
            node.parent_id = None
    if tree.head_id in roots:
        tree.head_id = None


def _lift_system(tree: ChatTree) -> None:
    """Make the one system message at the beginning the chat's system prompt."""
    first = [one for one in tree.nodes if one.parent_id is None]
    if len(first) != 1 or first[0].role != "system" or not first[0].id:
        return
    system = first[0]
    tree.system_prompt = system.content or None
    tree.nodes.remove(system)
    for node in tree.nodes:
        if node.parent_id == system.id:
            node.parent_id = None
    if tree.head_id == system.id:
        tree.head_id = None


def _node(raw: dict[str, Any], mends: Mends) -> Node:
    node = Node(as_id(raw.get("id")) or "", as_id(raw.get("parent")), as_text(raw.get("role")))
    node.created_at = as_time(raw.get("timestamp")) or ""
    text = as_text(raw.get("content"))
    if node.role == "assistant":
        node.reasoning = as_text(raw.get("reasoningContent")) or as_text(raw.get("reasoning_content"))
        node.reasoning = node.reasoning or as_text(raw.get("thinking")) or None
        if node.reasoning is None:
            text, node.reasoning = thoughts_of(text)
        node.runs = model_run(raw.get("model"), node.created_at)
        _set_timings(node, as_dict(raw.get("timings")))
    files = [_file(as_dict(one), node.attachments, mends) for one in as_list(raw.get("extra"))]
    node.content = joined(text, calls_text(raw.get("toolCalls"), mends), *files)
    return node


def _set_timings(node: Node, timings: dict[str, Any]) -> None:
    if not timings:
        return
    cached, computed = as_count(timings.get("cache_n")), as_count(timings.get("prompt_n"))
    count_tokens(node.runs, (cached or 0) + (computed or 0) or None, timings.get("predicted_n"))
    for run in node.runs:
        run.cached_tokens, run.computed_tokens = cached, computed
        run.prefill_s, run.decode_s = seconds(timings.get("prompt_ms")), seconds(timings.get("predicted_ms"))


def _file(raw: dict[str, Any], files: list[Attached], mends: Mends) -> str:
    """Attach one ``extra``; returns the line that stands for it where its content is missing."""
    kind, name = as_text(raw.get("type")).lower(), as_name(raw.get("name")) or "file"
    content = raw.get("content")
    if isinstance(raw.get("base64Url"), str):
        return picture(raw["base64Url"], name, mends, files)
    data = data_of_base64(raw.get("base64Data"))
    if data is not None:
        files.append(Attached(name, as_name(raw.get("mimeType")) or _kind_of(kind), data))
    elif isinstance(content, str) and (content or kind in _TEXT_KINDS):
        files.append(Attached(name, "text/plain", as_text(content).encode()))
    else:
        mends["attachment"] += 1
        return missing(name)
    return ""


def _kind_of(kind: str) -> str:
    return "application/pdf" if kind.startswith("pdf") else "application/octet-stream"
