"""The launch checklist: what counts as evidence, what is stale, and when one may launch."""

from __future__ import annotations

import copy
import http.server
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pagedchat.app.instance import InstanceLock
from pagedchat.app.operate.check import PARTS, PHASES, Checklist, Line, check_everything
from pagedchat.app.operate.check_command import age, text_lines
from pagedchat.app.operate.evidence import staleness
from pagedchat.app.operate.known_good import KnownGood, KnownGoodStore
from pagedchat.app.operate.snapshot import configuration_snapshot
from pagedchat.app.settings import Configuration, load_configuration
from pagedchat.app.watch.baseline import baseline_key
from pagedchat.app.watch.baseline_file import save_bench_baseline
from support.command import pagedchat


def now() -> datetime:
    """This moment in UTC."""
    return datetime.now(UTC)


INFO = {
    "model": "tiny",
    "fingerprint": "f1",
    "device": "cpu",
    "dtype": "bfloat16",
    "kernels": "numba",
    "block_size": 16,
    "num_blocks": 512,
    "max_model_len": 8192,
    "max_num_seqs": 32,
}
METRICS = "# HELP x y\npagedchat_num_requests_running 0.0\npagedchat_engine_restarts_total {restarts}\n"


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    for name in list(os.environ):
        if name.startswith("PAGEDCHAT_"):
            monkeypatch.delenv(name)
    return load_configuration({"data_dir": tmp_path})


def phase(name: str, **changes: Any) -> dict[str, Any]:
    spread = {"p50": 300.0, "p95": 900.0, "p99": 1500.0}
    whole = {
        "target": "pagedchat",
        "phase": name,
        "requests": 20,
        "errors": 0,
        "good_share": 0.99,
        "prompt_tokens": spread,
        "reply_tokens": spread,
        "ttft_p95_ms": 400.0,
        "running_peak": 8,
        "waiting_peak": 0,
        "cached_total": 600,
        "prompt_total": 1000,
    }
    return {**whole, **changes}


def serve_result(configuration: Configuration, **changes: dict[str, Any]) -> dict[str, Any]:
    """A result of ``bench serve``; ``changes`` by phase."""
    phases = [phase(name, **changes.get(name.replace("-", "_"), {})) for name in PHASES]
    return {
        "name": "serve",
        "configuration": configuration_snapshot(configuration.settings, INFO),
        "parameters": {"load": {"name": "mine"}, "slo": {"ttft": 1000.0}},
        "figures": {"phases": phases, "all": [phase("all", **changes.get("all", {}))]},
        "started": (now() - timedelta(hours=3)).isoformat(timespec="seconds"),
    }


def doctor_result(configuration: Configuration, **figures: Any) -> dict[str, Any]:
    found = {
        "model": {"state": "ok", "path": "/m/tiny.gguf", "said": ""},
        "kernels": {"kernels": "numba", "device": "cpu", "reason": "compiled"},
        "folders": [{"path": "/data", "writable": True, "free": 50 << 30}],
    }
    snapshot = configuration_snapshot(configuration.settings, INFO)
    started = now().isoformat(timespec="seconds")
    return {"name": "doctor", "configuration": snapshot, "figures": {**found, **figures}, "started": started}


def regress_result(configuration: Configuration, *passed: bool) -> dict[str, Any]:
    """A result of ``bench regress`` with a way to serve for each verdict."""
    return {
        "name": "regress",
        "configuration": configuration_snapshot(configuration.settings, INFO),
        "figures": {"passed": all(passed), "combinations": [{"passed": one} for one in passed]},
        "started": now().isoformat(timespec="seconds"),
    }


def keep(configuration: Configuration, result: dict[str, Any], stamp: str = "20260101T000000") -> Path:
    folder = configuration.folders.state / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['name']}-{stamp}.json"
    path.write_text(json.dumps(result))
    return path


def keep_everything(configuration: Configuration) -> None:
    """Evidence for every line that needs no server."""
    keep(configuration, serve_result(configuration))
    keep(configuration, doctor_result(configuration))
    keep(configuration, regress_result(configuration, True, True))
    store = KnownGoodStore(configuration.folders.state)
    store.save(KnownGood(configuration.kept(), None, None, now().isoformat(timespec="seconds")))
    configuration.folders.logs.mkdir(parents=True, exist_ok=True)
    (configuration.folders.logs / "pagedchat.log").write_text("x")
    save_bench_baseline(configuration.folders, baseline_key(INFO, configuration.settings), 0.4, 0.02, 0.5)


def by_title(found: Checklist) -> dict[str, Line]:
    return {line.title: line for line in found.lines}


def checked(configuration: Configuration) -> dict[str, Line]:
    return by_title(check_everything(configuration))


def test_an_empty_folder_passes_nothing_and_is_not_touched(configuration, tmp_path):
    found = check_everything(configuration)

    assert {line.state for line in found.lines} == {"not measured"}
    assert {line.part for line in found.lines} == set(PARTS)
    assert all(part in found.why_not for part in PARTS)
    assert list(tmp_path.iterdir()) == []


