"""ChatGPT's export: ``conversations.json``, a list of chats whose ``mapping`` holds a tree of nodes.

Nodes without a message, without text or with thoughts only are stations on the way: what lies under them goes to the
next message above, and thoughts go to the reply that follows them.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .contents import joined, missing, model_run
from .report import Mends
from .tree import Attached, ChatTree, Node, tree_order
from .values import as_dict, as_id, as_list, as_name, as_text, as_time, json_text

FileFinder = Callable[[str], tuple[str, bytes] | None]
"""Finds the file of the archive whose name begins so: (name, bytes)."""

_TEXTS = (
    "text",
    "multimodal_text",
    "code",
    "execution_output",
    "tether_quote",
    "tether_browsing_display",
    "system_error",
)
_THOUGHTS = ("thoughts", "reasoning_recap")
_ABOUT_USER = ("user_editable_context", "model_editable_context")
_STATES = {"in_progress": "interrupted", "finished_partial_completion": "interrupted"}


def is_chatgpt(entry: dict[str, Any]) -> bool:
    """Whether an entry is a chat of ChatGPT's export."""
    return isinstance(entry.get("mapping"), dict)


def read_chatgpt(entry: dict[str, Any], mends: Mends, find_file: FileFinder) -> ChatTree:
    """One chat."""
    tree = ChatTree(as_id(entry.get("conversation_id")) or as_id(entry.get("id")) or "", origin="chatgpt")
    tree.title = as_name(entry.get("title"))
    tree.created_at = as_time(entry.get("create_time")) or ""
    tree.updated_at = as_time(entry.get("update_time")) or ""
    tree.archived, tree.pinned = entry.get("is_archived") is True, entry.get("is_starred") is True
    tree.model = as_name(entry.get("default_model_slug"))
    stations = _stations(as_dict(entry.get("mapping")), mends)
    _system_prompt(tree, stations)
    children = _add_nodes(tree, stations, mends, find_file)
    tree.head_id = _kept(as_id(entry.get("current_node")), stations)
    tree_order(tree.nodes, children)
    return tree


@dataclass
class _Station:
    """A node of the mapping.

    Attributes:
        kept: it becomes a message of the tree.
        thoughts: its text is the reasoning of what follows.
    """

    id: str
    parent: str | None
    children: list[str]
    message: dict[str, Any]
    role: str
    kind: str
    kept: bool = True
    thoughts: str = ""


def _stations(mapping: dict[str, Any], mends: Mends) -> dict[str, _Station]:
    found: dict[str, _Station] = {}
    for key, raw in mapping.items():
        if not isinstance(raw, dict):
            mends["broken"] += 1
            continue
        message = as_dict(raw.get("message"))
        content = as_dict(message.get("content"))
        role = as_text(as_dict(message.get("author")).get("role"))
        kind = as_text(content.get("content_type")) or "text"
        children = [one for raw_id in as_list(raw.get("children")) if (one := as_id(raw_id))]
        one = _Station(as_text(key), as_id(raw.get("parent")), children, message, role, kind)
        if kind in _THOUGHTS:
            one.thoughts = _thoughts(content)
            one.kept = bool(one.thoughts) and not one.children
        else:
            one.kept = bool(message) and kind not in _ABOUT_USER and _says_something(one, content)
        found[one.id] = one
    return found


def _says_something(one: _Station, content: dict[str, Any]) -> bool:
    hidden = as_dict(one.message.get("metadata")).get("is_visually_hidden_from_conversation") is True
    if one.role == "system" and hidden:
        return False
    texts = [*as_list(content.get("parts")), *(content.get(name) for name in ("text", "result", "content", "name"))]
    return any(part not in (None, "", {}, []) for part in texts) or bool(_uploads(one))


def _system_prompt(tree: ChatTree, stations: dict[str, _Station]) -> None:
    """What the user told ChatGPT about every chat."""
    texts = []
    for one in stations.values():
        content = as_dict(one.message.get("content"))
        if one.kind == "user_editable_context":
            texts.append(joined(as_text(content.get("user_profile")), as_text(content.get("user_instructions"))))
        data = as_dict(as_dict(one.message.get("metadata")).get("user_context_message_data"))
        if data and one.kind != "user_editable_context":
            texts.append(joined(as_text(data.get("about_user_message")), as_text(data.get("about_model_message"))))
    tree.system_prompt = next((text for text in texts if text), None)


def _kept(station_id: str | None, stations: dict[str, _Station]) -> str | None:
    """The message that a node belongs to: itself or the next one above; an id that is not there stays."""
    seen: set[str] = set()
    while station_id in stations and not stations[station_id].kept and station_id not in seen:
        seen.add(station_id)
        station_id = stations[station_id].parent
    return None if station_id in seen else station_id


