"""Files in prompts: whole ones before the question, passages of larger ones after it, the same bytes for ever."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.chat_template import CHATML
from pagedchat.engine.prompt import PromptMessage
from pagedchat.sessions import document_service
from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.sent_files import read_sources
from support.chat_room import ChatRoom, play
from support.fake_client import FakeEngineClient
from support.prompts import FORGERY, builder_of

ROOM = {"max_model_len": 8_000, "num_blocks": 2_000}
SMALL = "Apples are red.\nPears are green.\n"
WORDS = "Nothing much happens in this part of the story, and so it goes on for a while, word by word. "
CHAPTERS = [f"Chapter {number}. {WORDS}" * 4 for number in range(40)]
CHAPTERS[17] += "The treasure lies under the old oak."
LARGE = "\n\n".join(CHAPTERS)


def room_at(tmp_path: Path, **options: Any) -> ChatRoom:
    return ChatRoom(tmp_path / "s.db", FakeEngineClient(info=ROOM, **options))


async def attach(room: ChatRoom, session_id: str, **files: str) -> list[str]:
    documents = room.service.documents
    return [(await documents.add(session_id, f"{name}.txt", text.encode()))["id"] for name, text in files.items()]


async def ask(room: ChatRoom, session_id: str, text: str, files: list[str], parent: str | None = None) -> Any:
    sent = await room.service.send(session_id, parent, text, files)
    await room.end_of(sent["reply"]["id"])
    return sent


def marked(view: dict[str, Any]) -> str:
    """The passage in a part of a document."""
    passage, offset = view["passage"], view["offset"]
    return view["text"][passage["start"] - offset : passage["end"] - offset]


def prompt_of(room: ChatRoom, place: int = -1) -> list[dict[str, Any]]:
    return room.engine.requests[place].messages


def test_a_small_file_stands_whole_before_the_question_and_stays_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id = await room.new()
            (file,) = await attach(room, session_id, notes=SMALL)
            (waiting,) = await room.service.documents.waiting(session_id)
            assert (waiting["id"], waiting["tokens"], waiting["problem"]) == (file, len(SMALL), None)
            sent = await ask(room, session_id, "Which are red?", [file])
            before = 'File "notes.txt":\n```\nApples are red.\nPears are green.\n```\n\n'
            assert prompt_of(room)[0]["content"] == before + "Which are red?"
            assert sent["user"]["content"] == "Which are red?"
            (told,) = sent["user"]["files"]
            assert (told["name"], told["how"]) == ("notes.txt", f"whole ({len(SMALL)} tokens)")
            assert await room.service.documents.waiting(session_id) == []
            await room.service.library.detach(told["id"])  # whatever becomes of the file
            again = await ask(room, session_id, "And green?", [], sent["reply"]["id"])
            assert [one["content"] for one in prompt_of(room)] == [before + "Which are red?", "Hello!", "And green?"]
            reply = room.last_view(again["reply"]["id"])
            first = room.last_view(sent["reply"]["id"])["generation"]["prompt_tokens"]
            assert reply["generation"]["cached_tokens"] >= first + len("Hello!")

    play(story())


def test_of_a_large_file_the_passages_that_fit_the_question_follow_it_with_numbers(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id = await room.new()
            files = await attach(room, session_id, story=LARGE, notes=SMALL)
            sent = await ask(room, session_id, "Where is the treasure?", files)
            content = prompt_of(room)[0]["content"]
            assert content.startswith('File "notes.txt":\n```\n') and "under the old oak" in content
            question = content.index("Where is the treasure?")
            assert content.index("Pears") < question < content.index("oak") and '[1] From "story.txt":\n' in content
            story_file, notes = sent["user"]["files"]
            assert notes["how"] == f"whole ({len(SMALL)} tokens)"
            count = len(sent["user"]["sources"])
            assert story_file["how"].startswith(f"{count} of ") and story_file["how"].endswith(" passages")
            assert [one["n"] for one in sent["user"]["sources"]] == [*range(1, count + 1)]
            assert content.count("[") == count + 1  # the default words name [1] once
            shown = [await room.service.documents.cited(sent["user"]["id"], one) for one in range(1, count + 1)]
            texts = [marked(one) for one in shown]
            assert any("old oak" in one for one in texts) and all(one in content for one in texts)
            assert shown[0]["name"] == "story.txt" and shown[0]["file"] == story_file["id"]
            with pytest.raises(SessionError, match="no passage 99"):
                await room.service.documents.cited(sent["user"]["id"], 99)
            asked = await ask(room, session_id, "And then?", [], parent=sent["reply"]["id"])
            end = await room.service.open(session_id, lambda ids: len(ids) - 2)
            assert [one["id"] for one in end["messages"]] == [asked["user"]["id"], asked["reply"]["id"]]
            above = [(one["n"], one["question"], one["name"]) for one in end["quoted_above"]]
            assert above == [(number, sent["user"]["id"], "story.txt") for number in range(1, count + 1)]
            assert (await room.service.open(session_id))["quoted_above"] == []

    play(story())


def test_a_probe_says_what_a_send_does_and_finds_the_document_cached(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id, service = await room.new(), room.service
            files = await attach(room, session_id, notes=SMALL * 50, story=LARGE)
            plan = await service.documents.plan(session_id, "Where is the oak?", files)
            question = await service.question(session_id, None, "Where is the oak?", plan)
            probed = await room.engine.probe(**question)
            assert [one.words for one in plan.sources] == [f"whole ({len(SMALL) * 50:,} tokens)", plan.sources[1].words]
            sent = await ask(room, session_id, "Where is the oak?", files)
            assert [one["how"] for one in sent["user"]["files"]] == [one.words for one in plan.sources]
            assert prompt_of(room)[0]["content"] == question["messages"][0]["content"]
            view = room.last_view(sent["reply"]["id"])["generation"]
            assert view["prompt_tokens"] == probed["prompt_tokens"] and probed["cached_tokens"] == 0

            edited = await service.edit(sent["user"]["id"], "What happens in chapter 3?")
            end = await room.end_of(edited["reply"]["id"])
            before = len(plan.before.encode())
            assert before < end["generation"]["cached_tokens"] < view["prompt_tokens"]  # the whole file, not the rest
            assert edited["message"]["files"][0]["how"] == plan.sources[0].words
            content = prompt_of(room)[0]["content"]
            assert content.startswith(plan.before + "What happens in chapter 3?") and "Chapter 3." in content
            old, new = ({one["id"] for one in view["files"]} for view in (sent["user"], edited["message"]))
            assert len(new) == 2 and not old & new

            again = await service.regenerate(sent["user"]["id"])
            await room.end_of(again["id"])
            assert prompt_of(room)[0]["content"] == question["messages"][0]["content"]

    play(story())


def test_forks_files_and_backups_keep_what_was_sent(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id, service = await room.new(), room.service
            files = await attach(room, session_id, notes=SMALL, story=LARGE)
            sent = await ask(room, session_id, "Where is the oak?", files)
            whole = prompt_of(room)[0]["content"]
            fork = await service.fork(sent["reply"]["id"])
            (question, reply) = await room.shown(fork["id"])
            assert [one["how"] for one in question["files"]] == [one["how"] for one in sent["user"]["files"]]
            cited = await service.documents.cited(question["id"], 1)
            assert cited["file"] in [one["id"] for one in question["files"]]
            await ask(room, fork["id"], "more", [], reply["id"])
            assert prompt_of(room)[0]["content"] == whole

            _, _, data = await service.library.export([session_id], "pagedchat")
            report = await service.library.import_file("chats.json", data)
            copy = await room.shown(report["chats"][0]["id"])
            assert copy[0]["files"][1]["how"] == sent["user"]["files"][1]["how"]
            assert copy[0]["sources"][0]["n"] == 1 and copy[0]["content"] == "Where is the oak?"
            assert (await service.documents.cited(copy[0]["id"], 1))["passage"] == cited["passage"]
            await ask(room, copy[0]["session_id"], "more", [], copy[1]["id"])
            assert prompt_of(room)[0]["content"] == whole
            assert (await service.reproduce(sent["reply"]["id"]))["same"]

    play(story())


def test_a_purge_takes_the_text_with_the_last_file(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            service, chats = room.service, [await room.new(), await room.new()]
            for session_id in chats:
                (file,) = await attach(room, session_id, story=LARGE + "zanzibar")
                await ask(room, session_id, "Where is the oak?", [file])
            for session_id, left in zip(chats, (1, 0), strict=True):
                await service.delete(session_id)
                await service.library.purge([session_id])
                with sqlite3.connect(tmp_path / "s.db") as connection:
                    assert connection.execute("SELECT count(*) FROM documents").fetchone()[0] == left
                    assert (connection.execute("SELECT count(*) FROM passages").fetchone()[0] > 0) == bool(left)
            room.store.backup(tmp_path / "copy.db")
        assert b"zanzibar" not in (tmp_path / "s.db").read_bytes()

    play(story())


def test_a_temporary_chat_reads_files_that_no_file_holds(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id, service = await room.new(temporary=True), room.service
            files = await attach(room, session_id, secret="zanzibar " + SMALL, story=LARGE)
            sent = await ask(room, session_id, "Where is the oak?", files)
            assert "zanzibar" in prompt_of(room)[0]["content"]
            assert (await service.documents.window(sent["user"]["files"][0]["id"]))["text"].startswith("zanzibar")
            assert (await service.documents.cited(sent["user"]["id"], 1))["passage"]["n"] == 1
            await service.end_temporary(session_id)
            with pytest.raises(SessionError):
                await service.documents.window(files[0])
        assert not [one for one in tmp_path.rglob("*") if one.is_file() and b"zanzibar" in one.read_bytes()]

    play(story())


def test_b51_markers_in_names_files_templates_and_replies_open_no_turn(tmp_path: Path) -> None:
    builder = builder_of(CHATML)
    start, end = (builder._tokenizer.token_id(one) for one in ("<|im_start|>", "<|im_end|>"))

    async def story() -> None:
        async with room_at(tmp_path, replies=[FORGERY]) as room:
            preset = {"name": "p", "system_prompt": FORGERY, "retrieval": FORGERY}
            session_id = await room.new(preset_id=(await room.service.library.save_preset(preset))["id"])
            found = [
                await room.service.documents.add(session_id, f"{FORGERY}.{kind}", (FORGERY + text).encode())
                for kind, text in (("txt", SMALL), ("md", LARGE.replace(" ", FORGERY, 40)))
            ]
            sent = await ask(room, session_id, FORGERY, [one["id"] for one in found])
            assert [one["how"].split()[-1] for one in sent["user"]["files"]] == ["tokens)", "passages"]
            assert sent["user"]["content"] == FORGERY and FORGERY.split("\n")[0] in found[0]["name"]
            await ask(room, session_id, "And then?", [], sent["reply"]["id"])
            turns = [PromptMessage(one["role"], one["content"]) for one in prompt_of(room)]
            assert [one.role for one in turns] == ["system", "user", "assistant", "user"]
            assert turns[1].content.count(FORGERY) > 3
            ids = builder.build(turns).token_ids
            assert (ids.count(start), ids.count(end)) == (len(turns) + 1, len(turns))

    play(story())


def test_files_that_cannot_go_are_refused_or_left_out_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            session_id, documents = await room.new(), room.service.documents
            image = await documents.add(session_id, "cat.png", b"\x89PNG\r\n\x1a\n\0\0")
            assert image["problem"].startswith("This model reads text only") and image["tokens"] is None
            sent = await ask(room, session_id, "What is this?", [image["id"]])
            assert sent["user"]["files"][0]["how"] == "not sent" and prompt_of(room)[0]["content"] == "What is this?"
            with pytest.raises(SessionError, match=r'"cat\.png" was sent'):
                await documents.set_removed(image["id"], True)
            (file,) = await attach(room, session_id, notes=SMALL)
            await documents.set_removed(file, True)
            assert await documents.waiting(session_id) == []
            with pytest.raises(SessionError, match="attach it again"):
                await room.service.send(session_id, sent["reply"]["id"], "And this?", [file])
            await documents.set_removed(file, False)
            monkeypatch.setattr(document_service, "MOST_FILES", 3)
            adding = [attach(room, session_id, **{f"more{number}": SMALL}) for number in range(5)]
            added = await asyncio.gather(*adding, return_exceptions=True)
            assert len(await documents.waiting(session_id)) == 3, "however many come at once"
            refused = [str(one) for one in added if isinstance(one, SessionError)]
            assert refused == ["A message can have 3 files; send these first, or remove one."] * 3
            with pytest.raises(SessionError, match="attach it again"):
                await documents.plan(await room.new(), "x", [file])

    play(story())


def test_without_an_engine_sizes_are_estimated_and_the_message_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path, ready=False) as room:
            session_id = await room.new()
            files = await attach(room, session_id, notes=SMALL, story=LARGE)
            plan = await room.service.documents.plan(session_id, "Where is the oak?", files)
            assert [one.how for one in plan.sources] == ["whole", "passages"]
            sent = await room.service.send(session_id, None, "Where is the oak?", files)
            room.engine.set_status("ready")
            await room.end_of(sent["reply"]["id"])
            assert "old oak" in prompt_of(room)[0]["content"]

    play(story())


def test_the_presets_template_quotes_the_passages(tmp_path: Path) -> None:
    async def story() -> None:
        async with room_at(tmp_path) as room:
            template = "Quote {x} of {files}:\n{passages}\nEnd."
            saved = await room.service.library.save_preset({"name": "p", "retrieval": template})
            session_id = await room.new(preset_id=saved["id"])
            await ask(room, session_id, "Where is the oak?", await attach(room, session_id, story=LARGE))
            content = prompt_of(room)[0]["content"]
            assert 'oak?\n\nQuote {x} of "story.txt":\n[1] From' in content and content.endswith("\nEnd.")

    play(story())


def test_sources_of_another_program_are_left_out() -> None:
    assert read_sources(None) == read_sources("{") == read_sources("{}") == read_sources('[1, {"name": "a"}]') == []
