"""One rule engine: what the page's says of a series of scrapes is what Prometheus says of it, rule by rule."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from pagedchat.app.settings import Settings
from pagedchat.app.watch.baseline import Baseline
from pagedchat.app.watch.evaluate import AlertState, replay
from pagedchat.app.watch.metrics import EngineCollector
from pagedchat.app.watch.promql import Sample, increase_of, quantile_of
from pagedchat.app.watch.render import render_rules
from pagedchat.app.watch.rules import rules_for
from pagedchat.engine.histogram import bucket_quantile
from pagedchat.engine.metric_catalogue import METRICS, blank_metrics
from support.watched_engine import STEP_S, WatchedEngine, input_series, promtool_says, scrapes

BASELINE = Baseline("A test's.", ttft_p95_s=0.25, tpot_p95_s=0.03, hit_rate=0.8)
RULES = rules_for(Settings(), BASELINE)
NO_BASELINE = rules_for(Settings(), Baseline("No baseline yet."))
VALUES_EVERY_S = 105
Act = Callable[[WatchedEngine, float], None]


def nothing_happens(engine: WatchedEngine, minute: float) -> None:
    pass


def all_is_well(engine: WatchedEngine, minute: float) -> None:
    engine.usage, engine.waiting = 0.9, 1
    engine.reply()


def full_for_a_while(engine: WatchedEngine, minute: float) -> None:
    engine.usage = 0.95 if 3 <= minute < 7.75 or 10 <= minute < 20 else 0.4


def the_queue_grows(engine: WatchedEngine, minute: float) -> None:
    engine.waiting = round(3 * max(0.0, min(minute, 25) - 8))


def first_tokens_come_late(engine: WatchedEngine, minute: float) -> None:
    engine.reply(ttft_s=0.7 if 20 <= minute < 35 else 0.2)


def tokens_come_slowly(engine: WatchedEngine, minute: float) -> None:
    engine.reply(tpot_s=0.08 if minute >= 25 else 0.015)


def too_few_replies_to_judge(engine: WatchedEngine, minute: float) -> None:
    if minute % 3 == 0:
        engine.reply(ttft_s=9.0, tpot_s=9.0, cached=0)


def most_replies_are_one_token(engine: WatchedEngine, minute: float) -> None:
    engine.reply(tpot_s=9.0 if minute % 3 == 0 else None)


def prompts_begin_differently(engine: WatchedEngine, minute: float) -> None:
    engine.reply(cached=85 if minute < 20 or minute > 45 else 0)


def the_engine_begins_anew(engine: WatchedEngine, minute: float) -> None:
    if minute == 30:
        engine.begin_anew()
        engine.restarts += 1
    engine.usage = None if 30 <= minute < 31.5 else 0.95
    if engine.usage:
        engine.reply(ttft_s=0.7 if minute > 31 else 0.2)


def memory_runs_out(engine: WatchedEngine, minute: float) -> None:
    if minute in (12, 13.5):
        engine.oom["step"] += 1
    if minute >= 40:
        engine.oom["load"] = 1 if minute >= 50 else 0


def anything(engine: WatchedEngine, minute: float) -> None:
    chance = random.Random(round(minute * 4))
    engine.usage = None if chance.random() < 0.03 else chance.choice((0.5, 0.89, 0.91, 0.92, 0.95, 0.99))
    engine.waiting = chance.randrange(5) + round(minute) // 4
    if chance.random() < 0.02:
        engine.begin_anew()
        engine.restarts += chance.random() < 0.7
    for _ in range(chance.randrange(4)):
        engine.reply(chance.expovariate(2.0), chance.expovariate(30.0), chance.randrange(1, 200), 0)
        engine.hits += chance.randrange(engine.queries - engine.hits)


MINUTES: dict[Act, float] = {
    nothing_happens: 10,
    all_is_well: 40,
    full_for_a_while: 25,
    the_queue_grows: 40,
    tokens_come_slowly: 45,
    too_few_replies_to_judge: 40,
    most_replies_are_one_token: 40,
    the_engine_begins_anew: 50,
}
"""How long a story is looked at where an hour would show nothing more."""
FIRES = {
    nothing_happens: set(),
    all_is_well: set(),
    full_for_a_while: {"HighKVCacheUsage"},
    the_queue_grows: {"WaitingRequestsGrowing"},
    first_tokens_come_late: {"TTFTRegression"},
    tokens_come_slowly: {"TPOTRegression"},
    too_few_replies_to_judge: set(),
    most_replies_are_one_token: set(),
    prompts_begin_differently: {"PrefixCacheHitDrop"},
    the_engine_begins_anew: {"HighKVCacheUsage", "TTFTRegression", "EngineRestarted"},
    memory_runs_out: {"OutOfMemory"},
}


@cache
def story(act: Act) -> tuple[list[Sample], list[tuple[float, dict[str, AlertState]]]]:
    """Its scrapes, and what each rule says at each of them."""
    samples = scrapes(RULES, MINUTES.get(act, 60), act)
    return samples, replay(RULES, samples, times_of(samples))


def times_of(samples: list[Sample]) -> list[float]:
    return [sample.time for sample in samples]


def firing(act: Act) -> dict[str, list[float]]:
    """When each alert fires, in minutes."""
    found: dict[str, list[float]] = {}
    for at, states in story(act)[1]:
        for name, state in states.items():
            if state.state == "firing":
                found.setdefault(name, []).append(at / 60)
    return found


def expected(states: dict[str, AlertState]) -> list[dict[str, Any]]:
    """Prometheus' own series of alerts for these states."""
    severity = {rule.name: rule.severity for rule in RULES}
    return [
        {"labels": f'ALERTS{{alertname="{name}", alertstate="{one.state}", severity="{severity[name]}"}}', "value": 1}
        for name, one in states.items()
        if one.state != "inactive"
    ]


