"""A reply that begins with given ids goes on exactly as one that sampled them: ids, text, limits, stops, penalties."""

from __future__ import annotations

from typing import Any

import pytest

from pagedchat.engine.errors import RequestError
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput
from support.chat_engine import ChatEngine
from support.chat_templates import CHATML
from support.paged_model import make_engine, prompt_of

PROMPT = prompt_of(30)
DRAWN: dict[str, Any] = {"temperature": 0.8, "seed": 5, "max_tokens": 24, "presence_penalty": 1.5, "top_p": 0.9}


def served(engine: Any, given: list[int], controls: dict[str, Any], name: str = "one") -> list[RequestOutput]:
    engine.add_request(name, PROMPT, SamplingParams(**controls), begins_with=given)
    outputs: list[RequestOutput] = []
    while engine.has_unfinished():
        outputs += engine.step()
    return outputs


def ids_of(outputs: list[RequestOutput]) -> list[int]:
    return [token for one in outputs for token in one.token_ids]


def text_of(outputs: list[RequestOutput]) -> str:
    return "".join(one.text for one in outputs)


@pytest.mark.parametrize("length", [1, 2, 4, 11, 23, 24])
@pytest.mark.parametrize("cached", [True, False])
def test_it_goes_on_as_the_reply_that_sampled_these_ids(length: int, cached: bool) -> None:
    engine = make_engine(end_turns=False, enable_prefix_caching=cached)
    whole = served(engine, [], DRAWN)
    ids = ids_of(whole)
    again = served(engine, ids[:length], DRAWN, "two")
    assert ids_of(again) == ids[length - 1 :] and text_of(again) == text_of(whole)
    assert (again[-1].finish_reason, whole[-1].finish_reason) == ("length", "length")
    told = again[0].metrics
    assert told is not None and told.prompt_tokens == 30 + length - 1
    assert told.cached_tokens == (30 + length - 2 if cached else 0)
    assert told.cached_tokens + told.computed_tokens == told.prompt_tokens
    assert told.completion_tokens == 24 - length + 1


def test_a_stop_text_that_the_given_ids_begin_or_complete_ends_it_as_ever() -> None:
    engine = make_engine()
    ids, text = ids_of(served(engine, [], DRAWN)), text_of(served(engine, [], DRAWN, "again"))
    stop = {**DRAWN, "stop": [text[9:12]]}
    wanted = served(engine, [], stop, "stopped")
    for length in (10, 11, 12):
        again = served(engine, ids[:length], stop, f"from {length}")
        assert text_of(again) == text_of(wanted) == text[: text.index(text[9:12])]
        assert again[-1].finish_reason == "stop" and again[-1].history_ids == wanted[-1].history_ids


def test_an_end_id_as_the_last_given_one_ends_it_at_once_with_all_its_text() -> None:
    engine = make_engine()
    ids = ids_of(served(engine, [], DRAWN))
    (only,) = served(engine, [*ids[:5], 96], DRAWN, "ended")
    assert only.token_ids == [96] and only.finish_reason == "stop"
    assert only.text == engine.tokenizer.decode(ids[:5])


def test_logprobs_are_of_the_given_token_and_those_in_its_place() -> None:
    engine = make_engine()
    whole = served(engine, [], {**DRAWN, "logprobs": 5})
    ids, told = ids_of(whole), [one for output in whole for one in output.logprobs or []]
    again = served(engine, ids[:8], {"temperature": 0, "max_tokens": 8, "logprobs": 5}, "look")
    assert len(again) == 1 and again[0].logprobs == [told[7]]
    other = told[7].top[3].token_id
    (look,) = served(engine, [*ids[:7], other], {"temperature": 0, "max_tokens": 8, "logprobs": 5}, "other")
    (entry,) = look.logprobs or []
    assert (entry.token_id, entry.rank) == (other, 4) and entry.top == told[7].top
    assert entry.logprob == pytest.approx(told[7].top[3].logprob)


def test_half_a_character_at_the_end_of_the_given_ids_is_completed_by_what_follows() -> None:
    chat = ChatEngine(CHATML)
    ids = chat.tokenizer.encode("a🎉b")
    assert len(ids) == 6
    for length in range(1, 7):
        chat.model.script = ids[length - 1 :]  # the first of them comes anyway
        again = served(chat.engine, ids[:length], {"temperature": 0, "max_tokens": 6}, f"{length}")
        assert text_of(again) == "a🎉b" and ids_of(again) == ids[length - 1 :]


def test_it_survives_a_preemption() -> None:
    alone = ids_of(served(make_engine(), [], DRAWN))
    engine = make_engine(num_blocks=24, max_num_seqs=2)
    for name in ("first", "second"):
        engine.add_request(
            name,
            PROMPT if name == "second" else prompt_of(30, 9),
            SamplingParams(**DRAWN),
            begins_with=alone[:6] if name == "second" else [],
        )
    outputs: list[RequestOutput] = []
    while engine.has_unfinished():
        outputs += engine.step()
    mine = [one for one in outputs if one.request_id == "second"]
    assert ids_of(mine) == alone[5:] and mine[-1].metrics is not None


def test_what_makes_no_sense_is_refused() -> None:
    engine = make_engine()
    with pytest.raises(RequestError, match="one sample"):
        GenerateRequest(SamplingParams(n=2), prompt_token_ids=[1], begins_with=[2])
    with pytest.raises(RequestError, match="one sample"):
        GenerateRequest(SamplingParams(prompt_logprobs=1), prompt_token_ids=[1], begins_with=[2])
    with pytest.raises(RequestError, match="97"):
        engine.add_request("a", PROMPT, SamplingParams(), begins_with=[3, 97])
    with pytest.raises(RequestError, match="context holds"):
        engine.add_request("b", PROMPT, SamplingParams(), begins_with=[3] * 5000)
