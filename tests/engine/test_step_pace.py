"""Replies that are being written go on at a steady pace while prompts arrive, and prompts lose little by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.step_pace import LEAST_TOKENS, LONGER, ROWS, UNNOTICED_S, StepPace
from pagedchat.engine.types import BACKGROUND_PRIORITY, StepBatch
from support.paged_model import ByteTokenizer, CheckedEngine, PagedModel, cold, greedy, prompt_of

BUDGET = 512


class TimedModel(PagedModel):
    """A model whose steps take virtual time, by their number of rows."""

    def __init__(self, seconds: Callable[[int], float]) -> None:
        super().__init__(1000, 4)
        self.seconds, self.now = seconds, 0.0

    def execute(self, batch: StepBatch):
        self.now += self.seconds(len(batch.token_ids))
        return super().execute(batch)


def timed_engine(seconds: Callable[[int], float]) -> CheckedEngine:
    model = TimedModel(seconds)
    config = EngineConfig("timed", block_size=4, num_blocks=1000, max_num_batched_tokens=BUDGET, max_num_seqs=8)
    return CheckedEngine(config, runner=model, tokenizer=ByteTokenizer(), num_blocks=1000, clock=lambda: model.now)  # type: ignore[arg-type]


def stream(engine: CheckedEngine, number: int = 4, priority: int = 0) -> float:
    """Let replies run; seconds of a step of theirs."""
    for index in range(number):
        engine.add_request(f"stream{index}", prompt_of(8, index), greedy(1000), priority=priority)
    for _ in range(6):
        began = engine.runner.now
        engine.step()
    return engine.runner.now - began


def arrive(engine: CheckedEngine, length: int = 600) -> list[float]:
    """A prompt arrives; seconds of all steps up to its first token."""
    engine.add_request("new", prompt_of(length, 99), greedy(2))
    steps, begun = [], False
    while not begun:
        began = engine.runner.now
        outputs = engine.step()
        steps.append(engine.runner.now - began)
        begun = any(output.request_id == "new" for output in outputs)
        streams = {request.request_id for request in engine.scheduler.running} - {"new"}
        assert streams <= {output.request_id for output in outputs}, "a reply waits"
    return steps


def test_a_step_with_a_chunk_takes_little_longer_than_replies_alone() -> None:
    engine = timed_engine(lambda rows: 0.010 + 0.0005 * rows)
    alone = stream(engine)
    steps = arrive(engine)
    assert max(steps) <= LONGER * alone + ROWS / 2 * 0.0005
    assert max(steps) > 0.8 * LONGER * alone, "the room that there is goes to the prompt"
    assert engine.runner.rows[-1] < engine.runner.rows[-2] < BUDGET


def test_a_prompt_alone_takes_the_whole_budget_and_says_the_same_in_company() -> None:
    engine = timed_engine(lambda rows: 0.010 + 0.0005 * rows)
    arrive(engine)
    assert engine.runner.rows == [BUDGET, 600 - BUDGET]
    company = timed_engine(lambda rows: 0.010 + 0.0005 * rows)
    stream(company)
    arrive(company)
    said = company._replies["new"].request.token_ids[600:]
    assert len(company.runner.rows) > 10 and said == cold(prompt_of(600, 99), 1)


def test_quick_steps_have_room_up_to_what_nobody_notices() -> None:
    engine = timed_engine(lambda rows: 0.0005 + 0.0001 * rows)
    assert stream(engine) * LONGER < UNNOTICED_S
    steps = arrive(engine)
    assert 0.8 * UNNOTICED_S < max(steps) <= UNNOTICED_S + ROWS / 2 * 0.0001


def test_a_token_that_takes_ever_longer_makes_chunks_smaller_but_the_prompt_gets_on() -> None:
    engine = timed_engine(lambda rows: 0.010 + 0.0005 * rows)
    stream(engine)
    engine.runner.seconds = lambda rows: 0.010 + 0.010 * rows
    arrive(engine)
    chunks = [rows - 4 for rows in engine.runner.rows[6:]]
    assert sum(chunks) == 600 and chunks[-2] == LEAST_TOKENS == min(chunks[:-1])


def test_a_reply_that_nobody_waits_for_holds_no_prompt_up() -> None:
    engine = timed_engine(lambda rows: 0.010 + 0.0005 * rows)
    stream(engine, priority=BACKGROUND_PRIORITY)
    assert len(arrive(engine)) == 2


def test_one_slow_step_changes_nothing() -> None:
    pace = StepPace()
    pace.planned(0, 100)
    pace.took(0.1)
    for seconds in (0.01, 0.01, 0.5, 0.01):
        pace.planned(4, 0)
        pace.took(seconds)
    most = pace.most_tokens(4)
    for seconds in (0.026, 0.9, 0.026):
        pace.planned(4, 16)
        pace.took(seconds)
    assert most == pace.most_tokens(4) == 40 + ROWS - 4


@pytest.mark.parametrize(("known", "asked"), [((2, 8), 4), ((4,), 4), ((8,), 4)])
def test_what_is_not_measured_is_told_from_the_nearest_number_of_replies(known: tuple[int, ...], asked: int) -> None:
    pace = StepPace()
    assert pace.most_tokens(asked) is None
    for number in known:
        pace.planned(number, 0)
        pace.took(0.010 * number)
    assert pace.most_tokens(asked) is None, "no prompt has been measured"
    pace.planned(0, 100)
    pace.took(0.010)
    nearest = max((number for number in known if number <= asked), default=min(known))
    assert pace.most_tokens(asked) == pytest.approx(0.010 * nearest * (LONGER - 1) / 0.0001, abs=LEAST_TOKENS)
    assert pace.most_tokens(0) is None
