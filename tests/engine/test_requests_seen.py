"""What can be seen of requests while they live and shortly after: state, tokens, and what happened when."""

from __future__ import annotations

import itertools

from pagedchat.engine.inspection import REMEMBERED_REQUESTS
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import drain, make_engine


def ticking_engine(**settings):
    engine, clock = make_engine(**settings), itertools.count()
    engine._clock = engine.scheduler._clock = lambda: float(next(clock))
    return engine


def events_of(row) -> list[str]:
    return [entry["event"] for entry in row["timeline"]]


def test_a_timeline_says_what_happened_when():
    engine = ticking_engine(max_num_batched_tokens=8, max_num_seqs=8)
    for name in ("first", "second"):
        engine.add_request(name, list(range(20)), SamplingParams(temperature=0, max_tokens=3), {"session": name})
    engine.step()
    first, second = engine.requests()
    assert (first["state"], first["num_tokens"], first["num_computed"]) == ("running", 20, 8)
    assert (second["state"], second["num_computed"], second["labels"]) == ("waiting", 0, {"session": "second"})
    drain(engine)
    rows = {row["request_id"]: row for row in engine.requests()}
    assert events_of(rows["first"]) == ["queued", "scheduled", "first_token", "finished"]
    assert events_of(rows["second"]) == ["queued", "pending", "scheduled", "first_token", "finished"]
    waited = rows["second"]["timeline"][1]
    assert waited["detail"] == "first" and rows["second"]["timeline"][-1]["detail"] == "length"
    times = [entry["at_s"] for entry in rows["second"]["timeline"]]
    assert times == sorted(times) and times[0] == 0 and times[-1] > 0
    assert rows["second"]["metrics"]["cached_tokens"] == 19 and rows["second"]["state"] == "finished"


def test_a_bounded_number_of_ended_requests_is_remembered():
    engine = make_engine()
    for index in range(REMEMBERED_REQUESTS + 5):
        engine.add_request(str(index), [1, 2], SamplingParams(temperature=0, max_tokens=1))
        engine.step()
    drain(engine)
    names = [row["request_id"] for row in engine.requests()]
    assert names == [str(index) for index in range(5, REMEMBERED_REQUESTS + 5)]


def test_samples_are_listed_one_by_one():
    engine = make_engine()
    engine.add_request("a", [1, 2, 3], SamplingParams(temperature=1, n=3, max_tokens=2))
    engine.step()
    assert [row["request_id"] for row in engine.requests()] == ["a", "a#1", "a#2"]
    drain(engine)
    assert [entry["detail"] for entry in engine.requests()[1]["timeline"] if entry["event"] == "scheduled"] == [
        "forked"
    ]
