"""The arithmetic of the load benches: percentiles, limits, knees, disagreement, the closing sentence, and the loads."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from pagedchat.app.bench.chat import FIRST_LINES
from pagedchat.app.bench.decode import decode_rate
from pagedchat.app.bench.figures import (
    PagingFacts,
    disagreement,
    knee,
    meets,
    paging_worth,
    parse_slo,
    percentile,
    percentiles,
    ratio,
)
from pagedchat.app.bench.http_commands import numbers
from pagedchat.app.bench.http_load import Answer, Ask
from pagedchat.app.bench.interfere import gaps
from pagedchat.app.bench.loads import BUILT_IN, Load, draw, quantiles, read_profile
from pagedchat.app.bench.report import BenchResult, Plot, Table, table_lines, warn_if_busy
from pagedchat.app.bench.report_html import html_report
from pagedchat.app.bench.serve import Pace, PhaseRun, pace_for
from pagedchat.app.bench.serve_modes import sweep_values
from pagedchat.app.bench.svg_plot import nice_ticks, svg_plot
from pagedchat.engine.errors import ConfigError


def answered(*moments: float, sent: float = 0.0) -> Answer:
    """A reply whose tokens came at these moments."""
    answer = Answer(Ask(9), sent, [(moment, 1) for moment in moments], prompt_tokens=5)
    answer.completion_tokens, answer.ended = len(moments), moments[-1]
    return answer


# -- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0], [5.0, 1.0, 9.0, 2.0, 2.0, 7.0]])
@pytest.mark.parametrize("share", [0, 50, 95, 99, 100])
def test_percentiles_are_those_of_numpy(values, share):
    assert percentile(values, share) == pytest.approx(np.percentile(values, share))


def test_without_values_there_is_no_percentile_and_no_ratio():
    assert percentiles([]) == {"p50": None, "p95": None, "p99": None}
    assert ratio(1.0, None) is None and ratio(1.0, 0.0) is None and ratio(None, 1.0) is None
    assert ratio(0.0, 2.0) == 0.0


def test_limits_are_read_and_anything_else_is_refused_with_the_names():
    assert parse_slo("ttft=1000, itl=100") == {"ttft": 1000.0, "itl": 100.0}
    assert parse_slo("") == {}
    for wrong in ("ttft", "ttft=fast", "latency=3", "itl=-1", "itl=nan", "itl=0"):
        with pytest.raises(ConfigError, match="ttft, itl, tpot, e2e"):
            parse_slo(wrong)


def test_a_request_counts_as_good_only_within_every_limit():
    slo = {"ttft": 100.0, "itl": 10.0}
    assert meets({"ttft": 100.0, "itl": 10.0}, slo)
    assert not meets({"ttft": 99.0, "itl": 10.1}, slo)
    assert meets({"ttft": 99.0, "itl": None}, slo), "a reply of one token has no gaps"


def test_the_knee_is_where_a_curve_bends():
    assert knee([(64, 10), (128, 50), (256, 95), (512, 100), (1024, 101)]) == 256
    assert knee([(64, 100), (128, 101), (256, 99), (512, 100)]) is None, "it never depends on x"
    assert knee([(1, 10), (2, 20), (4, 30), (8, 40)]) is None, "it rises evenly to its end"
    assert knee([(64, 10), (128, 50)]) is None


def test_runs_that_are_better_in_one_figure_and_worse_in_another_are_called_so():
    one, other = {"tokens_per_s": 130.0, "ttft_p95_ms": 900.0}, {"tokens_per_s": 100.0, "ttft_p95_ms": 600.0}
    said = disagreement(one, other)
    assert "throughput up 30% (better)" in said and "P95 TTFT up 50% (worse)" in said
    assert "throughput down 23% (worse)" in disagreement(other, one)
    assert disagreement(one, {"tokens_per_s": 100.0, "ttft_p95_ms": 900.0}) == ""
    assert disagreement({"tokens_per_s": 130.0}, other) == "", "what was not measured does not disagree"
    assert disagreement({"tokens_per_s": 130.0, "ttft_p95_ms": 630.0}, other) == "", "5 % is noise"
    assert disagreement({**one, "ttft_p95_ms": 3.0}, {**other, "ttft_p95_ms": 1.0}) == "", "and so are 2 ms"


def facts(**changes) -> PagingFacts:
    usual = {
        "prompt_tokens": 1000,
        "cached_tokens": 0,
        "held_tokens": 500,
        "reserved_tokens": 2000,
        "pool_tokens": 4000,
        "longest": 1000,
        "mean_running": 2.0,
        "preemptions": 0,
    }
    return PagingFacts(**{**usual, **changes})


def test_what_paging_is_worth_follows_from_reuse_and_from_what_reservation_would_take():
    assert paging_worth(facts()).startswith("Paging is worth little")
    assert paging_worth(facts(cached_tokens=100)).startswith("Paging is worth something")
    assert paging_worth(facts(cached_tokens=300)).startswith("Paging is worth much")
    crowded = paging_worth(facts(reserved_tokens=8000, preemptions=1))
    assert crowded.startswith("Paging is worth much") and "more than the pool's 4,000" in crowded
    assert "94% waste avoided" in crowded and crowded.endswith("2.0 requests ran at once, with 1 preemption.")


@pytest.mark.parametrize(("load", "busy"), [(2.9, False), (3.1, True)])
def test_a_bench_on_a_busy_machine_says_so_first(load, busy):
    result = BenchResult("x", {"machine": {"usable_cores": 2}}, verdict="Found.", load_before=load)
    assert warn_if_busy(result).verdict.startswith("This computer was busy" if busy else "Found.")
    assert result.verdict.endswith("Found.")


# -- times ------------------------------------------------------------------------------------------------------------


def test_times_of_an_answer():
    answer = answered(1.0, 1.5, 3.0, sent=0.25)
    assert (answer.ttft, answer.itl, answer.tpot, answer.e2e) == (0.75, [0.5, 1.5], 1.0, 2.75)
    assert [answer.tokens_by(moment) for moment in (0.9, 1.0, 2.0, 3.0, 3.1)] == [0, 6, 7, 8, 0]


def test_the_speed_of_writing_counts_only_while_all_write():
    early, late = answered(0.0, 1.0, 2.0, 3.0, 4.0), answered(1.5, 2.5, 3.5, 4.5, 5.5)
    assert decode_rate([early, late]) == pytest.approx(5 / 2.5)
    after = [answered(0.0, 1.0, 2.0), answered(10.0, 11.0, 12.0)]
    assert decode_rate(after) == pytest.approx(4 / 12), "served one after another: all of the time counts"
    assert decode_rate([answered(1.0)]) is None


def test_gaps_that_reach_into_a_time_belong_to_it():
    assert gaps([answered(0.0, 1.0, 4.0, 5.0)], 1.5, 3.0) == [3000.0]
    assert gaps([answered(0.0, 1.0, 4.0, 5.0)], 0.5, 4.5) == [1000.0, 3000.0, 1000.0]


# -- loads ------------------------------------------------------------------------------------------------------------


def first_chats(name: str, seed: int, count: int = 20, longest: int = 8192):
    return list(islice(Load(BUILT_IN[name], seed, longest).chats("steady"), count))


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_load_is_the_same_for_the_same_seed_and_fits_the_context(name):
    chats = first_chats(name, 1)
    assert chats == first_chats(name, 1) and chats != first_chats(name, 2)
    for longest in (400, 8192):
        for chat in first_chats(name, 3, longest=longest):
            words = sum(len(turn.text.split()) + turn.reply_tokens for turn in chat.turns) + len(chat.system.split())
            assert chat.turns and words <= longest


def test_loads_share_what_their_uses_share():
    assert len({chat.system for chat in first_chats("agent", 0)}) == 1
    documents = {turn.text.split("\n\n")[0] for chat in first_chats("rag", 0, 60) for turn in chat.turns}
    assert 1 < len(documents) <= BUILT_IN["rag"].documents
    assert len({chat.turns[0].text for chat in first_chats("batch", 0)}) == 20
    assert all(len(chat.turns) == 1 and not chat.system for chat in first_chats("batch", 0))


def test_drawn_values_have_the_profiles_quantiles():
    from random import Random

    spread = BUILT_IN["chat"].reply_tokens
    drawn = quantiles([draw(Random(seed), spread) for seed in range(3000)])
    assert drawn == pytest.approx(spread, rel=0.1)


def test_a_profile_comes_back_from_its_file(tmp_path):
    path = tmp_path / "mine.json"
    for profile in BUILT_IN.values():
        path.write_text(json.dumps(profile.to_dict()), encoding="utf-8")
        assert read_profile(path) == profile


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "version"),
        ({"turns": [1.0] * 10}, "turns must be 11"),
        ({"gap_s": [3.0] + [1.0] * 10}, "gap_s does not rise"),
        ({"gap_s": [float("inf")] * 11}, "gap_s must be 11"),
        ({"chats": 0}, "chats must be"),
        ({"name": 3}, "no name"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused_with_the_reason(tmp_path, change, problem):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**BUILT_IN["chat"].to_dict(), **change}), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        read_profile(path)


def test_a_sweep_goes_from_what_one_chat_needs_to_what_all_need():
    values = sweep_values("num-blocks", BUILT_IN["chat"], 0, 16)
    assert len(values) == 5 and values == sorted(values)
    longest = max(
        sum(len(t.text.split()) + t.reply_tokens for t in chat.turns) + 300 for chat in first_chats("chat", 0)
    )
    assert values[0] * 16 >= longest and values[-1] >= values[0] * BUILT_IN["chat"].chats
    assert sweep_values("num-blocks=256,64", BUILT_IN["chat"], 0, 16) == [64, 256]
    for wrong in ("blocks", "num-blocks=", "num-blocks=a", "block-size=1,2"):
        with pytest.raises(ConfigError, match="--sweep"):
            sweep_values(wrong, BUILT_IN["chat"], 0, 16)


def test_lists_of_numbers_are_read():
    assert numbers("16, 1,8", "--chats") == [1, 8, 16]
    for wrong in ("", "1,,2", "0", "-1", "a"):
        with pytest.raises(ConfigError, match="--chats"):
            numbers(wrong, "--chats")


def test_moving_first_lines_move_as_they_say():
    from random import Random

    random = Random(0)
    for kind in ("timestamp", "trace-id"):
        assert len({FIRST_LINES[kind](random, 0, request) for request in range(5)}) == 5
    lines = [FIRST_LINES["user-info"](random, chat, request) for chat in (0, 1) for request in (0, 1)]
    assert lines[0] == lines[1] != lines[2] == lines[3]


def test_a_slow_server_gets_shorter_bursts_and_replies_but_some():
    load = Load(BUILT_IN["chat"], 0, 4000)
    assert pace_for([], load, 10.0) == Pace(12, 320)

    def steady(replies: int, tokens: int) -> PhaseRun:
        run = PhaseRun("steady", "x", seconds=10.0)
        run.answers = [answered(0.0, 1.0) for _ in range(replies)]
        for answer in run.answers:
            answer.completion_tokens = tokens
        return run

    fast, slow, hopeless = steady(100, 80), steady(7, 80), steady(1, 10)
    assert pace_for([fast], load, 10.0) == Pace(12, 320)
    assert pace_for([fast, slow], load, 10.0) == Pace(7, 160)
    assert pace_for([hopeless], load, 10.0) == Pace(4, 160)


# -- the page ---------------------------------------------------------------------------------------------------------

HOSTILE = '<script>alert("x")</script>&\''


def hostile_result() -> BenchResult:
    return BenchResult(
        "serve",
        {"model": {"name": HOSTILE}, "program": {"pagedchat": "1"}, "settings": {HOSTILE: HOSTILE}},
        parameters={"load": HOSTILE},
        tables=[Table(HOSTILE, [HOSTILE, "n"], [[HOSTILE, None], ["b", 1234.5]], HOSTILE)],
        plots=[
            Plot(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: [(1, 2.0), (1000, 3.0), (2, float("nan"))]}),
            Plot("bars", "", "ms", {HOSTILE: [(HOSTILE, 2.0)]}, kind="bar"),
            Plot("empty", "x", "y", {"none": []}),
        ],
        verdict=HOSTILE,
        passed=False,
    )


def test_the_page_has_no_script_and_loads_nothing_whatever_the_names_are():
    page = html_report(hostile_result())
    assert "<script" not in page and "&lt;script&gt;" in page
    for way_out in ("http://", "https://", "url(", "src=", "@import", "<link"):
        assert way_out not in page
    assert "Goals missed." in page and "1,234" in page and page.count('class="plot"') == 2


def test_a_plot_is_wellformed_and_keeps_its_points_inside():
    from xml.etree import ElementTree

    for plot in hostile_result().plots[:2]:
        drawn = ElementTree.fromstring(f"<div>{svg_plot(plot)}</div>")
        places = [float(one.get("cx", 10)) for one in drawn.iter("circle")]
        assert all(0 <= place <= 540 for place in places)
    assert svg_plot(Plot("none", "", "", {})) == ""


def test_ticks_are_round_and_reach_the_highest_value():
    for high in (0.003, 1.0, 7.0, 99.9, 1234.0):
        ticks = nice_ticks(high)
        assert ticks[0] == 0 and ticks[-1] >= high * 0.999 and 3 <= len(ticks) <= 12


def test_shares_stand_to_the_right_as_numbers_do():
    table = Table("t", ["name", "share"], [["a", "5.0%"], ["b", "12.5%"]])
    assert table_lines(table)[1:] == ["a      5.0%", "b     12.5%"]
    page = html_report(BenchResult("x", {}, tables=[table]))
    assert '<td class="number">5.0%</td>' in page and "<td>a</td>" in page
