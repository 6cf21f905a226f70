"""A fork is a chat of its own that begins with the same messages, the same ids, and the same cached blocks."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.forks import RUNNING, ForkMode, forked_title
from pagedchat.sessions.usage import read_usage
from support.chat_room import ChatRoom, play
from support.chat_templates import ALL
from support.fake_client import FakeEngineClient
from support.loop_client import scripted_loop_client
from support.paged_client import PagedFakeClient
from support.stored_chat import StoredChat


def tree_of(chat: StoredChat) -> dict[str, list[str]]:
    """Texts below each text ("" for the first ones), in the order of siblings."""
    with chat.store._reader.reading() as connection:
        rows = connection.execute(
            "SELECT m.content, p.content FROM messages m LEFT JOIN messages p ON p.id = m.parent_id "
            "WHERE m.session_id = ? AND m.hidden = 0 AND m.deleted_at IS NULL ORDER BY m.key",
            [chat.id],
        ).fetchall()
    found: dict[str, list[str]] = {}
    for content, above in rows:
        found.setdefault(above or "", []).append(content)
    return found


@pytest.fixture
def chat(tmp_path: Path) -> StoredChat:
    """The tree that `forks` draws; r1 and r2 are ``.ids["r1"]`` and ``.ids["r2"]``."""
    chat = StoredChat.at(tmp_path)
    r1 = chat.ask("q1", reply="r1", ids=[1, 2, 3])
    chat.again(r1, "r1'")
    chat.store.select(r1)
    r2 = chat.ask("q2", r1, reply="r2")
    chat.ask("q2'", r1, reply="r2'")
    chat.ask("q3", r2, reply="r3")
    chat.ids = {"r1": r1, "r2": r2}
    return chat


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("branch", {"": ["q1"], "q1": ["r1"], "r1": ["q2"], "q2": ["r2"]}),
        ("siblings", {"": ["q1"], "q1": ["r1", "r1'"], "r1": ["q2", "q2'"], "q2": ["r2"]}),
        (
            "tree",
            {"": ["q1"], "q1": ["r1", "r1'"], "r1": ["q2", "q2'"], "q2": ["r2"], "r2": ["q3"], "q2'": ["r2'"]}
            | {"q3": ["r3"]},
        ),
    ],
)
def test_each_mode_takes_what_it_says(chat: StoredChat, mode: ForkMode, expected: dict[str, list[str]]) -> None:
    before = tree_of(chat)
    new = StoredChat(chat.store, chat.store.fork(chat.ids["r2"], mode).id)
    assert tree_of(new) == expected
    assert new.shown()[:4] == ["q1", "r1", "q2", "r2"] and len(new.shown()) == (6 if mode == "tree" else 4)
    assert tree_of(chat) == before and chat.sound()
    for message in new.store.shown_branch(new.id)[1]:
        original = chat.store.message(message.copied_from or "")
        assert (message.content, message.created_at) == (original.content, original.created_at)
    chat.store.close()


def test_a_fork_keeps_what_belongs_to_the_chat_and_is_its_own(chat: StoredChat) -> None:
    store = chat.store
    store.change_session(chat.id, system_prompt="Be kind.", params={"top_p": 0.5}, title="Trip", pinned=1, archived=1)
    old = store.session(chat.id)
    new = store.fork(chat.ids["r1"], "branch")
    for name in ("system_prompt", "params", "model", "folder_id", "preset_id"):
        assert getattr(new, name) == getattr(old, name)
    assert (new.pinned, new.archived, new.forked_from) == (False, False, chat.ids["r1"])
    assert new.prompt_date == old.created_at and new.created_at >= old.created_at
    assert store.fork(new.head_id or "", "branch").prompt_date == old.created_at
    store.add_question(new.id, new.head_id, "only here")
    store.change_session(chat.id, deleted_at="x")
    store.trash.purge([chat.id])
    assert StoredChat(store, new.id).shown()[:3] == ["q1", "r1", "only here"] and chat.sound()
    store.close()


def test_the_names_of_forks_begin_with_what_tells_them_apart_and_count_up() -> None:
    assert [forked_title(one) for one in ("Trip", "Trip (fork)", "Fork 9: Trip", None)] == [*["Fork: Trip"] * 3, None]
    taken: list[str] = []
    for expected in ("Fork: Trip", "Fork 2: Trip", "Fork 3: Trip"):
        name = forked_title(taken[-1] if taken else "Trip", taken)
        assert name == expected
        taken.append(name)


def test_what_is_deleted_hidden_or_has_no_text_yet_stays_behind(chat: StoredChat) -> None:
    store = chat.store
    _, hidden = store.add_reply(chat.ids["r1"])
    store.finish_reply(hidden.id, "", "stopped")
    store.trash.delete_branch(chat.ids["r2"])
    _, empty = store.add_reply(chat.ids["r1"])
    new = StoredChat(store, store.fork(empty.id, "tree").id)
    assert tree_of(new) == {"": ["q1"], "q1": ["r1", "r1'"], "r1": ["q2", "q2'"], "q2'": ["r2'"]}
    assert new.shown() == ["q1", "r1", "q2"]  # what was used last below the question
    assert StoredChat(store, store.fork(empty.id, "branch").id).shown() == ["q1"]
    for refused, sentence in ((hidden.id, "without any text"), (chat.ids["r2"], "restore it")):
        with pytest.raises(SessionError, match=sentence):
            store.fork(refused, "branch")
    with pytest.raises(SessionError, match=", ".join(get_args(ForkMode))):
        store.fork(chat.ids["r1"], "all")  # type: ignore
    store.close()


def test_a_running_reply_is_copied_as_far_as_it_is_stored(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["0123456789" * 300], delay_s=0.001)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new()
            sent = await room.service.send(session_id, None, "q")
            await room.until(lambda: room.store.message(sent["reply"]["id"]).content)
            new = await room.service.fork(sent["reply"]["id"])
            assert not new["running"]
            reply = (await room.shown(new["id"]))[-1]
            assert (reply["status"], reply["error"]) == ("interrupted", RUNNING)
            assert reply["content"].startswith("0123456789")
            await room.service.stop(sent["reply"]["id"])
            await room.service.continue_reply(reply["id"])
            await room.begun(reply["id"])
            await room.service.stop(reply["id"])

    play(story())


@pytest.mark.parametrize("mode", get_args(ForkMode))
def test_the_prompt_of_a_fork_is_found_cached(tmp_path: Path, mode: ForkMode) -> None:
    async def story() -> None:
        engine = PagedFakeClient(["a reply of some length", "and another one", "the last"])
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session_id = await room.new(system_prompt="Answer in short sentences, please.")
            first = await room.ask(session_id, "the first question")
            second = await room.ask(session_id, "the second question", first["id"])
            fed = await room.service.branch_tokens(session_id)
            told = len(room.events)
            new = await room.service.fork(second["id"], mode)
            assert new in [one["session"] for one in room.events[told:] if one["type"] == "session"]
            assert await room.service.branch_tokens(new["id"]) == fed
            reply = await room.ask(new["id"], "the third question", new["head_id"])
            assert engine.requests[-1].begun_at == engine.requests[0].begun_at
            # The last id of a reply, which ends it, was sampled and never fed.
            assert reply["generation"]["cached_tokens"] == len(fed) - 1

    play(story())


def test_branches_are_compared_at_any_depth(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["r1", "r2", "r3", "other"])) as room:
            compare, session_id, elsewhere = room.service.comparison.compare, await room.new(), await room.new()
            first = await room.ask(session_id, "q1")
            second = await room.ask(session_id, "q2", first["id"])
            third = await room.ask(session_id, "q3", second["id"])
            other = await room.service.regenerate(first["id"])
            await room.end_of(other["id"])
            found = await compare([third["id"], other["id"]])
            assert found["common"] == 1
            a, b = ([one["content"] for one in branch["messages"]] for branch in found["branches"])
            assert (a, b) == (["r1", "q2", "r2", "q3", "r3"], ["other"])
            assert found["branches"][0]["messages"][0]["siblings"] == [first["id"], other["id"]]
            alone, followed = (
                await compare([first["id"], other["id"]]),
                await compare([first["id"], other["id"]], follow=True),
            )
            assert [len(one["messages"]) for one in alone["branches"]] == [1, 1]
            assert [len(one["messages"]) for one in followed["branches"]] == [5, 1]
            edited = await room.service.edit(first["parent_id"], "Q1")
            await room.end_of(edited["reply"]["id"])
            three = await compare([third["id"], other["id"], edited["reply"]["id"]])
            assert (three["common"], len(three["branches"])) == (0, 3)
            assert set(three["branches"][0]["messages"][1]["generation"]) >= {"seed", "params", "model"}
            stranger = await room.ask(elsewhere, "x")
            for ids, words in (
                ([third["id"], stranger["id"]], "several chats"),
                ([second["id"], third["id"]], "the beginning of another"),
                ([third["id"]], "2 to 4"),
                ([third["id"], third["id"]], "different"),
            ):
                with pytest.raises(SessionError, match=words):
                    await compare(ids)

    play(story())


def test_copies_do_not_count_twice_in_the_usage(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db") as room:
            session_id = await room.new()
            reply = await room.ask(session_id, "q")
            before = read_usage(tmp_path / "s.db")
            new = await room.service.fork(reply["id"])
            assert read_usage(tmp_path / "s.db") == before
            await room.ask(new["id"], "more", new["head_id"])
            after = read_usage(tmp_path / "s.db")
            assert (after.chats, after.turns, len(after.reply_tokens)) == (2, [1, 1], 2)

    play(story())


@pytest.mark.parametrize("name", ["dated", "chatml_with_default", "gemma"])
def test_a_fork_of_an_old_chat_keeps_its_date_and_its_blocks_on_real_prompts(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        client = scripted_loop_client(ALL[name])
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session_id = await room.new(params={"max_tokens": 5})
            with room.store._writer.transaction(durable=False) as connection:
                connection.execute("UPDATE sessions SET created_at = '2020-02-03T12:00:00.000Z'")
            first = await room.ask(session_id, "What day is it?")
            fed = await room.service.branch_tokens(session_id)
            new = await room.service.fork(first["id"])
            assert new["created_at"] > "2026"
            after = await room.ask((await room.service.fork(new["head_id"]))["id"], "And now?", None)
            assert after["generation"]["cached_tokens"] < len(fed) - 1  # a first message: only what begins all chats
            reply = await room.ask(new["id"], "And now?", new["head_id"])
            assert client.requests[-1].begun_at == "2020-02-03T12:00:00.000Z"
            assert reply["generation"]["cached_tokens"] == len(fed) - 1

    play(story())
