"""Whole chats for tests of import and export: a tree with everything in it, and a comparison that minds no ids."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from typing import Any

from pagedchat.sessions.exchange.formats import export
from pagedchat.sessions.exchange.reading import read_file
from pagedchat.sessions.exchange.report import Report
from pagedchat.sessions.exchange.tree import ChatTree
from pagedchat.sessions.rows import Generation, ReplyTokens, pack
from pagedchat.sessions.sent_files import SentPassage, Source, sources_text
from pagedchat.sessions.store import SessionStore

_NODE_IDS = ("id", "parent_id", "replaces_id", "deleted_root", "copied_from")


def grow(store: SessionStore, messages: int = 60, seed: int = 5) -> str:
    """A chat of so many messages: branches, edits, thoughts, empty replies, a branch in the trash; returns its id."""
    rng = random.Random(seed)
    session = store.create_session("You are a gardener.", {"temperature": 0.3, "stop": ["END"]}, "tiny-model")
    replies: list[str] = []
    count = 0
    while count < messages - 1:
        if replies and rng.random() < 0.4:
            reply_id = store.add_reply(rng.choice(replies))[1].id
            count += 1
        else:
            parent = rng.choice([*replies[-3:], rng.choice(replies)]) if replies else None
            reply_id = store.add_question(session.id, parent, f"question {count}\n\t“quoted” 模型")[2].id
            count += 2
        if finish(store, reply_id, count, empty=bool(replies) and rng.random() < 0.1):
            replies.append(reply_id)
    store.add_edit(replies[1], "edited by hand")
    store.trash.delete_branch(replies[-1])
    store.select(replies[0])
    furnish(store, session.id, replies[0])
    return session.id


def finish(store: SessionStore, reply_id: str, number: int, *, empty: bool) -> bool:
    """End a reply as a model would; returns whether it has text."""
    run = Generation(reply_id, 1, "tiny-model", "print-1", {"temperature": 0.3}, number, "2024-01-01T00:00:00.000Z")
    run.finished_at, run.prompt_tokens, run.decode_s, run.finish_reason = run.started_at, number, 0.25, "stop"
    tokens = ReplyTokens("print-1", 2, pack([number, 7, 9, 100_000]))
    if number == 2:
        tokens.system_prompt, tokens.system_ids = "You are a gardener.", pack([1, 2, 3])
    text = "" if empty else f"reply {number}\0 with a NUL and 𝄞"
    store.finish_reply(reply_id, text, "stopped" if empty else "done", None, run, tokens, None if empty else "hm, …")
    return not empty


def furnish(store: SessionStore, session_id: str, message_id: str) -> None:
    """A folder, a preset, a draft, attachments and what was sent of them, a second run: what rows show."""
    moment = "2024-02-03T04:05:06.789Z"
    sha256 = store.exchange._files.keep(b"\x00\xffPNG")
    with store._writer.transaction(durable=True) as connection:
        connection.execute("INSERT INTO folders (id, name, created_at) VALUES ('f1', 'Garten & more', ?)", [moment])
        preset = ["p1", "Gardener", "You are a gardener.", "Be kind.", '[{"type":"function"}]', '{"top_p": 0.5}']
        connection.execute(
            "INSERT INTO presets (id, name, system_prompt, policy, tools, params, created_at, updated_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [*preset, moment, moment],
        )
        connection.execute(
            "UPDATE sessions SET folder_id = 'f1', preset_id = 'p1', pinned = 1, archived = 1, begun_at = ?, "
            "forked_from = 'elsewhere', title = 'שלום garden', title_by = 'user' WHERE id = ?",
            [moment, session_id],
        )
        connection.execute(
            "INSERT INTO drafts VALUES (?, 'not yet sent', ?, NULL, 3, ?)", [session_id, message_id, moment]
        )
        for name, owner in (("leaf.png", message_id), ("loose.bin", None)):
            connection.execute(
                "INSERT INTO attachments (id, session_id, message_id, name, media_type, size, sha256, created_at) "
                "VALUES (?, ?, ?, ?, 'image/png', 5, ?, ?)",
                [name, session_id, owner, name, sha256, moment],
            )
        source = Source(sha256, "leaf.txt", "passages", 9, [SentPassage(1, 2, 3, 4)], 5)
        connection.execute(
            "UPDATE messages SET kind = 'summary' WHERE id = (SELECT id FROM messages WHERE session_id = ? AND id != ? "
            "AND role = 'assistant' AND content != '' AND deleted_at IS NULL ORDER BY key DESC LIMIT 1)",
            [session_id, message_id],
        )
        connection.execute(
            "UPDATE messages SET sent_before = 'File:\n', sent_after = '\n[1]', sources = ? "
            "WHERE id = (SELECT parent_id FROM messages WHERE id = ?)",
            [sources_text([source]), message_id],
        )
        connection.execute(
            "INSERT INTO generations (message_id, run, model, params, started_at, kept_from, left_out) "
            "VALUES (?, 2, 'other-model', '{}', ?, ?, 4)",
            [message_id, moment, message_id],
        )


def without_ids(tree: ChatTree) -> dict[str, Any]:
    """Everything in a tree; ids of messages are their places, other ids and the source are left out."""
    place = {one.id: str(number) for number, one in enumerate(tree.nodes)}
    plain = asdict(tree)
    for name in ("id", "source", "origin", "exact"):
        del plain[name]
    plain["head_id"] = place.get(tree.head_id or "")
    for node in plain["nodes"]:
        del node["order"]
        for name in _NODE_IDS:
            node[name] = place.get(node[name] or "", node[name])
        for run in node["runs"]:
            del run["message_id"]
            run["kept_from"] = place.get(run["kept_from"] or "", run["kept_from"])
    if plain["preset"]:
        del plain["preset"]["id"]
    if plain["draft"]:
        plain["draft"] = {name: place.get(value or "", value) for name, value in plain["draft"].items()}
    return plain


def ours(*trees: ChatTree) -> dict[str, Any]:
    """The content of a file in our own format."""
    return json.loads(export([*trees], "pagedchat").data)


def bring(store: SessionStore, file: Any, name: str = "file.json", **options: Any) -> Report:
    """Import what is given as JSON, text or bytes."""
    data = file if isinstance(file, bytes) else (file if isinstance(file, str) else json.dumps(file)).encode()
    return store.exchange.write_trees(read_file(name, data), **options)


def reachable(store: SessionStore, session_id: str) -> set[str]:
    """Contents of the messages that a page can get to: from every branch it offers, at every place."""
    tree = store.exchange.read_tree(session_id)
    found: set[str] = set()
    for leaf in tree.leaves():
        store.select(leaf.id)
        for one in store.shown_branch(session_id)[1]:
            assert one.id in one.siblings
            found.add(one.content)
    return found