def promtool_test(act: Act) -> dict[str, Any]:
    """The scrapes of a story, and at every evaluation the states and measured values that ours has found."""
    samples, seen = story(act)
    wanted = []
    for at, states in seen:
        wanted.append({"expr": "ALERTS", "eval_time": f"{at}s", "exp_samples": expected(states)})
        for rule in RULES if at % VALUES_EVERY_S == 0 else ():
            value = states[rule.name].value
            said = rule.measure.promql()
            measured = f"count({said} == {said})" if value is None else f"abs({said} - {value!r}) < bool 1e-9"
            one = [] if value is None else [{"labels": "{}", "value": 1}]
            wanted.append({"expr": f"sum({measured})", "eval_time": f"{at}s", "exp_samples": one})
    return {"interval": f"{STEP_S}s", "input_series": input_series(samples), "promql_expr_test": wanted}


@pytest.mark.parametrize("act", [*FIRES, anything], ids=lambda act: act.__name__)
def test_states_and_values_are_those_of_prometheus_at_every_evaluation(act: Act, tmp_path: Path) -> None:
    assert promtool_says(tmp_path, render_rules(RULES, BASELINE), [promtool_test(act)]) == ""


@pytest.mark.parametrize("expression", ["ALERTS", "sum"])
def test_the_tool_disagrees_when_one_state_or_value_is_another(expression: str, tmp_path: Path) -> None:
    test = promtool_test(full_for_a_while)
    one = next(
        one for one in test["promql_expr_test"] if one["expr"].startswith(expression) and len(one["exp_samples"]) == 1
    )
    one["exp_samples"][0]["value"] = 0
    assert expression in promtool_says(tmp_path, render_rules(RULES, BASELINE), [test])


@pytest.mark.parametrize("act", FIRES, ids=lambda act: act.__name__)
def test_each_story_fires_what_it_is_about_and_nothing_else(act: Act) -> None:
    assert set(firing(act)) == FIRES[act]


def test_a_full_pool_fires_after_five_minutes_and_resolves() -> None:
    (at,) = firing(full_for_a_while).values()
    assert (at[0], at[-1]) == (15, 19.75)


def test_an_event_fires_at_once_and_for_ten_minutes() -> None:
    (at,) = firing(memory_runs_out).values()
    assert at[0] == 12
    assert {12 + 10, 13.5 + 10 - 0.25, 50} <= set(at) and not {24, 40, 49.75} & set(at)


def test_an_engine_that_begins_anew_makes_no_negative_rates() -> None:
    for _, states in story(the_engine_begins_anew)[1]:
        assert all(one.value is None or one.value >= 0 for name, one in states.items() if "Waiting" not in name)


