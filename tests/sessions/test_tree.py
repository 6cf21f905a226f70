"""The message tree: nothing that was written is ever out of reach."""

from __future__ import annotations

import random
from pathlib import Path

from pagedchat.sessions.store import SessionStore
from pagedchat.sessions.titles import title_from
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient


def test_a_tree_of_sixty_messages_stays_whole(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "s.db"
        async with ChatRoom(path, FakeEngineClient(lambda request: f"reply {request.params.seed}")) as room:
            session_id = await room.new()
            first = await room.ask(session_id, "turn 1")
            second = await room.ask(session_id, "turn 2", first["id"])
            counts = [room.count()]
            for _ in range(10):
                await room.end_of((await room.service.regenerate(second["id"]))["id"])
                counts.append(room.count())
            edited = await room.service.edit(first["parent_id"], "turn 1, edited")
            await room.end_of(edited["reply"]["id"])
            counts.append(room.count())
            for text in ("reply edited in place", "and once more"):
                await room.service.edit(first["id"], text)
            rng = random.Random(3)
            everyone = [first["id"], second["id"], edited["reply"]["id"]]
            while room.count() < 60:
                parent = rng.choice(everyone)
                everyone.append((await room.ask(session_id, f"at {room.count()}", parent))["id"])
                counts.append(room.count())
            assert counts == sorted(counts)
            with room.store._reader.reading() as connection:
                rows = dict(connection.execute("SELECT id, parent_id FROM messages").fetchall())
            leaves = set(rows) - set(rows.values())
            paths = {}
            for leaf in rng.sample(sorted(leaves), len(leaves)):
                await room.service.select(leaf)
                paths[leaf] = await room.shown(session_id)
                assert [one["id"] for one in paths[leaf]] == climb(rows, leaf)
        async with ChatRoom(path) as room:
            assert room.count() == 60 and len(paths) > 20
            for leaf, before in paths.items():
                await room.service.select(leaf)
                assert await room.shown(session_id) == before
            seen = {one for branch in paths.values() for message in branch for one in message["siblings"]}
            assert seen == set(rows)
            # Going back and sending again reuses the whole of that branch.
            back = await room.service.branch_tokens(session_id, second["id"])
            room.engine._fed.append(back)
            reply = await room.ask(session_id, "on from here", second["id"])
            assert reply["generation"]["cached_tokens"] == len(back)

    play(story())


def climb(parents: dict[str, str | None], leaf: str) -> list[str]:
    path = [leaf]
    while (parent := parents[path[-1]]) is not None:
        path.append(parent)
    return path[::-1]


def test_siblings_keep_their_order_and_place(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    session = store.create_session(None, {}, None)
    _, question, reply = store.add_question(session.id, None, "q")
    store.finish_reply(reply.id, "0", "done")
    ids = [reply.id]
    for number in range(1, 12):
        _, other = store.add_reply(reply.id)
        store.finish_reply(other.id, str(number), "done")
        ids.append(other.id)
    assert ids == sorted(ids)
    for one in ids:
        store.select(one)
        _, messages, _ = store.shown_branch(session.id)
        assert [message.id for message in messages] == [question.id, one]
        assert messages[1].siblings == ids
    store.close()


def test_two_first_messages_are_siblings_and_other_chats_are_not(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    session, other = store.create_session(None, {}, None), store.create_session(None, {}, None)
    questions = []
    for chat, text in ((session, "a"), (other, "b"), (session, "c")):
        _, question, reply = store.add_question(chat.id, None, text)
        store.finish_reply(reply.id, "r", "done")
        questions.append(question.id)
    assert store.message(questions[0]).siblings == [questions[0], questions[2]]
    assert store.message(questions[1]).siblings == [questions[1]]
    store.close()


def test_sessions_are_listed_by_their_last_use(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "s.db")
    ids = [store.create_session(None, {}, None).id for _ in range(4)]
    store.change_session(ids[0], pinned=True)
    store.add_question(ids[2], None, "used")
    store.change_session(ids[3], deleted_at="2026-01-01T00:00:00.000Z")
    listed = [one.id for one in store.sessions()]
    assert listed[0] == ids[0] and set(listed) == set(ids[:3])
    assert store.last_session_id() in ids[:3]
    store.remember_last(ids[1])
    assert store.last_session_id() == ids[1]
    store.change_session(ids[1], deleted_at="2026-01-01T00:00:00.000Z")
    assert store.last_session_id() == ids[2]
    store.close()


def test_titles_are_the_first_words() -> None:
    assert title_from("  Why is\n\npaging not slower? ") == "Why is paging not slower?"
    assert title_from("") == "New chat"
    long = title_from("Explain to me in some detail how a block table finds its block, please")
    assert long == "Explain to me in some detail how a block table…"
    assert len(title_from("漢" * 100)) == 49
    assert title_from("👩‍👩‍👧‍👦" * 20).rstrip("…")[-1] != "\u200d"
    assert title_from("<b>bold</b>") == "<b>bold</b>"