def _thoughts_above(station: _Station, stations: dict[str, _Station]) -> str:
    texts: list[str] = []
    above = stations.get(station.parent or "")
    while above is not None and not above.kept and len(texts) < len(stations):
        texts.append(above.thoughts)
        above = stations.get(above.parent or "")
    return joined(*reversed(texts))


def _add_nodes(
    tree: ChatTree, stations: dict[str, _Station], mends: Mends, find_file: FileFinder
) -> dict[str, list[str]]:
    """Make the messages; returns the children of each, stations left out."""
    for one in stations.values():
        if not one.kept:
            continue
        message, metadata = one.message, as_dict(one.message.get("metadata"))
        content = as_dict(message.get("content"))
        node = Node(one.id, _kept(one.parent, stations), one.role)
        node.content = "" if one.thoughts else _text(one, content, node.attachments, mends, find_file)
        node.created_at = as_time(message.get("create_time")) or ""
        node.updated_at = as_time(message.get("update_time")) or ""
        node.status = _STATES.get(as_text(message.get("status")), "done")
        if one.role == "assistant":
            node.runs = model_run(metadata.get("model_slug") or tree.model, node.created_at, node.updated_at)
            thoughts = [one.thoughts, as_text(metadata.get("reasoning"))] if one.thoughts else []
            node.reasoning = joined(_thoughts_above(one, stations), *thoughts) or None
            details = as_dict(metadata.get("finish_details"))
            for run in node.runs:
                run.finish_reason = as_text(details.get("type")) or None
        tree.nodes.append(node)
    return {one.id: _children(one, stations) for one in stations.values() if one.kept}


def _children(station: _Station, stations: dict[str, _Station]) -> list[str]:
    """Kept stations below one, through those that are not."""
    found, todo, seen = [], station.children[::-1], set[str]()
    while todo:
        one = stations.get(todo.pop())
        if one is None or one.id in seen:
            continue
        seen.add(one.id)
        if one.kept:
            found.append(one.id)
        else:
            todo.extend(reversed(one.children))
    return found


def _thoughts(content: dict[str, Any]) -> str:
    parts = []
    for raw in as_list(content.get("thoughts")):
        thought = as_dict(raw)
        parts.append(joined(as_text(thought.get("summary")), as_text(thought.get("content"))))
    return joined(*parts)


def _text(one: _Station, content: dict[str, Any], files: list[Attached], mends: Mends, find_file: FileFinder) -> str:
    if one.kind not in _TEXTS:
        mends["kind"] += 1
    if one.kind == "code" or (one.kind == "execution_output" and content.get("text")):
        language = as_text(content.get("language"))
        text = f"```{'' if language in ('unknown', '') else language}\n{as_text(content.get('text'))}\n```"
    else:
        parts = [_part(part, files, mends, find_file) for part in as_list(content.get("parts"))]
        others = [as_text(content.get(name)) for name in ("text", "result", "content") if content.get(name)]
        text = joined(*parts, *others)
    for upload in _uploads(one):
        text = joined(text, _file(as_id(upload.get("id")), as_name(upload.get("name")), files, mends, find_file))
    return text


def _uploads(one: _Station) -> list[dict[str, Any]]:
    metadata = as_dict(one.message.get("metadata"))
    shown = {_pointed(part) for part in as_list(as_dict(one.message.get("content")).get("parts"))}
    uploads = [as_dict(raw) for raw in as_list(metadata.get("attachments"))]
    return [raw for raw in uploads if raw and as_id(raw.get("id")) not in shown]


def _part(part: Any, files: list[Attached], mends: Mends, find_file: FileFinder) -> str:
    if isinstance(part, str):
        return as_text(part)
    found = as_dict(part)
    pointed = _pointed(found)
    if pointed:
        return _file(pointed, None, files, mends, find_file)
    if isinstance(found.get("text"), str):
        return as_text(found["text"])
    if not found:
        return as_text(part) if part else ""
    mends["kind"] += 1
    return json_text(found)


def _pointed(part: Any) -> str | None:
    """The id that a picture or sound points to."""
    found = as_dict(part)
    pointer = found.get("asset_pointer") or as_dict(found.get("audio_asset_pointer")).get("asset_pointer")
    return as_text(pointer).rpartition("/")[2] or None if isinstance(pointer, str) else None


def _file(file_id: str | None, name: str | None, files: list[Attached], mends: Mends, find_file: FileFinder) -> str:
    found = find_file(file_id) if file_id else None
    if found is None:
        mends["attachment"] += 1
        return missing(name or file_id or "file")
    media_type = mimetypes.guess_type(found[0])[0] or "application/octet-stream"
    files.append(Attached(name or as_name(found[0]) or "file", media_type, found[1]))
    return ""
