"""Sampling inside the engine: preemption, company, stops, broken logits, and what is told of the tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.errors import RequestError
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput, StepBatch
from support.paged_model import VOCAB, ByteTokenizer, make_engine
from support.tiny_tokenizers import sentencepiece_tokenizer

PROMPT = [ord(letter) - 32 for letter in "A prompt of some length."]
END = 96


class Script:
    """A runner whose logits are ``scores(ids so far)``; its KV are the ids."""

    max_model_len = 512

    def __init__(self, scores, vocab_size: int) -> None:
        self._scores, self.vocab_size = scores, vocab_size
        self.ids: dict[int, list[int]] = {}

    def execute(self, batch: StepBatch) -> np.ndarray:
        size = batch.attention.block_size
        for source, target in batch.copies:
            for offset in range(size):
                self.ids[target * size + offset] = self.ids.get(source * size + offset, -1)
        for slot, token in zip(batch.attention.slot_mapping.tolist(), batch.token_ids.tolist(), strict=True):
            self.ids[slot] = token
        return np.stack([self._row(batch.attention, int(row)) for row in batch.sample_rows]).astype(np.float32)

    def _row(self, attention, row: int) -> np.ndarray:
        sequence = int(np.searchsorted(attention.query_start, row, side="right")) - 1
        table, size = attention.block_tables[sequence], attention.block_size
        places = range(int(attention.positions[row]) + 1)
        return self._scores([self.ids[int(table[one // size]) * size + one % size] for one in places])

    def describe(self) -> dict[str, str]:
        return {}


def scripted(scores, tokenizer=None, vocab_size: int = VOCAB, **settings) -> Engine:
    """An engine over `Script`; ids are printable ASCII unless a tokenizer is given."""
    config = EngineConfig("scripted", block_size=4, **settings)
    runner = Script(scores, vocab_size)
    return Engine(config, runner=runner, tokenizer=tokenizer or ByteTokenizer(), num_blocks=128)  # type: ignore[arg-type]


def saying(text: str, prompt: list[int], then: int = END):
    """Logits of a model that answers ``prompt`` with a text."""
    ids = [*(ord(letter) - 32 for letter in text), then]

    def scores(context: list[int]) -> np.ndarray:
        row = np.zeros(VOCAB)
        row[ids[min(len(context) - len(prompt), len(ids) - 1)]] = 10
        return row

    return scores


def outputs_of(engine: Engine) -> list[RequestOutput]:
    """All outputs until nothing is left to do."""
    found: list[RequestOutput] = []
    for _ in range(5000):
        if not engine.has_unfinished():
            return found
        found += engine.step()
    raise AssertionError("the engine does not come to an end")


def serve(engine: Engine, prompt=PROMPT, name: str = "r", **params) -> list[RequestOutput]:
    """One request to its end."""
    engine.add_request(name, list(prompt), SamplingParams(**params))
    return outputs_of(engine)


def ids_of(outputs: list[RequestOutput], name: str = "r") -> list[int]:
    return [token for one in outputs if one.request_id == name for token in one.token_ids]


def text_of(outputs: list[RequestOutput]) -> str:
    return "".join(one.text for one in outputs)


# -- preemption (B19) and company (B28) --------------------------------------------------------------------------------

CONTROLS = {
    "seed": 7,
    "temperature": 0.8,
    "repetition_penalty": 1.3,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.1,
    "dry_multiplier": 0.5,
    "dry_sequence_breakers": [],
    "top_p": 0.95,
    "max_tokens": 40,
    "logprobs": 2,
}


def preempt_all(engine: Engine) -> None:
    for request in list(engine.scheduler.running):
        engine.scheduler._preempt(request)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("chunk", [5, 512])
def test_after_a_preemption_every_five_tokens_penalties_budget_and_stream_go_on(cache: bool, chunk: int) -> None:
    wanted = serve(make_engine(256, max_num_batched_tokens=512), **CONTROLS)
    engine = make_engine(256, enable_prefix_caching=cache, max_num_batched_tokens=chunk, max_num_seqs=4)
    engine.add_request("r", PROMPT, SamplingParams(**CONTROLS))
    got: list[RequestOutput] = []
    while engine.has_unfinished():
        new = [one for one in engine.step() if one.token_ids]
        got += new
        if new and len(got) % 5 == 0 and engine.has_unfinished():
            request = engine.scheduler.running[0]
            assert request.num_tokens == len(PROMPT) + len(got)
            preempt_all(engine)
    assert ids_of(got) == ids_of(wanted) and len(ids_of(got)) == 40
    assert text_of(got) == text_of(wanted)
    assert [one.logprobs for one in got] == [one.logprobs for one in wanted if one.token_ids]
    assert got[-1].finish_reason == "length"
    assert got[-1].metrics is not None and got[-1].metrics.preemptions == 7


def test_a_seeded_request_gets_the_same_in_whatever_company() -> None:
    seeded = {"seed": 42, "temperature": 1.0, "max_tokens": 20, "top_p": 0.97}
    alone = ids_of(serve(make_engine(256), **seeded))
    assert ids_of(serve(make_engine(256), **{**seeded, "seed": 43})) != alone
    for mates in ([{}], [{"seed": 1}], [{"top_k": 3}, {"temperature": 0}, {"presence_penalty": 1, "seed": 42}]):
        for first in (True, False):
            engine = make_engine(256)
            if first:
                engine.add_request("r", PROMPT, SamplingParams(**seeded))
            for index, mate in enumerate(mates):
                prompt = PROMPT[: 7 + index]
                engine.add_request(f"mate {index}", prompt, SamplingParams(**{"max_tokens": 30, **mate}))
            if not first:
                engine.step()
                engine.add_request("r", PROMPT, SamplingParams(**seeded))
            assert ids_of(outputs_of(engine)) == alone
    engine = make_engine(256)
    serve(engine, PROMPT[:5], "before", max_tokens=100, temperature=1.5)
    assert ids_of(serve(engine, **seeded)) == alone


# -- ends of a reply ---------------------------------------------------------------------------------------------------


def test_every_one_of_ten_turns_ends_by_itself_under_a_strong_repetition_penalty() -> None:
    def scores(context: list[int]) -> np.ndarray:
        """Each turn is four letters and the end, which wins by less than the penalty would take from it."""
        row = np.zeros(VOCAB)
        since = context[::-1].index(95)
        row[END] = 3.0 if since >= 4 else -3.0
        row[33 + len(context) % 40] = 2.5
        return row

    engine, history = scripted(scores), [95]
    for turn in range(10):
        outputs = serve(
            engine, history, f"turn {turn}", temperature=0, repetition_penalty=1.5, frequency_penalty=2, max_tokens=30
        )
        reply = ids_of(outputs, f"turn {turn}")
        assert outputs[-1].finish_reason == "stop" and reply[-1] == END and 5 <= len(reply) <= 6
        history += [*reply, 95]


def test_a_stop_string_over_several_tokens_ends_the_reply_and_is_not_shown() -> None:
    outputs = serve(scripted(saying("PQRSTUVW", PROMPT)), temperature=0, stop=["QRSTUV"], max_tokens=30)
    assert text_of(outputs) == "P" and outputs[-1].finish_reason == "stop"
    assert ids_of(outputs) == [ord(letter) - 32 for letter in "PQRSTUV"]
    assert outputs[-1].history_ids == [ord("P") - 32]
    outputs = serve(scripted(saying("PQRSTUX", PROMPT)), temperature=0, stop=["QRSTUV"], max_tokens=30)
    assert text_of(outputs) == "PQRSTUX" and outputs[-1].history_ids is None
    outputs = serve(scripted(saying("PQRSTUX", PROMPT)), temperature=0, stop=["QRSTUV"], max_tokens=3)
    assert text_of(outputs) == "PQR" and outputs[-1].finish_reason == "length"


def test_of_two_stops_the_one_complete_first_decides() -> None:
    for stops in (["QR", "QRS"], ["QRS", "QR"]):
        outputs = serve(scripted(saying("PQRSTU", PROMPT)), temperature=0, stop=stops, max_tokens=30)
        assert text_of(outputs) == "P" and len(ids_of(outputs)) == 3


def test_a_stop_id_ends_the_reply_and_is_among_its_ids_but_not_in_its_text_or_its_history() -> None:
    stop = ord("S") - 32
    outputs = serve(scripted(saying("PQRSTU", PROMPT)), temperature=0, stop_token_ids=[stop, 5000], max_tokens=30)
    assert text_of(outputs) == "PQR" and outputs[-1].finish_reason == "stop"
    assert ids_of(outputs)[-1] == stop and outputs[-1].history_ids == ids_of(outputs)[:-1]


def test_ignore_eos_goes_on_behind_the_end_of_the_turn_until_max_tokens() -> None:
    scores = saying("PQ", PROMPT)
    assert ids_of(serve(scripted(scores), temperature=0, max_tokens=6))[2:] == [END]
    outputs = serve(scripted(scores), temperature=0, ignore_eos=True, max_tokens=6)
    assert len(ids_of(outputs)) == 6 and outputs[-1].finish_reason == "length" and text_of(outputs) == "PQ"


def test_before_min_tokens_neither_ids_nor_stop_strings_end_a_reply() -> None:
    scores = saying("xx", PROMPT)
    assert len(ids_of(serve(scripted(scores), temperature=0, max_tokens=20))) == 3
    outputs = serve(scripted(scores), temperature=0, min_tokens=8, max_tokens=20)
    assert len(ids_of(outputs)) == 9 and ids_of(outputs)[-1] == END and END not in ids_of(outputs)[:-1]
    scores = saying("ab ab ab ab", PROMPT)
    outputs = serve(scripted(scores), temperature=0, min_tokens=4, stop=["ab"], max_tokens=20)
    assert text_of(outputs) == "ab " and len(ids_of(outputs)) == 5, "a stop may begin before and end behind"
    outputs = serve(scripted(scores), temperature=0, min_tokens=5, stop=["ab"], max_tokens=20)
    assert text_of(outputs) == "ab ab " and outputs[-1].finish_reason == "stop"


@pytest.mark.parametrize("preempted", [False, True])
@pytest.mark.parametrize("continues", [False, True])
def test_spaces_of_sentencepiece_stay_in_the_stream_after_a_resume_a_hit_and_a_preemption(
    continues: bool, preempted: bool
) -> None:
    tokenizer = sentencepiece_tokenizer()
    ids = [tokenizer.token_id(piece) or 0 for piece in ("▁Hello", "▁world", "!", "▁", "▁x")]
    prompt = tokenizer.encode("Hello world")

    def scores(context: list[int]) -> np.ndarray:
        row = np.zeros(tokenizer.num_tokens)
        row[ids[(len(context) - len(prompt)) % len(ids)]] = 5
        return row

    engine = scripted(scores, tokenizer, tokenizer.num_tokens)
    for _ in range(2):  # the second time the prompt is a hit
        params = SamplingParams(temperature=0, max_tokens=len(ids))
        engine.add_request("r", prompt, params, continues=continues)
        outputs: list[RequestOutput] = []
        while engine.has_unfinished():
            outputs += engine.step()
            if preempted:
                preempt_all(engine)
        wanted = tokenizer.decode(ids)
        assert text_of(outputs) == (" " + wanted if continues else wanted)


# -- logits that are no numbers, and rows that mean nothing (B30) ------------------------------------------------------


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "controls", [{"temperature": 0}, {}, {"repetition_penalty": 1.2, "min_tokens": 3, "top_p": 0.5}]
)
def test_a_row_that_is_no_number_ends_only_its_own_request(wrong: float, controls: dict) -> None:
    sick = [1] * 9

    def scores(context: list[int]) -> np.ndarray:
        row = np.full(VOCAB, 0.0)
        row[5], row[END] = 4, -9
        if context[:9] == sick and len(context) > 10:
            row[:] = wrong if math.isinf(wrong) and wrong < 0 else row
            row[END] = wrong
        return row

    engine = scripted(scores)
    for name, prompt in (("well", PROMPT), ("sick", sick), ("also well", PROMPT[::-1])):
        engine.add_request(name, prompt, SamplingParams(**{"max_tokens": 6, "logprobs": 1, **controls}))
    outputs = outputs_of(engine)
    ends = {one.request_id: one for one in outputs if one.finish_reason}
    assert ends["sick"].finish_reason == "error" and "not a number" in (ends["sick"].error or "")
    assert len(ids_of(outputs, "sick")) == 2 and 0 not in ids_of(outputs, "sick")[2:] and ends["sick"].text == ""
    for name in ("well", "also well"):
        assert ends[name].finish_reason == "length" and len(ids_of(outputs, name)) == 6


def test_rows_that_the_tokenizer_does_not_know_are_never_chosen_nor_counted() -> None:
    def scores(context: list[int]) -> np.ndarray:
        row = np.zeros(VOCAB + 20)
        row[VOCAB + 5] = 100
        return row

    for controls in ({"temperature": 0}, {}, {"top_k": 3}, {"temperature": 0.2, "top_p": 0.9}):
        engine = scripted(scores, vocab_size=VOCAB + 20)
        outputs = serve(engine, max_tokens=12, ignore_eos=True, logprobs=1, **controls)
        assert len(ids_of(outputs)) == 12 and max(ids_of(outputs)) < VOCAB
        assert outputs[0].logprobs is not None
        assert outputs[0].logprobs[0].logprob == pytest.approx(-math.log(VOCAB), abs=1e-5)


# -- log probabilities -------------------------------------------------------------------------------------------------


def reference_logprobs(row: np.ndarray) -> np.ndarray:
    row = row[:VOCAB].astype(np.float32).astype(np.float64)
    return row - np.log(np.exp(row - row.max()).sum()) - row.max()


def test_logprobs_are_of_the_models_own_distribution_whatever_the_controls() -> None:
    rows: list[np.ndarray] = []

    def scores(context: list[int]) -> np.ndarray:
        rows.append(np.random.default_rng(len(context)).normal(size=VOCAB) * 3)
        return rows[-1]

    controls = {"temperature": 0.3, "presence_penalty": 1.5, "top_k": 2, "logit_bias": {5: 30.0}, "seed": 3}
    outputs = serve(scripted(scores), logprobs=3, max_tokens=8, **controls)
    assert sum(len(one.token_ids) for one in outputs) == 8
    for output, row in zip(outputs, rows, strict=True):
        (told,), wanted = output.logprobs or [], reference_logprobs(row)
        order = np.argsort(-wanted)
        assert told.token_id == output.token_ids[0]
        assert told.logprob == pytest.approx(wanted[told.token_id], abs=1e-4)
        assert told.rank == 1 + order.tolist().index(told.token_id)
        assert [one.token_id for one in told.top] == order[:3].tolist()
        assert [one.rank for one in told.top] == [1, 2, 3]
        assert [one.logprob for one in told.top] == pytest.approx(wanted[order[:3]], abs=1e-4)
        assert told.piece == ByteTokenizer().token_bytes(told.token_id)
    assert any(one.logprobs and one.logprobs[0].rank > 2 for one in outputs), "the bias chose what was unlikely"


def test_nothing_is_told_unasked_and_zero_tells_only_the_chosen_token() -> None:
    engine = make_engine(128)
    assert all(one.logprobs is None and one.prompt_logprobs is None for one in serve(engine, max_tokens=3))
    assert all(one.logprobs and one.logprobs[0].top == [] for one in serve(engine, max_tokens=3, logprobs=0))


def prompt_told(outputs: list[RequestOutput], name: str = "r"):
    found = [one.prompt_logprobs for one in outputs if one.request_id == name and one.prompt_logprobs is not None]
    assert len(found) == 1 and found[0] is next(one for one in outputs if one.request_id == name).prompt_logprobs
    return found[0]


@pytest.mark.parametrize("chunk", [3, 7, 512])
def test_prompt_logprobs_are_those_of_each_prompt_token_in_whatever_chunks_and_despite_the_cache(chunk: int) -> None:
    engine = make_engine(256, max_num_batched_tokens=chunk, max_num_seqs=3)
    serve(engine, name="warms the cache", max_tokens=2)
    plain = {"max_tokens": 3, "temperature": 0}
    told = prompt_told(serve(engine, prompt_logprobs=2, **plain))
    assert told[0] is None and [one.token_id for one in told[1:]] == PROMPT[1:]
    for length in (1, 6, 11, len(PROMPT) - 1):
        one = serve(make_engine(256), PROMPT[:length], logprobs=2, logit_bias={PROMPT[length]: 100}, **plain)[0]
        assert one.token_ids == [PROMPT[length]] and one.logprobs is not None
        wanted, got = one.logprobs[0], told[length]
        assert (got.token_id, got.rank, got.piece) == (wanted.token_id, wanted.rank, wanted.piece)
        assert got.logprob == pytest.approx(wanted.logprob, abs=1e-4)
        assert [top.token_id for top in got.top] == [top.token_id for top in wanted.top]


def test_prompt_logprobs_leave_neighbours_and_the_reply_as_they_are() -> None:
    engine = make_engine(256, max_num_batched_tokens=9, max_num_seqs=4)
    wanted = {
        name: ids_of(serve(engine, prompt, name, max_tokens=5, temperature=0), name) for name, prompt in MANY.items()
    }
    engine = make_engine(256, max_num_batched_tokens=9, max_num_seqs=4)
    for index, (name, prompt) in enumerate(MANY.items()):
        told = {"prompt_logprobs": 0} if index % 2 else {}
        engine.add_request(name, prompt, SamplingParams(max_tokens=5, temperature=0, **told))
    outputs = outputs_of(engine)
    assert {name: ids_of(outputs, name) for name in MANY} == wanted
    for name in ("b", "d"):
        assert len(prompt_told(outputs, name)) == len(MANY[name])


MANY = {"a": PROMPT, "b": PROMPT[::-1], "c": PROMPT[3:], "d": PROMPT[:1]}


def test_a_preemption_within_the_prompt_or_behind_it_loses_and_repeats_no_prompt_logprobs() -> None:
    wanted = prompt_told(serve(make_engine(256), prompt_logprobs=1, max_tokens=4, temperature=0))
    engine = make_engine(256, max_num_batched_tokens=4, max_num_seqs=2)
    engine.add_request("r", PROMPT, SamplingParams(prompt_logprobs=1, max_tokens=4, temperature=0))
    outputs: list[RequestOutput] = []
    steps = 0
    while engine.has_unfinished():
        outputs += engine.step()
        steps += 1
        if steps in (2, 5, 12):
            preempt_all(engine)
    assert outputs[-1].metrics is not None and outputs[-1].metrics.preemptions == 3
    told = prompt_told(outputs)
    assert [vars(one) if one else None for one in told] == [vars(one) if one else None for one in wanted]


# -- values without meaning --------------------------------------------------------------------------------------------


def test_a_bias_on_an_id_beyond_the_vocabulary_is_refused_before_anything_runs() -> None:
    engine = make_engine(16)
    with pytest.raises(RequestError, match="logit_bias"):
        engine.add_request("r", PROMPT, SamplingParams(logit_bias={VOCAB: 1.0}))
    assert not engine.has_unfinished()
