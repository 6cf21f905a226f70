"""A chat that is exported and imported is the same chat: everything but the ids."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedchat.sessions.exchange.formats import export
from pagedchat.sessions.exchange.mend import mend
from pagedchat.sessions.exchange.reading import read_file
from pagedchat.sessions.exchange.report import Mends
from pagedchat.sessions.exchange.tree import ChatTree, Node, NodeTokens
from pagedchat.sessions.rows import Generation, pack
from pagedchat.sessions.store import SessionStore
from support.chat_trees import bring, grow, ours, reachable, without_ids


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatTree]:
    store = SessionStore(tmp_path_factory.mktemp("garden") / "a.db")
    yield store.exchange.read_tree(grow(store))
    store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "b.db")
    yield store
    store.close()


def test_a_tree_of_sixty_messages_comes_back_equal_but_for_ids(garden: ChatTree, store: SessionStore) -> None:
    assert len(garden.nodes) >= 60 and len(garden.leaves()) > 5
    assert any(one.hidden for one in garden.nodes) and any(one.deleted_at for one in garden.nodes)
    report = bring(store, ours(garden))
    chat = report.chats[0]
    assert (chat.repairs, chat.messages, report.folders) == ([], len(garden.nodes), ["Garten & more"])
    back = store.exchange.read_tree(chat.id)
    assert without_ids(back) == without_ids(garden)
    assert not {one.id for one in back.nodes} & {one.id for one in garden.nodes} and back.id != garden.id
    again = json.loads(export([back], "pagedchat").data)["chats"][0]
    first = ours(garden)["chats"][0]
    assert again["source"]["id"] == garden.id
    assert [one["content"] for one in again["messages"]] == [one["content"] for one in first["messages"]]


def test_the_order_of_a_file_means_nothing(garden: ChatTree, store: SessionStore) -> None:
    file = ours(garden)
    random.Random(1).shuffle(file["chats"][0]["messages"])
    report = bring(store, file)
    assert report.chats[0].repairs == []
    assert without_ids(store.exchange.read_tree(report.chats[0].id)) == without_ids(garden)


def test_every_visible_message_is_in_reach_after_an_import(garden: ChatTree, store: SessionStore) -> None:
    report = bring(store, ours(garden))
    visible = {one.content for one in garden.nodes if one.visible}
    assert reachable(store, report.chats[0].id) == visible
    branches = store.trash.branches()
    assert [one.messages for one in branches] == [sum(bool(one.deleted_at) and not one.hidden for one in garden.nodes)]


def test_importing_twice_makes_two_chats_and_says_so(garden: ChatTree, store: SessionStore) -> None:
    first, second = bring(store, ours(garden)), bring(store, ours(garden))
    assert [one.chats[0].seen_before for one in (first, second)] == [False, True]
    assert len(store.sessions()) == 2 and second.folders == []
    with store._reader.reading() as connection:
        assert connection.execute("SELECT count(*) FROM presets").fetchone()[0] == 1
    third = bring(store, ours(garden), skip_seen=True)
    assert third.chats == [] and third.skipped[0]["reason"] == "It had been imported before."
    assert len(store.sessions()) == 2


def test_a_chat_that_was_imported_can_be_told_from_the_one_it_was_exported_from(store: SessionStore) -> None:
    session_id = grow(store, 6)
    report = bring(store, ours(store.exchange.read_tree(session_id)))
    assert report.chats[0].seen_before


@pytest.mark.parametrize("name", ["openai", "sharegpt"])
@pytest.mark.parametrize("branches", [True, False])
def test_formats_without_branches_keep_every_branch_as_a_conversation(
    garden: ChatTree, store: SessionStore, name: str, branches: bool
) -> None:
    file = export([garden], name, branches=branches).data
    report = bring(store, file)
    assert len(report.chats) == (len(garden.leaves()) if branches else 1) and report.format == name
    trees = [store.exchange.read_tree(one.id) for one in report.chats]
    again = export(trees, name, branches=branches).data
    if name == "openai":
        assert again == file
    else:
        assert [one["conversations"] for one in json.loads(again)] == [one["conversations"] for one in json.loads(file)]


def test_markdown_shows_each_message_once_and_the_shown_branch_first(garden: ChatTree) -> None:
    text = export([garden], "markdown").data.decode()
    for one in garden.nodes:
        assert text.count(f"\n{one.content}\n") == (1 if one.visible else 0) or not one.content
    shown = export([garden], "markdown", branches=False).data.decode()
    assert text.startswith(shown.rstrip("\n")) and "# שלום garden" in shown
    assert "## Reply (other-model)" in shown and "> hm, …" in shown and "[attachment: leaf.png]" in shown


def test_plain_text_has_each_message_once_and_no_marks(garden: ChatTree) -> None:
    text = export([garden], "text").data.decode()
    for one in garden.nodes:
        assert (
            text.count(f":\n{one.content}\n") + text.count(f"[Answer]\n{one.content}\n") == (1 if one.visible else 0)
            or not one.content
        )
    assert text.startswith("שלום garden\nBegun ") and "Reply (other-model), " in text and "[Thoughts]\nhm, …" in text
    assert "\n## " not in text and "\n> " not in text


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@st.composite
def trees(draw: st.DrawFn) -> ChatTree:
    """Trees as rows can have them."""
    nodes: list[Node] = []
    for number in range(draw(st.integers(0, 9))):
        parent = draw(st.sampled_from([None, *(one.id for one in nodes)]))
        node = Node(f"n{number}", parent, draw(st.sampled_from(["user", "assistant", "system", "tool"])))
        node.content, node.reasoning = draw(_TEXT), draw(st.none() | _TEXT)
        node.status = draw(st.sampled_from(["done", "stopped", "interrupted", "error"]))
        node.shown = draw(st.integers(0, 2**62))
        node.created_at = node.updated_at = f"2024-01-01T00:00:00.{draw(st.integers(0, 999)):03d}Z"
        if draw(st.booleans()):
            node.runs = [
                Generation("", 1, draw(st.none() | st.just("m")), params={"top_k": 3}, started_at=node.created_at)
            ]
            node.tokens = [NodeTokens("print", 0, pack(draw(st.lists(st.integers(0, 2**31 - 1), max_size=3))))]
        nodes.append(node)
    tree = ChatTree("chat", draw(st.none() | st.just("Title")), exact=True, nodes=nodes)
    tree.title_by = "user" if tree.title else None
    tree.system_prompt, tree.pinned = draw(st.none() | _TEXT), draw(st.booleans())
    tree.created_at = tree.updated_at = "2024-01-01T00:00:00.000Z"
    tree.head_id = draw(st.sampled_from([one.id for one in tree.leaves()])) if nodes else None
    return tree


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees(), seed=st.integers(0, 99))
def test_any_tree_survives_our_format_and_the_rows(store: SessionStore, tree: ChatTree, seed: int) -> None:
    file = ours(tree)
    random.Random(seed).shuffle(file["chats"][0]["messages"])
    reading = read_file("file.json", json.dumps(file).encode())
    assert reading.trees[0][1] == []
    expected = without_ids(mend(tree, Mends()))
    assert without_ids(reading.trees[0][0]) == expected
    report = store.exchange.write_trees(reading)
    assert without_ids(store.exchange.read_tree(report.chats[0].id)) == expected
