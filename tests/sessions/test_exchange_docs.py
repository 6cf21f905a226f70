"""docs/formats.md says what the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions.exchange import ours, parsing
from pagedchat.sessions.exchange.formats import FORMATS, KEPT, export
from pagedchat.sessions.exchange.tree import ChatTree
from pagedchat.sessions.store import SessionStore
from support.chat_trees import bring, grow

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def table(title: str) -> list[list[str]]:
    """Cells of the table in a section, its head first."""
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not row[0].startswith("---")]


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionStore, ChatTree]]:
    store = SessionStore(tmp_path_factory.mktemp("docs") / "a.db")
    yield store, store.exchange.read_tree(grow(store, 40))
    store.close()


def test_the_table_has_every_format_and_what_it_keeps() -> None:
    head, *rows = table("What is kept")
    assert head[1:] == [f"`{name}`" for name in FORMATS]
    assert [row[0] for row in rows] == ["written", "read", *KEPT]
    for place, one in enumerate(FORMATS.values(), 1):
        column = {row[0]: row[place] == "yes" for row in rows}
        assert (column.pop("written"), column.pop("read")) == (one.write is not None, one.reads)
        assert {name for name, kept in column.items() if kept} == one.kept


def test_every_field_of_a_file_is_in_the_docs_and_the_other_way_round(garden: tuple[SessionStore, ChatTree]) -> None:
    store, tree = garden
    again = bring(store, json.loads(export([tree], "pagedchat").data))
    file = json.loads(export([tree, store.exchange.read_tree(again.chats[0].id)], "pagedchat").data)
    chats = file["chats"]
    messages = [one for chat in chats for one in chat["messages"]]
    seen: dict[str, list[dict[str, Any]]] = {
        "a chat": chats,
        "a message": messages,
        "a run": [run for one in messages for run in one.get("runs", [])],
        "token ids": [ids for one in messages for ids in one.get("tokens", [])],
        "an attachment": [item for one in [*messages, *chats] for item in one.get("attachments", [])],
        "a draft": [chat["draft"] for chat in chats],
        "a preset": file["presets"],
    }
    documented = {row[0]: set(re.findall(r"`(\w+)`", row[1])) for row in table("The format of pagedchat")[1:]}
    assert documented.keys() == seen.keys()
    for name, objects in seen.items():
        assert objects and {key for one in objects for key in one} <= documented[name], name
    assert {"head_id", "folder", "preset_id", "source", "draft", "attachments"} <= {key for one in chats for key in one}


def test_the_version_and_the_limit_are_those_of_the_code() -> None:
    assert f"JSON, version {ours.VERSION}." in PAGE
    assert f"At most {parsing.MOST_BYTES >> 20} MiB" in PAGE


def test_the_formats_that_are_written_keep_what_the_table_says(garden: tuple[SessionStore, ChatTree]) -> None:
    _, tree = garden
    signs = {
        "texts": tree.branch(tree.head_id)[0].content.split("\n")[0].split("\t")[0],
        "system prompt": "You are a gardener.",
        "branches": "edited by hand",
        "times": tree.nodes[0].created_at[:10],
        "models": "other-model",
        "thoughts": "hm, …",
        "settings": '"temperature":0.3',
        "attachments": "leaf.png",
        "runs and token ids": "100000",
    }
    for name, one in FORMATS.items():
        if one.write is not None and name not in ("openai", "sharegpt"):
            text = export([tree], name).data.decode()
            for what in one.kept & signs.keys():
                assert signs[what] in text, (name, what)
