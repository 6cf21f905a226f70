"""Ways in which chats went wrong elsewhere: replies computed again, ends overlooked, newcomers starved."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.sampling_params import SamplingParams
from support.chat_engine import ChatEngine, said
from support.chat_templates import CHATML, GEMMA, LLAMA3
from support.paged_model import PagedModel, drain, make_engine
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer

ODD = [" hello  hello\n\n", "  Hello world. \n\n\n", "hello\n\nab  ab ###\n"]


@pytest.mark.parametrize("template", [CHATML, LLAMA3, GEMMA])
@pytest.mark.parametrize("stored", [True, False])
def test_a_reply_in_ids_no_tokenizer_would_give_is_never_computed_again(template: str, stored: bool) -> None:
    """The ids spell each letter alone, the text begins and ends with blanks, and some templates would trim it."""
    chat = ChatEngine(template)
    messages, fed = [said("user", "Say it.")], []
    for number, text in enumerate(ODD):
        ids = [chat.tokenizer.encode(letter)[0] for letter in text]
        assert ids != chat.tokenizer.encode(text) and chat.tokenizer.decode(ids) == text
        started, metrics, output = chat.say(messages, text, ids=ids, remember=not stored)
        assert started.prompt_token_ids[: len(fed)] == fed
        assert metrics.cached_tokens == len(fed)
        assert output == [*ids, chat.end]
        fed = started.prompt_token_ids + ids
        if stored:
            messages = [
                said(one["role"], one["content"], segment)
                for one, segment in zip(messages, started.segments, strict=True)
            ]
        reply = started.generation_ids + output if stored else None
        messages = [*messages, said("assistant", text, reply), said("user", f"And number {number}?")]
        assert messages[-2]["content"] == text


def test_each_of_several_end_ids_ends_a_reply_and_none_is_shown() -> None:
    tokens = byte_level_metadata()["tokenizer.ggml.tokens"]
    ends = {"eos": "</s>", "eot": "<|eot_id|>", "eom": "<end_of_turn>"}
    tokenizer = byte_level_tokenizer(**{f"{name}_token_id": tokens.index(text) for name, text in ends.items()})

    class Says(PagedModel):
        def _logits(self, groups, row: int) -> np.ndarray:
            logits = np.zeros(tokenizer.num_tokens)
            logits[script.pop(0)] = 9
            return logits

    for marker in [*ends.values(), "<|endoftext|>"]:
        model = Says(16, 4)
        model.vocab_size = tokenizer.num_tokens
        engine = Engine(EngineConfig("scripted", block_size=4), runner=model, tokenizer=tokenizer, num_blocks=16)  # type: ignore[arg-type]
        end, spelled = tokenizer.token_id(marker), tokenizer.encode(f"so {marker} ")
        assert end in tokenizer.end_ids and end not in spelled
        script = [*spelled, end, *spelled]
        engine.add_request("a", tokenizer.encode("Hello"), SamplingParams(temperature=0, max_tokens=90))
        text = ""
        while engine.has_unfinished():
            for output in engine.step():
                text += output.text
                last = output
        assert last.finish_reason == "stop" and last.token_ids == [end] and last.text == ""
        assert text == f"so {marker} ", "the same characters, written out, are text"


def test_each_newcomer_has_its_first_token_soon_while_a_reply_streams() -> None:
    engine = make_engine(400, max_num_batched_tokens=8, max_num_seqs=8)
    rng = random.Random(2)
    engine.add_request("stream", [5, 6, 7], SamplingParams(temperature=0, max_tokens=220))
    came: dict[str, int] = {}
    begun: dict[str, int] = {}
    for step in range(200):
        if step % 10 == 0:
            came[f"long{step}"] = step
            prompt = [rng.randrange(96) for _ in range(64)]
            engine.add_request(f"long{step}", prompt, SamplingParams(temperature=0, max_tokens=1))
        told = {output.request_id for output in engine.step() if output.token_ids}
        assert "stream" in told or step == 0
        begun |= {name: step for name in told if name in came}
    drain(engine)
    waits = [begun[name] - came[name] for name in came if name in begun]
    assert len(waits) >= 19 and max(waits) <= 2 * 64 // 8 + 4, "no later than twice its own chunks"


def test_a_prefill_that_is_stopped_costs_no_further_step_and_the_next_message_starts_in_it() -> None:
    engine = make_engine(1200, max_num_batched_tokens=64, max_num_seqs=2)
    prompt = [one % 95 for one in range(4000)]
    engine.add_request("decodes", [1, 2, 3], SamplingParams(temperature=0, max_tokens=500))
    engine.step()
    engine.add_request("long", prompt, SamplingParams(temperature=0, max_tokens=500))
    engine.add_request("queued", [7, 8, 9], SamplingParams(temperature=0, max_tokens=500))
    for _ in range(20):
        engine.step()
    states = {one.request_id for one in engine.scheduler.running}
    assert states == {"long", "decodes"} and engine._replies["long"].request.num_to_compute > 2000
    for name in ("long", "decodes", "queued"):
        assert engine.cancel(name)
    assert engine.snapshot()["active"] == 0, "before another step"
    engine.add_request("next", [4, 5, 6], SamplingParams(temperature=0, max_tokens=3))
    outputs = engine.step()
    assert engine.runner.rows[-1] == 3, "nothing of the others runs any more"
    assert {one.request_id: one.finish_reason for one in outputs} == {
        **dict.fromkeys(("long", "decodes", "queued"), "abort"),
        "next": None,
    }
    drain(engine)