def test_with_all_evidence_one_may_launch_and_every_line_names_its_file_and_age(configuration):
    keep_everything(configuration)

    found = check_everything(configuration)

    assert found.why_not == ""
    passed = [line for line in found.lines if line.state == "pass"]
    assert all(line.evidence and line.age_s is not None and Path(line.evidence).exists() for line in passed)
    waiting = {line.title for line in found.lines if line.state == "not measured"}
    assert waiting == {"metrics", "engine restarts", "alerts"}, "only a server that runs can show these"
    cold = by_title(found)["cold phase"]
    assert cold.age_s is not None and 3 * 3600 <= cold.age_s < 3 * 3600 + 60
    told = "\n".join(text_lines(found))
    folder = f"{configuration.folders.state}{os.sep}"
    assert f"[{cold.evidence}".replace(folder, "") + ", 3 hours old]" in told
    assert told.count(str(folder)) == 1, "the folder is named once"
    assert "99% of the requests within TTFT 1,000 ms; 95% are needed" in told


@pytest.mark.parametrize(
    ("where", "change", "title"),
    [
        ("burst", {"errors": 2}, "burst phase"),
        ("all", {"good_share": 0.5}, "goals of latency"),
        ("all", {"prompt_tokens": {"p50": 1.0, "p95": 7000.0, "p99": 8000.0}}, "longest chats fit"),
        ("all", {"running_peak": 32, "waiting_peak": 9}, "users at once"),
    ],
)
def test_a_load_that_did_not_go_well_fails_its_line_and_the_launch(configuration, where, change, title):
    keep_everything(configuration)
    keep(configuration, serve_result(configuration, **{where: change}), "20260102T000000")

    found = check_everything(configuration)

    assert by_title(found)[title].state == "fail"
    assert found.why_not == f"Not ready: 1 failed ({title})."


def test_replies_that_differ_from_the_regression_set_fail(configuration):
    keep_everything(configuration)
    keep(configuration, regress_result(configuration, True, False), "20260102T000000")

    line = checked(configuration)["same answers"]

    assert (line.state, line.reason) == ("fail", "2 ways to serve the regression set, 1 wrong")


@pytest.mark.parametrize(
    ("figures", "title"),
    [
        ({"model": {"state": "damaged", "said": "It is damaged."}}, "model file"),
        ({"kernels": {"kernels": "reference", "device": "cpu", "reason": "no Numba"}}, "kernels"),
        ({"folders": [{"path": "/d", "writable": False, "free": None}]}, "folders and room"),
    ],
)
def test_what_the_doctor_found_wrong_fails(configuration, figures, title):
    keep_everything(configuration)
    keep(configuration, doctor_result(configuration, **figures), "20260102T000000")

    assert checked(configuration)[title].state == "fail"


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("settings", {"max_num_seqs": 8}, "max_num_seqs 8, now 32"),
        ("program", {"pagedchat": "0.0.1"}, "pagedchat 0.0.1, now"),
        ("machine", {"processor": "another"}, "processor another, now"),
        ("packages", {"torch": "1.0"}, "torch 1.0, now"),
    ],
)
def test_evidence_of_another_configuration_is_stale_and_says_why(configuration, part, change, reason):
    keep_everything(configuration)
    for path in (configuration.folders.state / "bench").iterdir():
        path.unlink()
    result = serve_result(configuration)
    result["configuration"][part] |= change
    keep(configuration, result)

    line = checked(configuration)["steady phase"]

    assert line.state == "not measured" and line.reason.startswith("stale: ") and reason in line.reason
    assert line.evidence is not None and check_everything(configuration).why_not


def test_another_model_is_stale_by_its_fingerprint(configuration):
    now = configuration_snapshot(configuration.settings, INFO)
    then = copy.deepcopy(now)
    assert staleness(then, now) == ""
    then["model"] = {"name": "tiny", "fingerprint": "f2"}
    assert "another model" in staleness(then, now)
    assert staleness({**now, "model": {}}, now) == "it does not say which model was measured"
    assert staleness(now, {**now, "model": {"name": "tiny"}}) == "", "names count where contents are not known"


def test_older_evidence_counts_when_the_newest_is_stale(configuration):
    keep_everything(configuration)
    stale = serve_result(configuration, burst={"errors": 3})
    stale["configuration"]["settings"]["num_blocks"] = 7
    keep(configuration, stale, "20260109T000000")

    assert checked(configuration)["burst phase"].state == "pass"


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"name": "serve"}', '{"name": "serve", "configuration": {}}'])
def test_files_that_hold_no_whole_result_are_no_evidence(configuration, content):
    folder = configuration.folders.state / "bench"
    folder.mkdir(parents=True)
    (folder / "serve-20260101T000000.json").write_text(content)

    assert checked(configuration)["cold phase"].state == "not measured"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("serve", {"figures": {"all": [{"phase": "all", "prompt_tokens": 5, "running_peak": "many"}]}}),
        (
            "serve",
            {"figures": {"phases": [{"phase": "cold", "requests": 3, "errors": 0, "ttft_p95_ms": []}], "all": 1}},
        ),
        ("serve", {"parameters": [1]}),
        ("doctor", {"figures": {"model": 5}}),
        ("doctor", {"figures": {"folders": [{}]}}),
        ("doctor", {"configuration": {"settings": [], "model": 5}}),
    ],
)
def test_results_of_another_shape_never_pass_and_never_raise(configuration, name, change):
    keep_everything(configuration)
    made = serve_result if name == "serve" else doctor_result
    keep(configuration, {**made(configuration), **change})

    found = check_everything(configuration)

    assert found.why_not
    assert json.dumps([line.state for line in found.lines])


