"""Our own format: JSON with everything a database knows of a chat. docs/formats.md describes it.

``{"format": "pagedchat", "version": 1, "exported_at": …, "presets": […], "folders": […],
"chats": [{…, "messages": [{…}, …]}, …]}``

A field that is absent has its default, so that most messages are short. ``chats`` comes last: of a file that ends too
early, the whole chats before the end can be read.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from typing import Any

import orjson

from ..errors import SessionError
from ..ids import now
from ..presets import canonical_tools, checked_examples
from ..rows import Generation, pack, unpack
from ..sent_files import read_sources, sources_text
from .contents import joined, missing
from .mend import known_params
from .report import ExchangeError, Mends
from .tree import RUN_FIELDS, Attached, ChatTree, Draft, Node, NodeTokens, Preset, Shelf
from .values import as_count, as_dict, as_id, as_list, as_name, as_number, as_object, as_text, as_time, data_of_base64

FORMAT = "pagedchat"
VERSION = 1
"""Grows when an older pagedchat would read a file wrongly; fields it does not know are no reason."""

_CHAT_TEXTS = ("title_by", "system_prompt")
_CHAT_IDS = ("head_id", "forked_from")
_CHAT_NAMES = ("title", "model", "folder")
_NODE_TEXTS = ("reasoning", "error", "sent_before", "sent_after")
_NODE_IDS = ("replaces_id", "deleted_root", "copied_from")
_RUN_TEXTS = ("model_fingerprint", "finish_reason", "note", "engine", "prompt_hash", "own")
_RUN_SECONDS = ("queue_s", "prefill_s", "decode_s", "ttft_s")
_TITLES_BY = ("words", "user", "model")


def write(trees: Iterable[ChatTree], shelf: Shelf | None = None) -> bytes:
    """The file that holds ``trees`` and the presets that they began with, and all that is on the ``shelf``."""
    shelf = shelf or Shelf()
    presets = {one.id: one for one in shelf.presets}
    chats = []
    for tree in trees:
        if tree.preset is not None:
            presets[tree.preset.id] = tree.preset
        chats.append(orjson.dumps(_chat(tree)))
    head = {"format": FORMAT, "version": VERSION, "exported_at": now(), "presets": [*map(_plain, presets.values())]}
    if shelf.folders:
        head["folders"] = shelf.folders
    return orjson.dumps(head)[:-1] + b',"chats":[\n' + b",\n".join(chats) + b"\n]}\n"


def check_version(file: dict[str, Any]) -> None:
    """Refuse a file that this program would read wrongly.

    Raises:
        ExchangeError: it is of a later version, or names none.
    """
    version = as_count(file.get("version"))
    if version is None or version < 1:
        raise ExchangeError("This pagedchat file does not say its version, so it was not read; export the chat again.")
    if version > VERSION:
        raise ExchangeError(
            f"This file has version {version} of the pagedchat format and was written by a newer pagedchat; "
            f"this one reads up to version {VERSION}. Nothing was imported: update pagedchat and try again."
        )


def read_presets(file: dict[str, Any]) -> dict[str, Preset]:
    """The presets of a file, by id."""
    presets = {}
    for raw in as_list(file.get("presets")):
        found = _preset(as_dict(raw))
        if found is not None:
            presets[found.id] = found
    return presets


def read_folders(file: dict[str, Any]) -> list[str]:
    """Names of the folders of a file; those of its chats are not among them where it holds not all chats."""
    return [name for one in as_list(file.get("folders")) if (name := as_name(one))]


def read_chat(raw: dict[str, Any], presets: dict[str, Preset], mends: Mends) -> ChatTree:
    """One entry of ``chats``."""
    tree = ChatTree(as_id(raw.get("id")) or "", origin=FORMAT, exact=True)
    for name in _CHAT_NAMES:
        setattr(tree, name, as_name(raw.get(name)))
    for name in _CHAT_IDS:
        setattr(tree, name, as_id(raw.get(name)))
    for name in _CHAT_TEXTS:
        setattr(tree, name, _text_or_none(raw.get(name)))
    tree.title_by = tree.title_by if tree.title_by in _TITLES_BY else None
    tree.params = as_object(raw.get("params"))
    tree.created_at, tree.updated_at = as_time(raw.get("created_at")) or "", as_time(raw.get("updated_at")) or ""
    tree.deleted_at, tree.begun_at = as_time(raw.get("deleted_at")), as_time(raw.get("begun_at"))
    tree.pinned, tree.archived = raw.get("pinned") is True, raw.get("archived") is True
    tree.preset = presets.get(as_id(raw.get("preset_id")) or "")
    tree.source = as_object(raw.get("source")) or None
    tree.draft = _draft(raw.get("draft"))
    tree.loose = [_attached(as_dict(one)) for one in as_list(raw.get("attachments"))]
    for fingerprint, ids in as_dict(raw.get("system_tokens")).items():
        if (packed := _packed(ids, mends)) is not None:
            tree.system_tokens[as_text(fingerprint)] = packed
    for one in as_list(raw.get("messages")):
        if isinstance(one, dict):
            tree.nodes.append(_node(one, mends))
        else:
            mends["broken"] += 1
    return tree


# -- writing ------------------------------------------------------------------------------------------------------


def _chat(tree: ChatTree) -> dict[str, Any]:
    system = {name: unpack(ids) for name, ids in tree.system_tokens.items()}
    skip = ("preset", "draft", "system_tokens", "loose", "origin", "exact", "nodes")
    return {
        **_plain(tree, skip),
        **({"preset_id": tree.preset.id} if tree.preset else {}),
        **({"draft": _plain(tree.draft)} if tree.draft else {}),
        **({"attachments": [*map(_attachment, tree.loose)]} if tree.loose else {}),
        **({"system_tokens": system} if system else {}),
        "messages": [_message(one, place) for place, one in enumerate(tree.nodes)],
    }


def _message(node: Node, place: int) -> dict[str, Any]:
    found = _plain(node, ("runs", "tokens", "attachments", "order", "updated_at"))
    found["content"] = node.content
    if node.updated_at != node.created_at:
        found["updated_at"] = node.updated_at
    found["order"] = place
    if node.runs:
        found["runs"] = [_plain(run, ("message_id",)) for run in node.runs]
    if node.tokens:
        found["tokens"] = [
            {"fingerprint": one.fingerprint, "header_tokens": one.header_tokens, "token_ids": unpack(one.token_ids)}
            for one in node.tokens
        ]
    if node.attachments:
        found["attachments"] = [*map(_attachment, node.attachments)]
    return found


def _attachment(one: Attached) -> dict[str, Any]:
    data = {} if one.data is None else {"data": base64.b64encode(one.data).decode()}
    return {**_plain(one, ("data",)), **data}


def _plain(value: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    found = {}
    for one in fields(value):
        if one.name not in skip and (it := getattr(value, one.name)) != _default(one):
            found[one.name] = it
    return found


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


# -- reading ------------------------------------------------------------------------------------------------------


def _node(raw: dict[str, Any], mends: Mends) -> Node:
    role, content = raw.get("role"), raw.get("content")
    node = Node(as_id(raw.get("id")) or "", as_id(raw.get("parent_id")), as_text(role), as_text(content))
    if content is not None and not isinstance(content, str):
        mends["text"] += 1
    for name in _NODE_TEXTS:
        setattr(node, name, _text_or_none(raw.get(name)))
    for name in _NODE_IDS:
        setattr(node, name, as_id(raw.get(name)))
    node.kind = "summary" if raw.get("kind") == "summary" else None
    node.sources = sources_text(read_sources(_text_or_none(raw.get("sources"))))
    node.status = as_text(raw.get("status")) or "done"
    node.hidden = raw.get("hidden") is True
    node.shown = as_count(raw.get("shown")) or 0
    node.order = as_count(raw.get("order"))
    node.created_at = as_time(raw.get("created_at")) or ""
    node.updated_at, node.deleted_at = as_time(raw.get("updated_at")) or "", as_time(raw.get("deleted_at"))
    runs = [_run(as_dict(one), place) for place, one in enumerate(as_list(raw.get("runs")), 1)]
    node.runs = [*{run.run: run for run in runs}.values()]
    tokens = {one.fingerprint: one for raw_one in as_list(raw.get("tokens")) if (one := _tokens(raw_one, mends))}
    node.tokens = [*tokens.values()]
    node.attachments = [_attached(as_dict(one)) for one in as_list(raw.get("attachments"))]
    for one in node.attachments:
        if one.data is None:
            node.content = joined(node.content, missing(one.name))
            mends["attachment"] += 1
    return node


def _run(raw: dict[str, Any], place: int) -> Generation:
    number = as_count(raw.get("run"))
    run = Generation("", number if number and number > 0 else place, params=as_object(raw.get("params")))
    run.model = as_name(raw.get("model"))
    run.kept_from = as_id(raw.get("kept_from"))
    run.started_at, run.finished_at = as_time(raw.get("started_at")) or "", as_time(raw.get("finished_at"))
    for name in RUN_FIELDS:
        if name in _RUN_TEXTS:
            setattr(run, name, _text_or_none(raw.get(name)))
        elif name in _RUN_SECONDS:
            setattr(run, name, as_number(raw.get(name)))
        elif name not in _RUN_READ:
            setattr(run, name, as_count(raw.get(name)))
    return run


_RUN_READ = ("run", "params", "model", "kept_from", "started_at", "finished_at")


def _tokens(raw: Any, mends: Mends) -> NodeTokens | None:
    found = as_dict(raw)
    ids = _packed(found.get("token_ids"), mends)
    if ids is None or not isinstance(found.get("fingerprint"), str):
        return None
    header = as_count(found.get("header_tokens")) or 0
    return NodeTokens(as_text(found["fingerprint"]), min(max(header, 0), len(ids) // 4), ids)


def _packed(ids: Any, mends: Mends) -> bytes | None:
    try:
        if isinstance(ids, list) and all(type(one) is int and one >= 0 for one in ids):
            return pack(ids)
    except OverflowError:
        pass
    mends["tokens"] += 1
    return None


def _attached(raw: dict[str, Any]) -> Attached:
    return Attached(
        as_name(raw.get("name")) or "file",
        as_name(raw.get("media_type")) or "application/octet-stream",
        data_of_base64(raw.get("data")),
        as_time(raw.get("created_at")) or "",
        as_time(raw.get("deleted_at")),
    )


def _draft(raw: Any) -> Draft | None:
    found = as_dict(raw)
    text = as_text(found.get("text"))
    if not text:
        return None
    return Draft(
        text, as_id(found.get("parent_id")), as_id(found.get("edits_id")), as_time(found.get("updated_at")) or ""
    )


def _preset(raw: dict[str, Any]) -> Preset | None:
    preset_id, name = as_id(raw.get("id")), as_name(raw.get("name"))
    if preset_id is None or name is None:
        return None
    found = Preset(preset_id, name, model=as_name(raw.get("model")), params=as_object(raw.get("params")))
    for text in ("system_prompt", "policy", "retrieval"):
        setattr(found, text, as_text(raw.get(text)))
    with contextlib.suppress(SessionError, ValueError, RecursionError):
        found.tools = canonical_tools(as_text(raw.get("tools")))
    with contextlib.suppress(SessionError, ValueError, RecursionError):
        found.examples = json.dumps(checked_examples(json.loads(as_text(raw.get("examples")))), ensure_ascii=False)
    found.params = known_params(found.params, Mends())
    for moment in ("created_at", "updated_at"):
        setattr(found, moment, as_time(raw.get(moment)) or now())
    found.deleted_at = as_time(raw.get("deleted_at"))
    return found


def _text_or_none(value: Any) -> str | None:
    return None if value is None else as_text(value)
