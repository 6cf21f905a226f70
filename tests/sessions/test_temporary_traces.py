"""What a temporary chat leaves behind: nothing on any disk and no block in the engine, whatever was done in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.summaries import SUMMARY
from support.chat_room import ChatRoom, play
from support.chat_templates import CHATML
from support.loop_client import scripted_loop_client
from support.paged_client import PagedFakeClient
from support.traces import SECRET, text_on_disk


def test_files_drafts_waiting_messages_summaries_and_branches_leave_nothing_on_disk(tmp_path: Path) -> None:
    async def story() -> None:
        engine = PagedFakeClient([f"About the {SECRET}: well."], num_blocks=800)
        async with ChatRoom(tmp_path / "data" / "sessions.db", engine) as room:
            service = room.service
            session = (await service.create_session(temporary=True))["id"]
            file = await service.documents.add(session, f"{SECRET}.txt", f"All on the {SECRET}.".encode())
            assert (await service.documents.waiting(session))[0]["name"] == f"{SECRET}.txt"
            other = await service.documents.add(session, "other.txt", SECRET.encode())
            await service.documents.set_removed(other["id"], True)
            assert len(await service.documents.waiting(session)) == 1
            assert SECRET in str(await service.documents.window(file["id"]))
            sent = await service.send(session, None, f"What of the {SECRET}?", [file["id"]])
            reply = await room.end_of(sent["reply"]["id"])
            assert SECRET in (engine.requests[-1].messages or [])[-1]["content"]
            await service.library.save_draft(session, f"{SECRET} once more")
            engine.delay_s = 0.01
            running = (await service.send(session, reply["id"], f"And the {SECRET}?"))["reply"]
            await service.queue.add(session, running["id"], f"Then the {SECRET}!")
            engine.delay_s = 0.0
            await room.until(lambda: len(engine.requests) == 3 and not service.core.jobs)
            head = (await room.shown(session))[-1]
            branch = await service.tokens.branch_at(head["id"], 3, 120)
            await room.end_of(branch["id"])
            summary = await room.end_of((await service.compaction.compact(session))["id"])
            assert summary["kind"] == SUMMARY and len(await room.texts(session)) == 7
            assert text_on_disk(tmp_path) == []
            await service.end_temporary(session)
            with pytest.raises(SessionError):
                await service.tokens.tokens(head["id"])
            room.store.backup()
        assert text_on_disk(tmp_path) == []
        assert all(session.encode() not in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())

    play(story())


def test_its_blocks_are_free_when_it_ends_and_those_of_others_stay(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML, block_size=16)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            params = {"temperature": 0, "max_tokens": 8}
            kept = await room.new(system_prompt="Be kind to all.", params=params)
            await room.ask(kept, "A question of some length.")
            before = await client.snapshot()
            session = (await room.service.create_session("Be kind to all.", params, temporary=True))["id"]
            reply = await room.ask(session, "A question of some length.")
            assert reply["generation"]["cached_tokens"] == 0, "it shares nothing with the other"
            await room.service.tokens.alternatives(reply["id"], 4)
            branch = await room.service.tokens.branch_at(reply["id"], 4, 40)
            await room.end_of(branch["id"])
            await room.end_of((await room.service.compaction.compact(session))["id"])
            fed = await room.service.branch_tokens(session, branch["id"])
            salt = room.service.core.salt(session)
            held = [one for one in await client.branch(fed, salt) if one["block"] is not None]
            assert held and (await client.snapshot())["free"] < before["free"]
            await room.service.end_temporary(session)
            after = await client.snapshot()
            assert (after["free"], after["cached"], after["active"]) == (before["free"], before["cached"], 0)
            assert not [one for one in await client.branch(fed, salt) if one["block"] is not None]
            assert session not in str(after) and session not in str(await client.list_requests())

    play(story())
