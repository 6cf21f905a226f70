"""The engine client with a real child process: requests, errors, cancelling and calls."""

from __future__ import annotations

import asyncio

import pytest

from pagedchat.engine.client import EngineClient
from pagedchat.engine.errors import EngineError, RequestError
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput
from support.engine_process import answer, asked, text_of, until, with_client


def test_a_reply_comes_as_its_prompt_and_one_output_a_step() -> None:
    async def test(client: EngineClient) -> None:
        started, outputs = await answer(client, asked("hello"))
        assert started.prompt_token_ids == list(b"hello")
        assert [output.text for output in outputs] == ["H", "E", "L", "L", "O", ""]
        assert outputs[-1].finish_reason == "stop"
        assert outputs[-1].token_ids == [256]
        assert outputs[-1].metrics is not None
        assert outputs[-1].metrics.prompt_tokens == 5

    with_client(test)


def test_messages_are_built_in_the_child_and_their_segments_come_back() -> None:
    async def test(client: EngineClient) -> None:
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "token_ids": [97, 98]}]
        request = GenerateRequest(SamplingParams(), messages=messages)
        started, _ = await answer(client, request)
        assert started.request_id == request.request_id
        assert started.segments == [[117, 104, 105, 256], [97, 98]]
        assert started.generation_ids == [97]
        assert started.prompt_token_ids == [117, 104, 105, 256, 97, 98, 97]
        again = await client.build_prompt(messages, add_generation_prompt=False)
        assert again.prompt_token_ids == [117, 104, 105, 256, 97, 98]

    with_client(test)


def test_sixteen_requests_at_once_all_get_their_own_reply() -> None:
    async def test(client: EngineClient) -> None:
        prompts = [f"prompt number {index} " * (index + 1) for index in range(16)]
        replies = await asyncio.gather(*(answer(client, asked(prompt)) for prompt in prompts))
        assert [text_of(outputs) for _, outputs in replies] == [prompt.upper() for prompt in prompts]

    with_client(test)


def test_a_refused_request_raises_the_engines_own_sentence_and_the_next_one_runs() -> None:
    async def test(client: EngineClient) -> None:
        with pytest.raises(RequestError, match="9 tokens, and 4 fit"):
            await answer(client, asked("refuse"))
        with pytest.raises(EngineError, match="internal error"):
            await answer(client, asked("internal"))
        with pytest.raises(RequestError, match="surrogate"):
            await answer(client, asked("half \ud83d"))
        _, outputs = await answer(client, asked("fine"))
        assert text_of(outputs) == "FINE"

    with_client(test)


def test_cancel_ends_a_reply_with_abort_within_a_step() -> None:
    async def test(client: EngineClient) -> None:
        request = asked("long")
        reasons, seen = [], 0
        async for item in client.generate(request):
            if isinstance(item, RequestOutput):
                seen += 1
                reasons.append(item.finish_reason)
                if seen == 5:
                    await client.cancel(request.request_id)
                    await client.cancel(request.request_id)
        assert reasons[-1] == "abort"
        assert seen < 50
        assert (await client.stats())["running"] == 0
        await client.cancel("nobody")

    with_client(test, model="slow")


def test_closing_the_iterator_cancels_the_request() -> None:
    async def test(client: EngineClient) -> None:
        replies = client.generate(asked("long"))
        for _ in range(3):
            await anext(replies)
        assert (await client.stats())["running"] == 1
        await replies.aclose()
        before = (await client.stats())["steps"]
        assert (await client.stats())["running"] == 0
        await asyncio.sleep(0.1)
        assert (await client.stats())["steps"] <= before + 2

    with_client(test, model="slow")


def test_a_slow_reader_loses_nothing() -> None:
    async def test(client: EngineClient) -> None:
        replies = client.generate(asked("long"))
        started = await anext(replies)
        assert isinstance(started, RequestStarted)
        await asyncio.sleep(0.5)
        text = [output.text async for output in replies if isinstance(output, RequestOutput)]
        assert "".join(text) == "word " * 1000

    with_client(test)


