"""Pins: a system prompt stays in the cache, within a cap, and gives way before it makes a request fail."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.errors import RequestError
from pagedchat.engine.prompt import PromptBuilder, PromptMessage
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.worker_loop import WorkerLoop
from support.paged_model import PagedModel, cold, drain, make_engine, prompt_of, run
from support.tiny_tokenizers import sentencepiece_tokenizer

B = 4


def pinned_engine(num_blocks: int = 24, length: int = 10, **settings):
    engine, system = make_engine(num_blocks, **settings), prompt_of(length, 1)
    engine.pin("system", system)
    assert drain(engine) == ({}, {}), "computing a pin tells nobody anything"
    return engine, system


def churn(engine, count: int = 12) -> None:
    for index in range(count):
        run(engine, {f"churn{index}": prompt_of(20, 500 + index)}, 8)


@pytest.mark.parametrize("length", [3, B, 2 * B + 2])
@pytest.mark.parametrize("windows", [(None,), (None, 6), (5,)])
def test_a_pinned_prefix_is_found_after_any_churn(length, windows):
    engine, system = pinned_engine(40, length, windows=windows)
    churn(engine)
    assert any(event["type"] == "evicted" for event in engine.drain_events())
    prompt = [*system, 94, 93]
    assert engine.probe(prompt)["cached_tokens"] == length
    assert run(engine, {"chat": prompt}, 6)["chat"] == cold(prompt, 6, windows=windows)
    churn(engine)
    assert engine.probe(prompt)["cached_tokens"] >= length, "also after it was used"


def test_the_cost_is_visible_and_unpinning_gives_the_blocks_back():
    engine, _ = pinned_engine()
    assert engine.stats()["pins"] == [{"name": "system", "num_tokens": 10, "blocks": 3}]
    snapshot = engine.snapshot()
    assert snapshot["pinned"] == 3 and snapshot["conserved"]
    assert engine.kv.pool.num_available == 21
    assert engine.unpin("system") and not engine.unpin("system")
    assert engine.kv.pool.num_available == 24 and engine.snapshot()["pinned"] == 0
    assert [event["type"] for event in engine.drain_events()][-1] == "unpinned"
    churn(engine)
    assert engine.probe(prompt_of(10, 1))["cached_tokens"] == 0


def test_pins_that_would_take_more_than_their_share_are_refused_with_the_numbers():
    engine, system = pinned_engine(24)
    with pytest.raises(
        RequestError, match=r"takes 4 blocks, and 3 are pinned already; pins may take 6 of the pool's 24"
    ):
        engine.pin("another", prompt_of(4 * B, 2))
    engine.pin("system", [*system, 5])
    drain(engine)
    assert engine.stats()["pins"] == [{"name": "system", "num_tokens": 11, "blocks": 3}]
    with pytest.raises(RequestError, match="empty"):
        engine.pin("nothing", [])
    with pytest.raises(RequestError, match="prefix caching is off"):
        make_engine(enable_prefix_caching=False).pin("system", system)


def test_of_a_group_with_a_window_only_what_the_next_token_sees_is_pinned():
    engine, system = pinned_engine(160, 100, windows=(None, 8, 8), max_num_batched_tokens=8, max_num_seqs=4)
    (row,) = engine.stats()["pins"]
    assert row["blocks"] == engine.snapshot()["pinned"] == 25 + 2 * 2
    churn(engine, 16)
    assert engine.probe([*system, 1])["cached_tokens"] == 100


def test_a_pin_gives_way_to_a_request_that_needs_the_whole_pool():
    engine, _ = pinned_engine(16)
    prompt = prompt_of(16 * B - 3, 7)
    assert run(engine, {"big": prompt}, 2)["big"] == cold(prompt, 2)
    assert engine.stats()["pins"] == []


def test_a_reply_that_grows_into_the_last_block_outlives_a_pin():
    engine, _ = pinned_engine(16)
    assert run(engine, {"grows": prompt_of(40, 8)}, 20)["grows"] == cold(prompt_of(40, 8), 20)
    assert engine.stats()["pins"] == []


def test_two_pins_may_share_blocks_and_one_may_go():
    engine, system = pinned_engine(80)
    engine.pin("longer", [*system, *prompt_of(6, 3)])
    drain(engine)
    engine.unpin("system")
    churn(engine, 30)
    assert engine.probe([*system, 1])["cached_tokens"] >= 10


def test_unpinning_or_emptying_the_cache_while_a_pin_is_computed_leaves_nothing_behind():
    engine, system = make_engine(max_num_batched_tokens=4, max_num_seqs=4), prompt_of(30, 1)
    engine.pin("system", system)
    engine.step()
    assert engine.unpin("system")
    assert drain(engine) == ({}, {}) and engine.snapshot()["pinned"] == 0
    engine.pin("system", system)
    drain(engine)
    assert engine.reset_cache()
    assert engine.stats()["pins"] == [] and engine.snapshot()["pinned"] == 0
    assert engine.snapshot()["free"] == engine.snapshot()["num_blocks"]


def test_pinning_again_while_it_is_computed_starts_anew():
    engine, system = make_engine(max_num_batched_tokens=4, max_num_seqs=4), prompt_of(20, 1)
    engine.pin("system", system)
    engine.step()
    engine.pin("system", [*system, 7])
    drain(engine)
    assert engine.stats()["pins"] == [{"name": "system", "num_tokens": 21, "blocks": 6}]
    engine.add_request("a", [*system, 7, 8], SamplingParams(temperature=0, max_tokens=3))
    assert drain(engine)[1]["a"].metrics.cached_tokens == 21  # type: ignore[union-attr]


def test_a_refused_pin_leaves_the_one_of_its_name_that_is_being_computed():
    engine, system = make_engine(max_num_batched_tokens=4, max_num_seqs=4), prompt_of(20, 1)
    engine.pin("system", system)
    engine.step()
    for refused in ([], prompt_of(80, 2)):
        with pytest.raises(RequestError):
            engine.pin("system", refused)
    drain(engine)
    assert engine.stats()["pins"] == [{"name": "system", "num_tokens": 20, "blocks": 5}]


def test_a_pin_whose_prefix_could_not_be_computed_is_none():
    engine, system = make_engine(), prompt_of(10, 1)
    engine.runner.fail_at = {1}
    engine.pin("system", system)
    assert drain(engine) == ({}, {}) and engine.stats()["pins"] == []
    engine.pin("system", system)
    drain(engine)
    assert engine.stats()["pins"] == [{"name": "system", "num_tokens": 10, "blocks": 3}]


def test_a_chats_beginning_is_pinned_without_the_header_of_a_reply():
    tokenizer = sentencepiece_tokenizer()
    engine = Engine(
        EngineConfig("scripted", block_size=4),
        runner=PagedModel(64, 4),  # type: ignore[arg-type]
        tokenizer=tokenizer,
        prompt_builder=PromptBuilder(tokenizer),
        num_blocks=64,
    )
    sent: list[dict[str, Any]] = []
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    loop = WorkerLoop(engine, commands, sent.append)
    source = {"messages": [{"role": "system", "content": "Be kind."}]}
    commands.put({"op": "call", "call": 1, "method": "pin", "args": ["kind", source, ""]})
    loop.turn()
    while engine.has_unfinished():
        loop.turn()
    assert [message for message in sent if message["type"] == "reply"] == [{"type": "reply", "call": 1, "value": None}]
    (pin,) = engine.stats()["pins"]
    assert pin["blocks"] > 0
    for text in ("Hello", "What else?"):
        chat = PromptBuilder(tokenizer).build([PromptMessage("system", "Be kind."), PromptMessage("user", text)])
        assert "Be kind." in tokenizer.decode(chat.token_ids[: pin["num_tokens"] - 1])
        found = engine.probe(chat.token_ids)["cached_tokens"]
        assert found >= pin["num_tokens"] - 1, "a first word may share a token with the space before it"