def test_a_look_without_a_model_says_why_nothing_is_measured(configuration):
    result = doctor_result(configuration, model={"state": "missing", "said": "It is not here yet."})
    keep(configuration, {**result, "configuration": configuration_snapshot(configuration.settings)})
    found = checked(configuration)
    for title in ("model file", "kernels", "folders and room", "no unknown settings"):
        assert found[title].state == "not measured"
        assert found[title].reason == "no model answered when the doctor looked: It is not here yet."


def test_kernels_that_were_still_being_compiled_are_not_measured(configuration):
    kernels = {"kernels": "reference", "device": "cpu", "reason": "compiling", "compiling": True}
    keep(configuration, doctor_result(configuration, kernels=kernels))
    line = checked(configuration)["kernels"]
    assert line.state == "not measured" and "still being compiled" in line.reason


def test_a_configuration_that_has_not_answered_yet_is_not_measured(configuration, tmp_path):
    keep_everything(configuration)
    other = load_configuration({"data_dir": tmp_path, "num_blocks": 99})

    line = checked(other)["has answered"]

    assert line.state == "not measured" and "num_blocks" in line.reason


def test_unknown_variables_fail_their_line(configuration, tmp_path, monkeypatch):
    keep_everything(configuration)
    monkeypatch.setenv("PAGEDCHAT_COLOUR", "red")

    line = checked(load_configuration({"data_dir": tmp_path}))["no unknown settings"]

    assert line.state == "fail" and "PAGEDCHAT_COLOUR" in line.reason


def test_a_guessed_load_is_not_ones_own(configuration):
    result = serve_result(configuration)
    result["parameters"]["load"]["name"] = "chat"
    keep(configuration, result)

    assert checked(configuration)["the load is one's own"].state == "not measured"


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that runs: health, metrics and alerts as a test wants them."""

    told: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        text = self.told.get(self.path)
        self.send_response(404 if text is None else 200)
        self.end_headers()
        self.wfile.write((text or "{}").encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(configuration: Configuration) -> Iterator[type[Answers]]:
    served = type("Served", (Answers,), {"told": {"/health": json.dumps({"status": "ok", **INFO})}})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
    port = running.server_address[1]
    lock = InstanceLock(configuration.folders.data)
    lock.take(0)
    lock.publish(port, f"http://127.0.0.1:{port}")
    yield served
    lock.release()
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    ("restarts", "alert", "states"),
    [
        (0, "ok", ("pass", "pass", "pass")),
        (2, "ok", ("pass", "fail", "pass")),
        (0, "firing", ("pass", "pass", "fail")),
        (None, None, ("fail", "not measured", "not measured")),
    ],
)
def test_a_server_that_runs_shows_metrics_restarts_and_alerts(configuration, server, restarts, alert, states):
    if restarts is not None:
        server.told["/metrics"] = METRICS.format(restarts=float(restarts))
        server.told["/api/alerts"] = json.dumps({"alerts": [{"title": "KV is nearly full", "state": alert}]})

    found = checked(configuration)

    assert tuple(found[title].state for title in ("metrics", "engine restarts", "alerts")) == states
    assert found["metrics"].evidence.endswith("/metrics")


def test_the_settings_of_the_server_that_runs_count_unless_flags_are_given(configuration, server):
    started = replace(configuration, settings=configuration.settings.model_copy(update={"max_num_seqs": 4}))
    keep(started, serve_result(started))
    assert "max_num_seqs 4, now 32" in checked(configuration)["cold phase"].reason
    server.told["/api/config"] = json.dumps({"settings": started.settings.model_dump(mode="json")})

    assert checked(configuration)["cold phase"].state == "pass"
    typed = load_configuration({"data_dir": configuration.folders.data, "max_num_seqs": 32})
    assert checked(typed)["cold phase"].state == "not measured"


def test_the_command_ends_with_1_and_prints_json(tmp_path):
    result = pagedchat("check", "--json", "--data-dir", str(tmp_path))

    assert result.returncode == 1 and "an unmeasured part never passes" in result.stderr
    told = json.loads(result.stdout)
    assert told["ready"] is False and {"part", "title", "state", "reason", "evidence", "age_s"} == set(told["lines"][0])


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, "of unknown age"), (5, "just now"), (61, "1 minute old"), (200_000, "2 days old")]
)
def test_ages_are_in_their_largest_unit(seconds, expected):
    assert age(seconds) == expected
