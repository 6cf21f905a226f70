"""A branch at a token: what the model held likely there, and a reply that goes on as if another had been sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pagedchat.engine.errors import EngineError, RequestError
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.reasoning import split_reasoning
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.sessions.errors import SessionError
from support.chat_room import ChatRoom, play
from support.chat_templates import ALL, CHATML, THINKING
from support.fake_client import FakeEngineClient
from support.loop_client import LoopClient, scripted_loop_client

GREEDY = {"temperature": 0, "max_tokens": 14}


async def branch(room: ChatRoom, message_id: str, index: int, token: int) -> dict[str, Any]:
    made = await room.service.tokens.branch_at(message_id, index, token)
    return await room.end_of(made["id"])


async def stored_ids(room: ChatRoom, message_id: str) -> tuple[list[int], list[int]]:
    """Of a reply: its header, and what was generated."""
    found = await room.service.core.read(room.store.generated, message_id, room.service.core.fingerprint())
    return found.header_ids, found.ids


async def oracle(client: LoopClient, prompt: list[int], given: list[int], limit: int) -> list[int]:
    """The ids of a reply to ``prompt`` that sampled ``given`` and went on."""
    ids = list(given)
    if len(ids) == limit:
        return ids
    params = SamplingParams(temperature=0, max_tokens=limit - len(given))
    async for item in client.generate(GenerateRequest(params, prompt_token_ids=prompt + given, keep=False)):
        ids += getattr(item, "token_ids", [])
    return ids


@pytest.mark.parametrize("name", ALL)
def test_a_branch_is_what_the_engine_would_have_said_behind_that_token(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        client = scripted_loop_client(ALL[name])
        tokenizer = client.engine.tokenizer
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(system_prompt="Be kind.", params=GREEDY)
            first = await room.ask(session, "Hello there")
            reply = await room.ask(session, "And now?", first["id"])
            prompt = (await room.service.reproduction(reply["id"]))["prompt_ids"]
            header, ids = await stored_ids(room, reply["id"])
            for index in (0, 6, 13):
                told = await room.service.tokens.alternatives(reply["id"], index, 3)
                assert told["taken"]["id"] == ids[index] and told["alternatives"][0]["taken"], "greedy takes the best"
                assert told["cached_tokens"] == told["prompt_tokens"] - 1 == len(prompt) + index - 1
                other = told["alternatives"][2]
                assert (other["rank"], other["taken"]) == (3, False) and 0 < other["probability"] < 1
                done = await branch(room, reply["id"], index, other["id"])
                expected = await oracle(client, prompt, [*ids[:index], other["id"]], 14)
                assert await stored_ids(room, done["id"]) == (header, expected)
                split = split_reasoning(tokenizer.decode(expected))
                assert (done["content"], done["reasoning"] or "") == (split.answer, split.reasoning)
                made = done["generation"]
                assert made["cached_tokens"] == made["prompt_tokens"] - 1 == len(prompt) + index - 1
                assert (made["given_tokens"], done["copied_from"]) == (index + 1, reply["id"])
                assert (await room.service.reproduce(done["id"]))["same"] is True
            assert done["siblings"][0] == reply["id"] and len(done["siblings"]) == 4
            fed = await room.service.branch_tokens(session)
            after = await room.ask(session, "Go on", done["id"])
            assert after["generation"]["cached_tokens"] == len(fed) - 1, "the next turn extends the branch"

    play(story())


def test_characters_of_several_tokens_are_one_piece_and_can_be_branched_within(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML)
        tokenizer, model = client.engine.tokenizer, client.engine.runner
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=GREEDY)
            end = tokenizer.token_id("<|im_end|>")
            model.script = [*tokenizer.encode("a🎉b"), end]
            reply = await room.ask(session, "Say it")
            told = await room.service.tokens.tokens(reply["id"])
            shape = [(one["index"], one["count"], one["text"], one["control"]) for one in told["pieces"]]
            assert shape == [(0, 1, "a", False), (1, 4, "🎉", False), (5, 1, "b", False), (6, 1, "<|im_end|>", True)]
            assert told["tokens"] == 7 and {one["part"] for one in told["pieces"]} == {"answer"}
            other = tokenizer.encode("🎈")
            assert other[:3] == tokenizer.encode("🎉")[:3]
            look = await room.service.tokens.alternatives(reply["id"], 4)
            assert look["taken"]["text"].startswith("0x")
            model.script = [0, end]  # in the place of the first comes what is chosen
            done = await branch(room, reply["id"], 4, other[3])
            assert done["content"] == "a🎈" and done["status"] == "done"
            ended = await branch(room, reply["id"], 5, end)
            assert ended["content"] == "a🎉" and ended["generation"]["finish_reason"] == "stop"
            model.script = [0, *tokenizer.encode("!"), end]
            longer = await branch(room, reply["id"], 6, tokenizer.encode("c")[0])
            assert longer["content"] == "a🎉bc!", "in the place of the end the reply goes on"

    play(story())


def test_thinking_and_answer_are_told_apart_and_a_branch_within_a_thought_goes_on_thinking(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(THINKING)
        tokenizer, model = client.engine.tokenizer, client.engine.runner
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params={"temperature": 0, "max_tokens": 60})
            end = tokenizer.token_id("<|im_end|>")
            thought, rest = tokenizer.encode("<think>ab"), tokenizer.encode("</think>\n\nHello")
            model.script = [*thought, *rest, end]
            reply = await room.ask(session, "Think")
            assert (reply["reasoning"], reply["content"]) == ("ab", "Hello")
            told = (await room.service.tokens.tokens(reply["id"]))["pieces"]
            spelled = {
                part: "".join(one["text"] for one in told if one["part"] == part) for part in ("thinking", "answer")
            }
            assert spelled == {"thinking": "<think>ab</think>", "answer": "\n\nHello<|im_end|>"}
            model.script = [0, *tokenizer.encode("d</think>\nYes"), end]
            done = await branch(room, reply["id"], len(thought), tokenizer.encode("c")[0])
            assert (done["reasoning"], done["content"]) == ("abcd", "Yes")
            model.script = [0, *tokenizer.encode("o"), end]
            done = await branch(room, reply["id"], 0, tokenizer.encode("N")[0])
            assert (done["reasoning"], done["content"]) == (None, "No")

    play(story())


def test_it_goes_on_with_the_runs_own_sampling_a_new_seed_and_no_limit_but_the_runs(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params={"temperature": 0.7, "max_tokens": 6, "seed": 3})
            reply = await room.ask(session, "Hello")
            await room.service.update_settings(session, params={"temperature": 0.1, "max_tokens": 4})
            await room.service.continue_reply(reply["id"])
            await room.until(lambda: not room.service.core.jobs)
            (_, ids) = await stored_ids(room, reply["id"])
            assert len(ids) == 10
            for index, limit, temperature in ((3, 6, 0.7), (8, 10, 0.1)):
                done = await branch(room, reply["id"], index, 300)
                request = client.requests[-1]
                assert (request.params.temperature, request.params.max_tokens) == (temperature, limit)
                assert request.params.seed not in (3, None) and done["generation"]["seed"] == request.params.seed
                assert len((await stored_ids(room, done["id"]))[1]) == limit
                assert done["generation"]["finish_reason"] == "length"
                await room.service.continue_reply(done["id"])
                await room.until(lambda: not room.service.core.jobs)
                assert (await room.service.reproduce(done["id"], 1))["same"] is True
                assert (await room.service.reproduce(done["id"], 2))["same"] is True

    play(story())


def test_a_reply_that_a_person_began_keeps_that_beginning_in_a_branch(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = await room.new(params=GREEDY)
            first = await room.ask(session, "Hello")
            edited = (await room.service.edit(first["id"], "My own words, "))["message"]
            with pytest.raises(SessionError, match="did not write this reply"):
                await room.service.tokens.tokens(edited["id"])
            await room.service.continue_reply(edited["id"])
            whole = await room.end_of(edited["id"])
            pieces = (await room.service.tokens.tokens(edited["id"]))["pieces"]
            assert len(pieces) and pieces[0]["index"] == 0
            token = client.engine.tokenizer.encode("Z")[0]
            done = await branch(room, edited["id"], 2, token)
            _, ids = await stored_ids(room, edited["id"])
            header, made = await stored_ids(room, done["id"])
            assert made[:3] == [*ids[:2], token]
            assert done["content"].startswith("My own words, ") and whole["content"] != done["content"]
            assert client.engine.tokenizer.decode(header).endswith("My own words, ")

    play(story())


def test_a_branch_stopped_before_its_first_token_leaves_the_old_reply_shown(tmp_path: Path) -> None:
    async def story() -> None:
        async with ChatRoom(tmp_path / "s.db", FakeEngineClient(["One two.", "three"], delay_s=0.01)) as room:
            session = await room.new()
            reply = await room.ask(session, "Hello")
            made = await room.service.tokens.branch_at(reply["id"], 3, ord("x"))
            assert made["copied_from"] == reply["id"] and made["status"] == "streaming"
            await room.service.stop(made["id"])
            assert [one["id"] for one in await room.shown(session)][-1] == reply["id"]
            done = await branch(room, reply["id"], 3, ord("x"))
            assert done["content"] == "Onexthree" and done["sibling_index"] == 2
            assert room.gapless and room.text_of(done["id"]) == done["content"]

    play(story())


def test_what_cannot_be_looked_into_is_said(tmp_path: Path) -> None:
    async def story() -> None:
        engine = FakeEngineClient(["One."], info={"fingerprint": "A"})
        async with ChatRoom(tmp_path / "s.db", engine) as room:
            session = await room.new()
            reply = await room.ask(session, "Hello")
            tokens = room.service.tokens
            question = (await room.shown(session))[0]["id"]
            for message_id in (question, "nobody"):
                with pytest.raises(SessionError):
                    await tokens.tokens(message_id)
            for index in (-1, 5):
                with pytest.raises(SessionError, match="has 5 tokens"):
                    await tokens.branch_at(reply["id"], index, 70)
            engine.set_status("loading")
            with pytest.raises(EngineError):
                await tokens.alternatives(reply["id"], 0)
            engine._info = {**engine._info, "fingerprint": "B"}
            engine.set_status("ready")
            with pytest.raises(SessionError, match="did not write this reply"):
                await tokens.alternatives(reply["id"], 0)
        client = scripted_loop_client(CHATML)
        async with ChatRoom(tmp_path / "t.db", client) as room:
            session = await room.new(params=GREEDY)
            reply = await room.ask(session, "Hello")
            count = room.count()
            with pytest.raises(RequestError, match="does not exist"):
                await room.service.tokens.branch_at(reply["id"], 2, 10**6)
            assert room.count() == count
            await room.service.update_settings(session, system_prompt="Another one.")
            with pytest.raises(SessionError, match="has changed"):
                await room.service.tokens.alternatives(reply["id"], 2)
            done = await branch(room, reply["id"], 2, 30)
            assert done["status"] == "done", "a branch goes on under the chat's system prompt of today"

    play(story())


def test_a_temporary_chat_and_a_chat_that_outgrew_its_context_are_branched_too(tmp_path: Path) -> None:
    async def story() -> None:
        client = scripted_loop_client(CHATML, max_model_len=160)
        async with ChatRoom(tmp_path / "s.db", client) as room:
            session = (await room.service.create_session(params=GREEDY, temporary=True))["id"]
            parent = None
            for number in range(8):
                parent = (await room.ask(session, f"{number}" * 12, parent))["id"]
            reply = (await room.shown(session))[-1]
            assert reply["generation"]["left_out"]
            look = await room.service.tokens.alternatives(reply["id"], 5)
            assert client.requests[-1].salt == f"temporary:{session}"
            assert look["cached_tokens"] == look["prompt_tokens"] - 1
            done = await branch(room, reply["id"], 5, look["alternatives"][1]["id"])
            made, old = done["generation"], reply["generation"]
            assert made["cached_tokens"] == made["prompt_tokens"] - 1 == old["prompt_tokens"] + 4
            assert (made["kept_from"], made["left_out"]) == (old["kept_from"], old["left_out"])

    play(story())
