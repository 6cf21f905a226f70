"""Files whose tree is none: what is mended, how it is told, and that nothing is lost or out of reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagedchat.sessions.exchange.tree import ChatTree
from pagedchat.sessions.store import SessionStore
from support.chat_trees import bring, reachable

ROOT = {"id": "a", "role": "user", "content": "A", "created_at": "2024-01-01T00:00:00.000Z"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "a.db")
    yield store
    store.close()


def node(name: str, parent: Any, **more: Any) -> dict[str, Any]:
    return {**ROOT, "id": name, "parent_id": parent, "content": name.upper(), **more}


def file_of(*messages: Any, **chat: Any) -> dict[str, Any]:
    return {"format": "pagedchat", "version": 1, "chats": [{"id": "x", "title": "T", **chat, "messages": [*messages]}]}


def mended(store: SessionStore, *messages: Any, **chat: Any) -> tuple[ChatTree, str]:
    """The chat as it is stored, and what the report says was mended; every message must be in reach."""
    report = bring(store, file_of(*messages, **chat))
    tree = store.exchange.read_tree(report.chats[0].id)
    assert reachable(store, tree.id) == {one.content for one in tree.nodes if one.visible}
    return tree, " | ".join(report.chats[0].repairs)


def parents(tree: ChatTree) -> dict[str, str | None]:
    by_id = tree.by_id()
    return {one.content: by_id[one.parent_id].content if one.parent_id else None for one in tree.nodes}


def test_a_message_whose_parent_is_missing_begins_a_branch(store: SessionStore) -> None:
    tree, told = mended(store, ROOT, node("b", "gone"), node("c", "b"), head_id="c")
    assert parents(tree) == {"A": None, "B": None, "C": "B"}
    assert told == "messages that answer one that is not in the file; each begins a branch of its own: 1"
    store.select(next(one.id for one in tree.nodes if one.content == "C"))
    assert [one.content for one in store.shown_branch(tree.id)[1]] == ["B", "C"]


def test_a_circle_is_opened_at_its_oldest_message(store: SessionStore) -> None:
    circle = [
        node("b", "d", created_at="2024-01-02T00:00:00Z"),
        node("c", "b", created_at="2024-01-01T12:00:00Z"),
        node("d", "c", created_at="2024-01-03T00:00:00Z"),
        node("e", "d"),
        node("f", "f"),
    ]
    tree, told = mended(store, ROOT, *circle)
    assert parents(tree) == {"A": None, "B": "D", "C": None, "D": "C", "E": "D", "F": None}
    assert "circles of messages that answer each other; each was opened at its oldest message: 2" in told


def test_a_message_that_is_there_twice_is_taken_once_and_another_with_its_id_is_kept(store: SessionStore) -> None:
    tree, told = mended(store, ROOT, node("b", "a"), node("b", "a"), node("b", "a", content="other"), node("c", "b"))
    assert parents(tree) == {"A": None, "B": "A", "other": "A", "C": "B"}
    assert "word for word, and taken once: 1" in told and "both were kept: 1" in told


@pytest.mark.parametrize(
    ("role", "above", "becomes"),
    [("human", None, "user"), ("GPT", "a", "assistant"), ("developer", None, "system"), ("function", "a", "tool")],
)
def test_names_of_roles_in_other_files_are_understood(
    store: SessionStore, role: str, above: str | None, becomes: str
) -> None:
    tree, told = mended(store, ROOT, node("b", above, role=role))
    assert (tree.nodes[1].role, told) == (becomes, "")


def test_unknown_roles_go_by_their_place(store: SessionStore) -> None:
    tree, told = mended(store, ROOT, node("b", "a", role="critic"), node("c", "b", role=None), node("d", None, role=7))
    assert [one.role for one in tree.nodes] == ["user", "assistant", "user", "user"]
    assert "role that is not known" in told and told.endswith(": 3")


def test_null_absent_and_odd_fields_have_a_meaning(store: SessionStore) -> None:
    tree, told = mended(
        store,
        {"id": 1, "role": "user", "content": None},
        {"id": 2, "parent_id": 1, "role": "assistant", "content": ["a", 1], "reasoning": 5, "runs": "x", "tokens": [3]},
        {"parent_id": 2, "role": "user", "content": {"text": "inside"}, "status": "asleep", "attachments": [None]},
        "no message at all",
        None,
        title=["no title"],
        params={"temperature": "hot", "top_k": 5, "colour": "red"},
        head_id={},
    )
    assert [one.status for one in tree.nodes] == ["done"] * 3 and tree.params == {"top_k": 5} and tree.title is None
    assert '"a"' in tree.nodes[1].content and '"inside"' in tree.nodes[2].content
    for words in ("left out: 2", "written as text: 2", "have no meaning here", "without an id", "token ids"):
        assert words in told
    assert tree.branch(tree.head_id)[-1].id == tree.nodes[2].id


def test_a_head_that_is_not_there_becomes_the_last_leaf(store: SessionStore) -> None:
    for head in ("gone", "h"):
        hidden = node("h", "a", role="assistant", content="", hidden=True)
        tree, told = mended(store, ROOT, node("b", "a", shown=5), node("c", "a", shown=9), hidden, head_id=head)
        assert tree.by_id()[tree.head_id or ""].content == "C" and "last branch is shown" in told


def test_a_head_in_the_middle_of_a_branch_goes_to_its_end(store: SessionStore) -> None:
    others = [node("b", "a", shown=9), node("c", "b", shown=4), node("d", "b", shown=7), node("e", "d", shown=1)]
    tree, told = mended(store, ROOT, *others, node("f", "a", shown=99), head_id="b")
    assert tree.by_id()[tree.head_id or ""].content == "C" and "in the middle of a branch" in told
    tree, _ = mended(store, ROOT, node("b", "a", deleted_at="2024-03-01T00:00:00Z"), head_id="b")
    assert tree.by_id()[tree.head_id or ""].content == "A"
    tree, _ = mended(store, node("a", None, deleted_at="2024-03-01T00:00:00Z"), head_id="a")
    assert tree.head_id is None


def test_times_that_cannot_be_are_replaced_and_those_of_the_future_kept(store: SessionStore) -> None:
    tree, told = mended(
        store,
        node("a", None, created_at=1_700_000_000),
        node("b", "a", created_at="yesterday"),
        node("c", "b", created_at=-5),
        node("d", "c", created_at="9999-99-99"),
        node("e", "d", created_at="2090-01-01T00:00:00Z"),
        node("f", "e", created_at=1_700_000_000_123),
        node("g", "f", created_at=1e300),
        created_at="1066-10-14",
        updated_at=float("nan"),
    )
    times = {one.content: one.created_at for one in tree.nodes}
    assert set(times.values()) == {"2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.123Z", "2090-01-01T00:00:00.000Z"}
    assert times["D"] == times["A"] and times["G"] == times["F"]
    assert tree.created_at == times["A"] and "from the future" in told and "that of the message above: 4" in told


def test_half_characters_and_nul_are_stored_as_text_can_be(store: SessionStore) -> None:
    file = r'{"format":"pagedchat","version":1,"chats":[{"id":"\ud800","title":"t\ud83d\u0000x","folder":"f\u0000",'
    file += r'"params":{"stop":["\udfff"]},"messages":[{"id":"a","role":"user","content":"\ud83d\ude00 a\udc00b\u0000c"'
    file += r',"runs":[{"model":"m\ud800","params":{"x":"\ud800"}}],"parent_id":"\ud801"}]}]}'
    report = bring(store, file)
    tree = store.exchange.read_tree(report.chats[0].id)
    assert tree.nodes[0].content == "😀 a�b\0c" and tree.title == "t� x" and tree.folder == "f"
    assert tree.nodes[0].runs[0].model == "m�"
    assert store.search.find("model:m", limit=5, offset=0).total >= 0


def test_a_hidden_message_with_text_is_shown_and_one_under_a_deleted_message_is_in_the_trash(
    store: SessionStore,
) -> None:
    gone = {"deleted_at": "2024-03-01T00:00:00Z", "deleted_root": "b"}
    tree, _ = mended(
        store,
        ROOT,
        node("b", "a", role="assistant", **gone),
        node("c", "b"),
        node("d", "a", role="assistant", hidden=True),
        node("e", "a", role="assistant", content="", hidden=True),
        node("f", "e"),
        node("g", "a", deleted_at="2024-03-02T00:00:00Z", deleted_root="a"),
    )
    assert [one.content for one in tree.nodes if one.visible] == ["A", "D", "", "F"]
    assert sorted(one.messages for one in store.trash.branches()) == [1, 2]


def test_folders_that_are_not_there_are_made_once(store: SessionStore) -> None:
    chats = [
        {**file_of(ROOT)["chats"][0], "id": str(n), "folder": name} for n, name in enumerate(("Work", "WORK", "Ü"))
    ]
    report = bring(store, {**file_of(), "chats": chats})
    assert report.folders == ["Work", "Ü"]
    assert [store.exchange.read_tree(one.id).folder for one in report.chats] == ["Work", "Work", "Ü"]
    assert bring(store, {**file_of(), "chats": chats}).folders == []


def test_a_reply_that_was_being_written_is_marked_as_interrupted(store: SessionStore) -> None:
    running = node("b", "a", role="assistant", status="streaming", content="half")
    tree, told = mended(store, ROOT, running, node("c", "a", role="assistant", status="streaming", content=""))
    assert (tree.nodes[1].status, tree.nodes[2].hidden) == ("interrupted", True) and "still being written" in told
    assert store.interrupt_running() == 0