def test_a_failing_step_ends_what_ran_with_a_sentence_and_the_engine_goes_on() -> None:
    async def test(client: EngineClient) -> None:
        states: list[str] = []
        client.watch_status(lambda status: states.append(status.state))
        beside: list[RequestOutput] = []

        async def follow() -> None:
            async for item in client.generate(asked("beside " * 5000)):
                if isinstance(item, RequestOutput):
                    beside.append(item)

        following = asyncio.create_task(follow())
        await until(lambda: bool(beside))
        _, broken = await answer(client, asked("raise"))
        await following
        assert [broken[-1].finish_reason, beside[-1].finish_reason] == ["error", "error"]
        assert broken[-1].error is not None
        assert "secret" not in broken[-1].error
        _, outputs = await answer(client, asked("fine"))
        assert text_of(outputs) == "FINE"
        assert set(states) <= {"ready"}

    with_client(test)


def test_prints_in_the_child_break_no_line() -> None:
    async def test(client: EngineClient) -> None:
        _, outputs = await answer(client, asked("print"))
        assert text_of(outputs) == "PRINT"

    with_client(test)


def test_events_come_in_order_once_a_step_and_can_be_asked_for_again() -> None:
    async def test(client: EngineClient) -> None:
        batches: list[list[dict]] = []
        unwatch = client.watch_events(batches.append)
        await answer(client, asked("abc", labels={"session": "s1"}))
        await until(lambda: bool(batches) and batches[-1][-1]["type"] == "released")
        live = [event for batch in batches for event in batch]
        assert [event["seq"] for event in live] == list(range(live[0]["seq"], live[0]["seq"] + len(live)))
        assert live[0]["labels"] == {"session": "s1"}
        assert len(batches) >= 3
        first = live[0]["seq"]
        assert await client.events_since(first) == live[1:]
        for told in (await client.snapshot(), await client.books(), await client.brief(), await client.ages()):
            assert told["seq"] == live[-1]["seq"]
        assert await client.idle(2) == [{"id": 0}, {"id": 1}]
        assert await client.events_since(live[-1]["seq"]) == []
        assert await client.events_since(live[-1]["seq"] + 1) is None
        unwatch()
        await answer(client, asked("d"))
        assert [event for batch in batches for event in batch] == live

    with_client(test)


def test_what_steps_ran_can_be_asked_for_from_a_number_on() -> None:
    async def test(client: EngineClient) -> None:
        await answer(client, asked("abc"))
        rows = await client.steps_since(0)
        assert [row["step"] for row in rows] == [1, 2, 3, 4]
        assert await client.steps_since(1, 2) == rows[2:]

    with_client(test)


def test_calls_answer_and_a_reset_is_refused_while_blocks_are_held() -> None:
    async def test(client: EngineClient) -> None:
        assert await client.tokenize("hé") == list("hé".encode())
        assert (await client.probe([1, 2]))["prompt_tokens"] == 2
        assert (await client.probe(prompt="abc"))["prompt_tokens"] == 3
        assert (await client.probe(messages=[{"role": "user", "content": "hi"}]))["prompt_tokens"] == 5
        assert (await client.branch([1, 2, 3]))[0]["num_tokens"] == 3
        await client.reset_cache()
        replies = client.generate(asked("long"))
        await anext(replies)
        with pytest.raises(EngineError, match="hold blocks"):
            await client.reset_cache()
        await replies.aclose()
        await client.reset_cache()

    with_client(test, model="slow")


def test_facts_that_change_reach_the_status_without_a_new_start() -> None:
    async def test(client: EngineClient) -> None:
        events: list[dict] = []
        client.watch_events(events.extend)
        states: list[str] = []
        client.watch_status(lambda status: states.append(status.state))
        assert client.status.info["stepped"] is False
        await answer(client, asked("x"))
        await until(lambda: client.status.info["stepped"])
        assert await client.refresh_info() == client.status.info
        assert states == ["ready"]
        assert "reset" not in [event["type"] for event in events]

    with_client(test)


def test_only_whole_replies_are_remembered_by_their_text() -> None:
    async def test(client: EngineClient) -> None:
        await answer(client, asked("kept", remember=True))
        await answer(client, asked("not asked for"))
        await answer(client, asked("cut", max_tokens=2, remember=True))
        remembered = (await client.stats())["remembered"]
        assert remembered == [[[*b"KEPT", 256], "KEPT"], [[*b"CU"], "CU"]]

    with_client(test)


def test_the_same_id_cannot_run_twice_at_once() -> None:
    async def test(client: EngineClient) -> None:
        first = client.generate(asked("long", request_id="same"))
        await anext(first)
        with pytest.raises(RequestError, match="already running"):
            await anext(client.generate(asked("x", request_id="same")))
        assert isinstance(await anext(first), RequestOutput)
        await first.aclose()

    with_client(test, model="slow")