def test_without_a_baseline_a_rule_says_so_and_never_that_all_is_well(tmp_path: Path) -> None:
    missing = {"TTFTRegression", "TPOTRegression", "PrefixCacheHitDrop"}
    for act in (all_is_well, first_tokens_come_late, nothing_happens):
        samples = scrapes(NO_BASELINE, 60, act)
        for _, states in replay(NO_BASELINE, samples, times_of(samples)[::8]):
            assert {name for name, one in states.items() if one.state == "no baseline"} == missing
    text = render_rules(NO_BASELINE, Baseline("No baseline yet."))
    alerts = {rule["alert"]: rule for rule in yaml.safe_load(text)["groups"][0]["rules"]}
    assert not missing & set(alerts)
    for name in missing:
        assert "No baseline yet." in alerts[f"{name}NoBaseline"]["annotations"]["description"]
    always = [
        {"labels": f'ALERTS{{alertname="{name}NoBaseline", alertstate="firing", severity="info"}}', "value": 1}
        for name in missing
    ]
    test = {"interval": "15s", "input_series": [{"series": "up", "values": "1x4"}]}
    wanted = {"promql_expr_test": [{"expr": "ALERTS", "eval_time": "1m", "exp_samples": always}]}
    assert promtool_says(tmp_path, text, [{**test, **wanted}]) == ""


def test_thresholds_are_settings_and_are_written_out() -> None:
    settings = Settings(alert_kv_usage=0.5, alert_ttft_factor=2.0, alert_hit_margin=0.3, alert_min_replies=3)
    rules = {rule.name: rule for rule in rules_for(settings, BASELINE)}
    assert rules["HighKVCacheUsage"].expression == "pagedchat_kv_cache_usage_perc > 0.5"
    assert rules["TTFTRegression"].threshold == 0.5
    assert rules["TTFTRegression"].expression.endswith(" >= 3")
    assert rules["PrefixCacheHitDrop"].threshold == pytest.approx(0.5)
    text = render_rules(tuple(rules.values()), BASELINE)
    assert "usual is 80 %, the limit 50 %" in " ".join(text.split())


def test_a_limit_lies_beyond_the_bucket_that_has_the_baseline() -> None:
    for baseline, limit in ((0.12, 0.25), (0.24, 0.312), (0.5, 0.65), (5000.0, 6500.0)):
        rules = {rule.name: rule for rule in rules_for(Settings(), Baseline("", ttft_p95_s=baseline))}
        assert rules["TTFTRegression"].threshold == pytest.approx(limit)


def test_every_series_that_the_rules_read_is_one_that_prometheus_gets() -> None:
    text = generate_latest(EngineCollector(blank_metrics())).decode()  # type: ignore[arg-type]
    given = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    for rule in RULES:
        read = set(re.findall(r"pagedchat_\w+", rule.expression))
        assert read and read <= given
        assert set(re.findall(r"without \((\w+)\)", rule.expression)) <= {METRICS["oom_total"].label}


def test_a_quantile_beyond_the_last_bucket_is_the_last_bound_and_of_nothing_it_is_nan() -> None:
    assert bucket_quantile(0.95, [(1.0, 0.0), (2.0, 1.0), (float("inf"), 100.0)]) == 2.0
    assert bucket_quantile(0.5, [(1.0, 10.0), (float("inf"), 10.0)]) == 0.5
    assert bucket_quantile(0.5, [(1.0, 0.0), (float("inf"), 0.0)]) != bucket_quantile(0.5, [])
    assert quantile_of(0.95, []) is None
    assert increase_of([(0.0, 3.0)], 0.0, 60.0) is None
    assert increase_of([(0.0, 5.0), (60.0, 2.0)], 0.0, 60.0) == 2.0


def test_a_kill_is_told_as_a_likely_lack_of_memory_and_a_restart_names_the_log():
    rules = {rule.name: rule for rule in rules_for(Settings(), BASELINE, "/logs/engine.log")}
    assert "/logs/engine.log says more" in rules["EngineRestarted"].describe("1")
    memory = rules["OutOfMemory"]
    assert "most likely" in memory.title and "killed, which most likely means" in memory.describe("1")
