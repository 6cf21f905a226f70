"""Searching a store: words in any script, titles, filters, order, and what is not shown."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.rows import Generation
from pagedchat.sessions.search import MOST
from support.chat_room import ChatRoom
from support.searched import Shelf, marks_of, text_of


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path / "sessions.db")
    yield made
    made.store.close()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("北", True), ("京", True), ("学", True), ("北京", True), ("京大", True), ("北京大学", True), ("学北", False),
        ("猫", True), ("が好", True), ("ネコ", True), ("ﾈｺ", True), ("한국", True), ("국어", True), ("어", True),
        ("ไทย", True), ("ภาษา", True), ("ย", True), ("ກາ", True), ("ភាសា", True), ("မြန်", True), ("日", False),
    ],
)  # fmt: skip
def test_words_of_scripts_without_spaces_are_found_at_any_length(shelf: Shelf, query: str, found: bool) -> None:
    text = "我在北京大学。私は猫が好き、ネコ。한국어를 배워요. ภาษาไทยง่าย ພາສາລາວ ການ ភាសាខ្មែរ မြန်မာ"
    shelf.ask("x", text)
    assert bool(shelf.texts(query)) is found


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("a café", "cafe"), ("a cafe", "café"), ("a cafe\u0301", "CAFÉ"), ("Müller", "muller"), ("muller", "MÜLLER"),
        ("İstanbul", "istanbul"), ("ISPARTA", "ısparta"), ("ﬁnal", "final"), ("final", "ﬁnal"), ("Straße", "STRASSE"),
        ("Łódź", "lodz"), ("smørrebrød", "smorrebrod"), ("ｆｕｌｌ", "full"), ("Ёлка", "елка"),
        ("Ὀδυσσεύς", "οδυσσευς"),
        ("done 👍🏽!", "👍"), ("👩‍💻 at work", "💻"), ("שָׁלוֹם עולם", "שלום"), ("مرحبا بالعالَم", "بالعالم"),
        ("हिन्दी", "हिन्दी"),
        ("snake_case_name", "case"), ("call f(x_1)", "x_1"), ("e.g. 3.14", "3.14"), ("no\0break", "break"),
        ("C++ and C#", "c++"), ("C++ and C#", "C#"), ("foo:bar", "foo:bar"),
        ("see https://a.example/b?c", "a.example/b"),
    ],
)  # fmt: skip
def test_case_accents_and_forms_do_not_matter_and_the_text_stays_as_it_was(
    shelf: Shelf, written: str, query: str
) -> None:
    shelf.ask(written, "nothing")
    hits = [hit for hit in shelf.find(f"{query} ").hits if hit.message_id]
    assert [text_of(hit.snippet) for hit in hits] == [written]
    assert marks_of(hits[0].snippet)
    assert shelf.texts("other") == set()


def test_signs_of_a_name_tell_it_from_its_letter(shelf: Shelf) -> None:
    shelf.ask("I like C", "I like C++ more, and C# least")
    assert shelf.texts("c++") == shelf.texts("c#") == {"I like C++ more, and C# least"}
    assert len(shelf.texts("c")) == 2


def test_all_words_must_occur_the_last_may_be_unfinished(shelf: Shelf) -> None:
    shelf.ask("red apples are categorically good", "green cats")
    assert len(shelf.texts("apples cat")) == 1
    assert shelf.texts("red cats") == shelf.texts("apples cat ") == shelf.texts('"categ" ') == set()
    assert len(shelf.texts("cat")) == 2 and len(shelf.texts('"red apples are cat')) == 1


def test_phrases_and_exclusions(shelf: Shelf) -> None:
    shelf.ask("the old man and the sea", "the sea, and the man who is old; c")
    assert len(shelf.texts('"old man"')) == 1 and len(shelf.texts("old man")) == 2
    assert shelf.texts('sea -"old man"') == {"the sea, and the man who is old; c"}
    assert shelf.texts("-who") == {"the old man and the sea"}
    assert shelf.texts("man -sea") == set()


def test_titles_are_found_too_and_come_first(shelf: Shelf) -> None:
    shelf.ask("about gardens", "roses here and roses there")
    named = shelf.ask("x", "y", title="Roses in Überlingen")
    first, second = shelf.find("roses").hits
    assert (first.part, first.message_id, first.session_id) == ("title", None, shelf.session_of(named))
    assert (second.part, second.role, second.title) == ("content", "assistant", "about gardens")
    assert marks_of(first.snippet) == ["Roses"]
    shelf.store.change_session(first.session_id, title="Tulips", title_by="user")
    assert [hit.part for hit in shelf.find("roses").hits] == ["content"]
    assert [hit.part for hit in shelf.find("tulips").hits] == ["title"]
    assert shelf.find("uberlingen").total == 0


def test_thinking_is_found_and_says_so(shelf: Shelf) -> None:
    session = shelf.store.create_session(None, {}, None)
    _, _, reply = shelf.store.add_question(session.id, None, "q")
    shelf.store.finish_reply(reply.id, "The answer.", "done", reasoning="Let me ponder Brûlée.")
    (hit,) = shelf.find("brulee").hits
    assert (hit.part, marks_of(hit.snippet)) == ("reasoning", ["Brûlée"])
    assert [one.message_id for one in shelf.find("has:reasoning").hits] == [reply.id]


def test_trash_and_hidden_messages_are_not_shown_and_the_archive_is_marked(shelf: Shelf) -> None:
    kept = shelf.ask("walnut one", "walnut two")
    gone = shelf.ask("walnut three", "walnut four")
    shelf.store.change_session(shelf.session_of(gone), deleted_at="2026-01-01T00:00:00.000Z")
    assert shelf.texts("walnut") == {"walnut one", "walnut two"}
    shelf.store.trash.delete_branch(kept)
    assert shelf.texts("walnut") == {"walnut one"}
    shelf.store.trash.restore_branch(kept)
    shelf.store.change_session(shelf.session_of(gone), deleted_at=None)
    shelf.store.change_session(shelf.session_of(kept), archived=1)
    assert {(text_of(hit.snippet), hit.archived) for hit in shelf.find("walnut").hits if hit.message_id} == {
        ("walnut one", True), ("walnut two", True), ("walnut three", False), ("walnut four", False),
    }  # fmt: skip


def test_edits_other_versions_continuations_and_forks_are_found(shelf: Shelf) -> None:
    first = shelf.ask("question about quince", "first answer")
    _, second = shelf.store.add_reply(first)
    assert shelf.texts("medlar") == set()
    shelf.store.save_partial(second.id, "medlar in part")
    assert shelf.texts("medlar") == set()  # not before its end
    shelf.store.finish_reply(second.id, "medlar cut", "stopped")
    assert shelf.texts("medlar") == {"medlar cut"}
    shelf.store.resume_reply(second.id)
    assert shelf.texts("medlar") == set()
    shelf.store.finish_reply(second.id, "medlar cut no more", "done")
    assert shelf.texts("medlar more") == {"medlar cut no more"}
    shelf.store.add_edit(second.id, "sorb instead")
    assert shelf.texts("sorb") == {"sorb instead"}
    assert len(shelf.texts("answer")) == 1
    shelf.store.fork(second.id, "branch")
    shelf.store.search.take_in()
    assert len([hit for hit in shelf.find("medlar").hits if hit.message_id]) == 2


def test_a_reply_that_a_killed_process_left_is_found_once_it_is_marked(shelf: Shelf) -> None:
    session = shelf.store.create_session(None, {}, None)
    _, _, reply = shelf.store.add_question(session.id, None, "q")
    shelf.store.save_partial(reply.id, "partial persimmon")
    shelf.store.interrupt_running()
    assert shelf.texts("persimmon") == {"partial persimmon"}


def test_purged_words_are_in_the_index_no_more(shelf: Shelf) -> None:
    shelf.ask("keep", "fruit")
    gone = shelf.ask("xylophonic", "fruit xylophonist", title="xylophones")
    shelf.store.change_session(shelf.session_of(gone), deleted_at="2026-01-01T00:00:00.000Z")
    shelf.store.trash.purge([shelf.session_of(gone)])
    assert shelf.find("fruit").total == 1
    shelf.store.close()
    assert b"xylophon" not in shelf.path.read_bytes()


def test_filters_alone_list_the_newest_first_and_combine(shelf: Shelf) -> None:
    folder = shelf.store.library.add_folder("My Thèses")
    first = shelf.ask("one ```code```", "see https://a.b")
    shelf.ask("two", "three")
    shelf.store.change_session(shelf.session_of(first), folder_id=folder)
    assert [text_of(hit.snippet) for hit in shelf.find("role:user").hits] == ["two", "one ```code```"]
    assert shelf.texts("has:code") == {"one ```code```"} == shelf.texts("one -has:link")
    assert shelf.texts("has:link") == {"see https://a.b"}
    assert shelf.texts('folder:"my theses"') == {"one ```code```", "see https://a.b"}
    assert shelf.texts('folder:"my theses" role:assistant') == {"see https://a.b"}
    assert shelf.texts('-folder:"my theses" role:assistant') == {"three"}
    assert shelf.texts("-role:user -has:link") == {"three"}
    assert [hit.part for hit in shelf.find('one folder:"My Thèses"').hits] == ["title", "content"]
    assert [hit.part for hit in shelf.find("one role:user").hits] == ["content"]
    with pytest.raises(SessionError, match=r'There is no folder "other"; there is "My Thèses"'):
        shelf.find("folder:other")


def test_the_other_things_a_message_can_have(shelf: Shelf) -> None:
    reply = shelf.ask("attached", "fine")
    _, failed = shelf.store.add_reply(reply)
    shelf.store.finish_reply(failed.id, "half", "error", "It broke.")
    assert shelf.texts("has:error") == {"half"}
    assert shelf.texts("has:branch") == {"fine", "half"} and shelf.texts("-has:branch") == {"attached"}
    assert shelf.texts("fine has:branch") == {"fine"} and shelf.texts("attached has:branch") == set()
    with shelf.store._writer.transaction(durable=False) as connection:
        row = ["f", shelf.session_of(reply), shelf.store.message(reply).parent_id]
        connection.execute("INSERT INTO attachments VALUES (1, ?, ?, ?, 'a.txt', 'text/plain', 1, 'h', '', NULL)", row)
    assert shelf.texts("has:attachment") == {"attached"} == shelf.texts("attached has:attachment")


def test_models_are_found_by_a_part_of_their_name(shelf: Shelf) -> None:
    for model in ("Qwen2.5-0.5B", "llama-3"):
        session = shelf.store.create_session(None, {}, None)
        _, _, reply = shelf.store.add_question(session.id, None, "who?")
        shelf.store.finish_reply(reply.id, f"I am {model}", "done", None, Generation(reply.id, model=model))
    (hit,) = shelf.find("model:QWEN").hits
    assert (hit.model, text_of(hit.snippet)) == ("Qwen2.5-0.5B", "I am Qwen2.5-0.5B")
    assert shelf.find("am model:llama-3").total == 1 and shelf.find("model:qwen model:llama").total == 2
    with pytest.raises(SessionError, match=r'"Qwen2\.5-0\.5B", "llama-3"'):
        shelf.find("model:gpt")


def test_dates_narrow(shelf: Shelf) -> None:
    reply = shelf.ask("early bird", "late bird")
    with shelf.store._writer.transaction(durable=False) as connection:
        connection.execute("UPDATE messages SET created_at = '2020-06-01T12:00:00.000Z' WHERE id != ?", [reply])
    tomorrow = date.today() + timedelta(days=1)
    assert shelf.texts("bird before:2021") == {"early bird"} == shelf.texts("before:2020-07 after:2020-05-31")
    assert shelf.texts("bird after:yesterday") == {"late bird"} == shelf.texts(f"after:7d before:{tomorrow}")
    assert shelf.find("bird after:2019 before:2020").total == 0


def test_better_and_newer_messages_come_first_page_by_page(shelf: Shelf) -> None:
    shelf.ask("filler " * 60 + "pomelo", "no")
    shelf.ask("pomelo pomelo", "no")
    texts = [text_of(hit.snippet)[:13] for hit in shelf.find("pomelo role:user").hits]
    assert texts[0] == "pomelo pomelo"
    pages = [shelf.store.search.find("role:assistant", 1, offset).hits for offset in range(3)]
    assert [len(page) for page in pages] == [1, 1, 0] and pages[0][0].message_id != pages[1][0].message_id
    assert shelf.store.search.find("pomelo", 0).total >= 2 and shelf.store.search.find("pomelo", -1, -5).hits == []


def test_hits_are_counted_up_to_a_bound(shelf: Shelf) -> None:
    reply = shelf.ask("seed", "seed")
    session = shelf.session_of(reply)
    with shelf.store._writer.transaction(durable=False) as connection:
        connection.executemany(
            "INSERT INTO messages (id, session_id, role, status, content, created_at, updated_at) "
            "VALUES (?, ?, 'user', 'done', 'many figs', '2020-01-01T00:00:00.000Z', '')",
            [(f"m{n}", session) for n in range(MOST + 5)],
        )
    shelf.store.close()
    shelf.store = Shelf(shelf.path).store  # which notices that they are not in the index
    found = shelf.find("figs", 10)
    assert (len(found.hits), found.total, found.more) == (10, MOST, True)
    assert not shelf.find("seed").more


def test_large_and_broken_texts_are_found(shelf: Shelf) -> None:
    shelf.ask("x" * 1_000_000 + " needle " + "字" * 100_000 + "针", "ok")
    with shelf.store._writer.transaction(durable=False) as connection:
        connection.execute("UPDATE messages SET content = CAST(x'6861792066ff66' AS TEXT) WHERE role = 'assistant'")
        connection.execute("UPDATE state SET value = 'stale' WHERE key = 'search_index'")
    shelf.store.close()
    shelf.store = Shelf(shelf.path).store
    began = time.monotonic()
    assert [marks_of(hit.snippet) for hit in shelf.find("needle 针").hits if hit.message_id] == [["needle"]]
    assert time.monotonic() - began < 5
    assert shelf.texts("hay") == {"hay f\ufffdf"}


def test_a_lone_surrogate_in_a_search_is_text(shelf: Shelf) -> None:
    shelf.ask("half a pair", "ok")
    assert shelf.texts("half\ud83d") == {"half a pair"}
    assert shelf.find("\ud83d").total == 0 and "no letter" in shelf.find("\0?!").note
    assert shelf.find("  ").note == ""


def test_the_service_hands_out_plain_values(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "sessions.db") as room:
            await room.ask(await room.new(), "Is there Crème?")
            found = await room.service.library.search("creme", 10, 0)
            assert found["total"] == 2 and not found["more"] and found["note"] == ""
            title, message = found["hits"]
            assert title["message_id"] is None and message["role"] == "user" and message["archived"] is False
            assert message["snippet"] == [["Is there ", False], ["Crème", True], ["?", False]]
            with pytest.raises(SessionError):
                await room.service.library.search("role:nobody", 10, 0)

    asyncio.run(story())


def test_a_search_changes_nothing(shelf: Shelf) -> None:
    shelf.ask("read only", "ok")
    with pytest.raises(sqlite3.Error):
        shelf.store._reader._raw.execute("DELETE FROM messages")
    before = shelf.store.commits
    shelf.find("read")
    assert shelf.store.commits == before
