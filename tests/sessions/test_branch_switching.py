"""Known fault B46 on store and service: a tree of sixty messages, switched back and forth, loses nothing and hits.

What a prompt finds cached is compared with everything the engine was ever fed: exactly the longest common prefix, or
all but the prompt's last token.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support.chat_room import ChatRoom, play
from support.paged_client import PagedFakeClient

NODES = 60


class Story:
    """One chat that grows, with every reply's hit checked when it is made."""

    def __init__(self, room: ChatRoom, session_id: str) -> None:
        self.room = room
        self.session_id = session_id
        self.hits: list[int] = []

    async def checked(self, reply: dict[str, Any]) -> dict[str, Any]:
        """Wait for a reply's end; its prompt must have found all there was."""
        engine, done = self.room.engine, await self.room.end_of(reply["id"])
        await self.room.until(lambda: len(engine._fed) == len(engine.requests))
        generation, prompt = done["generation"], engine._fed[-1][: done["generation"]["prompt_tokens"]]
        earlier = [common(prompt, fed[:-1]) for fed in engine._fed[:-1]]  # the last token of each was never fed
        assert generation["cached_tokens"] == min(max(earlier, default=0), len(prompt) - 1)
        self.hits.append(generation["cached_tokens"])
        return done

    async def ask(self, text: str, parent: str | None = None) -> dict[str, Any]:
        return await self.checked((await self.room.service.send(self.session_id, parent, text))["reply"])

    async def regenerate(self, message_id: str) -> dict[str, Any]:
        return await self.checked(await self.room.service.regenerate(message_id))

    async def paths(self, leaves: list[str]) -> dict[str, list[dict[str, Any]]]:
        """The branch that each leaf shows once it is selected."""
        found = {}
        for leaf in leaves:
            await self.room.service.select(leaf)
            found[leaf] = await self.room.shown(self.session_id)
            assert found[leaf][-1]["id"] == leaf
        return found


def common(one: list[int], other: list[int]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return length


def parents(room: ChatRoom) -> dict[str, str | None]:
    with room.store._reader.reading() as connection:
        return dict(connection.execute("SELECT id, parent_id FROM messages").fetchall())


async def grow(story: Story, rng: random.Random) -> None:
    """Regenerate ten times at depth 2, edit turn 1 and an answer, and go on anywhere up to sixty messages."""
    first = await story.ask("the first question of all")
    second = await story.ask("the second question", first["id"])
    for _ in range(10):
        again = await story.regenerate(second["id"])
        assert story.hits[-1] == again["generation"]["prompt_tokens"] - 1
    edited = await story.room.service.edit(first["parent_id"], "the first question, edited")
    third = await story.checked(edited["reply"])
    await story.room.service.edit(first["id"], "what it could have said")
    mine = (await story.room.service.edit(first["id"], "what it should have said"))["message"]
    everyone = [first["id"], second["id"], third["id"], mine["id"]]
    while story.room.count() < NODES:
        everyone.append((await story.ask(f"on from here, {len(everyone)}", rng.choice(everyone)))["id"])


async def go_on_at(story: Story, leaves: list[str]) -> None:
    """A question under leaves that were left before finds all of their branch but the reply's last token."""
    for leaf in leaves:
        await story.room.service.select(leaf)
        fed = await story.room.service.branch_tokens(story.session_id)
        reply = await story.ask("going back", leaf)
        if story.room.store.message(leaf).generation is not None:  # what a person wrote was never fed
            assert reply["generation"]["cached_tokens"] == len(fed) - 1


def test_sixty_messages_switched_back_and_forth_stay_whole_and_hit(tmp_path: Path) -> None:
    async def story() -> None:
        engine = PagedFakeClient(lambda request: f"reply {request.params.seed}", num_blocks=4096)
        rng = random.Random(46)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            told = Story(room, await room.new(system_prompt="Answer briefly."))
            await grow(told, rng)
            rows = parents(room)
            assert len(rows) == NODES
            leaves = sorted(set(rows) - set(rows.values()))
            rng.shuffle(leaves)
            before = await told.paths(leaves)
            assert await told.paths(leaves[::-1]) == before
            assert {one["id"] for path in before.values() for one in path} == set(rows)
            shown = await room.shown(told.session_id)
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            told = Story(room, told.session_id)
            assert await room.shown(told.session_id) == shown and parents(room) == rows
            assert await told.paths(leaves) == before
            await go_on_at(told, leaves[:6])
            assert room.count() == NODES + 12 and parents(room).items() >= rows.items()
            assert min(told.hits) > len("Answer briefly.")

    play(story())
