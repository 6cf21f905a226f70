"""The launch checklist: is it known what will be asked of this server, was that tried, is it set up, is it watched?

Every line rests on evidence: a result in the state folder, a file, or the server that runs. Without evidence a line is
not measured, never a pass.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from ...engine.errors import PagedChatError
from ...sessions.wording import counted
from ..instance import RunningServer, ask, ask_json, running_server
from ..log import log_file
from ..settings import Configuration
from ..terminal import local_time
from .evidence import Evidence, EvidenceFolder, age_of
from .known_good import KnownGoodStore, files_of
from .running import configuration_in_force, running_info
from .snapshot import configuration_snapshot

State = Literal["pass", "fail", "not measured"]
PARTS = ("load model", "load tests", "configuration", "monitoring")
PHASES = ("cold", "steady", "burst", "long-output")
GIB = 1 << 30
GOOD_SHARE = 0.95
"""Of the requests, that a load within its goals of latency serves in time."""
METRIC = re.compile(r"^pagedchat_(\w+?)(?:\{[^}]*\})? ([0-9.eE+-]+|NaN)$", re.MULTILINE)
_SERVE = "`pagedchat bench serve` measures it"
_REGRESS = "`pagedchat bench regress` measures it"
_DOCTOR = "`pagedchat doctor` looks at it"
_START = "start the server and check again"


@dataclass(frozen=True)
class Line:
    """One line of the checklist.

    Attributes:
        evidence: the file or address that shows it; None where there is none.
        age_s: seconds since that was written; None without it.
    """

    part: str
    title: str
    state: State
    reason: str
    evidence: str | None = None
    age_s: float | None = None


@dataclass
class Checklist:
    """All lines, and whether one may launch."""

    lines: list[Line] = field(default_factory=list)

    @property
    def why_not(self) -> str:
        """Why not to launch, in a sentence; "" if nothing speaks against it."""
        failed = [line.title for line in self.lines if line.state == "fail"]
        if failed:
            return f"Not ready: {len(failed)} failed ({', '.join(failed)})."
        empty = [part for part in PARTS if not any(one.part == part and one.state == "pass" for one in self.lines)]
        if empty:
            return f"Not ready: nothing is measured in {', '.join(empty)}; an unmeasured part never passes."
        return ""


@dataclass(frozen=True)
class Known:
    """What the lines are made of."""

    configuration: Configuration
    snapshot: dict[str, Any]
    evidence: EvidenceFolder
    server: RunningServer | None
    now: datetime


def check_everything(configuration: Configuration, now: datetime | None = None) -> Checklist:
    """Go through the list. Looks only; a server that runs is asked for its settings, health, metrics and alerts."""
    now = now or datetime.now(UTC)
    server = running_server(configuration.folders.data)
    configuration = configuration_in_force(configuration, server)
    snapshot = configuration_snapshot(configuration.settings, _info(configuration, server))
    evidence = EvidenceFolder(configuration.folders.state / "bench", snapshot, now)
    known = Known(configuration, snapshot, evidence, server, now)
    parts = (_load_model(known), _load_tests(known), _configured(known), _monitored(known))
    return Checklist([line for part, lines in zip(PARTS, parts, strict=True) for line in _understood(part, lines)])


def _understood(part: str, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines of a part; evidence of another shape than ours fails it, in place of the lines that it would show."""
    try:
        yield from lines
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"a result among them cannot be understood ({type(error).__name__}): move it away and measure anew"
        yield Line(part, "evidence", "fail", reason)


# -- load model: what will be asked ----------------------------------------------------------------------------------


def _load_model(known: Known) -> Iterator[Line]:
    part, found = "load model", known.evidence.newest("serve")
    whole = _phase(found, "all") or _phase(found, "steady")
    titles = ("lengths of prompts and replies", "longest chats fit", "users at once", "reuse of prompts")
    if found is None or found.stale or not whole:
        yield from (_unmeasured(part, title, found, _SERVE) for title in ("the load is one's own", *titles))
        return
    yield _own_load(part, found)
    prompt, reply = whole.get("prompt_tokens") or {}, whole.get("reply_tokens") or {}
    if None in (prompt.get("p95"), reply.get("p95")):
        yield _unmeasured(part, titles[0], found, _SERVE)
    else:
        words = f"prompts {_spread(prompt)}, replies {_spread(reply)} tokens"
        yield _line(part, titles[0], True, words, found)
    yield _fits(part, titles[1], found, prompt, reply)
    running, seats = whole.get("running_peak"), known.configuration.settings.max_num_seqs
    if running is None:
        yield _unmeasured(part, titles[2], found, _SERVE)
    else:
        waited = whole.get("waiting_peak") or 0
        words = f"at most {running} ran at once and {waited} waited; there are {seats} seats"
        yield _line(part, titles[2], running < seats or not waited, words, found)
    cached, total = whole.get("cached_total"), whole.get("prompt_total")
    if cached is None or not total:
        yield _unmeasured(part, titles[3], found, _SERVE)
    else:
        yield _line(part, titles[3], True, f"{cached / total:.0%} of the prompt tokens were cached", found)


def _own_load(part: str, found: Evidence) -> Line:
    from ..bench.loads import BUILT_IN

    title, load = "the load is one's own", (found.result.get("parameters") or {}).get("load") or {}
    name = load.get("name") if isinstance(load, dict) else load
    if name in BUILT_IN:
        reason = f"the load {name} is a guess; `pagedchat sessions stats --load-profile FILE` makes one of your chats"
        return Line(part, title, "not measured", reason, str(found.path), found.age_s)
    return _line(part, title, True, f"measured with {name}", found)


def _fits(part: str, title: str, found: Evidence, prompt: dict[str, Any], reply: dict[str, Any]) -> Line:
    engine = (found.result.get("configuration") or {}).get("engine") or {}
    known = [engine.get(name) for name in ("max_model_len", "num_blocks", "block_size")]
    ends = [spread.get("p99") for spread in (prompt, reply)]
    if None in (*known, *ends):
        return _unmeasured(part, title, found, _SERVE)
    limit, blocks, size = (int(value or 0) for value in known)
    longest, room = sum(value or 0.0 for value in ends), min(limit, blocks * size)
    return _line(part, title, longest <= room, f"P99 {longest:,.0f} tokens; {room:,} fit", found)


# -- load tests: was it tried ----------------------------------------------------------------------------------------


def _load_tests(known: Known) -> Iterator[Line]:
    part, found = "load tests", known.evidence.newest("serve")
    for name in PHASES:
        figures = _phase(found, name)
        if found is None or found.stale or not figures or not figures.get("requests"):
            yield _unmeasured(part, f"{name} phase", found, _SERVE)
            continue
        errors, ttft = figures.get("errors") or 0, figures.get("ttft_p95_ms")
        words = f"{counted(figures['requests'], 'request')}, {errors} failed"
        words += f", P95 TTFT {ttft:,.0f} ms" if isinstance(ttft, int | float) else ""
        yield _line(part, f"{name} phase", errors == 0, words, found)
    slo = ((found.result.get("parameters") or {}).get("slo") if found else None) or {}
    whole = _phase(found, "all") or _phase(found, "steady")
    share = whole.get("good_share")
    if found is None or found.stale or not slo or share is None:
        why = "`pagedchat bench serve --slo ttft=1000,itl=100` measures it"
        yield _unmeasured(part, "goals of latency", found, why)
    else:
        goals = " and ".join(f"{name.upper()} {limit:,.0f} ms" for name, limit in slo.items())
        words = f"{share:.0%} of the requests within {goals}; {GOOD_SHARE:.0%} are needed"
        yield _line(part, "goals of latency", share >= GOOD_SHARE, words, found)
    yield _same_answers(part, known.evidence.newest("regress"))


def _same_answers(part: str, found: Evidence | None) -> Line:
    passed = None if found is None else found.figures.get("passed")
    if found is None or found.stale or passed is None:
        return _unmeasured(part, "same answers", found, _REGRESS)
    ways = found.figures.get("combinations") or []
    wrong = sum(not one.get("passed") for one in ways)
    words = f"{counted(len(ways), 'way')} to serve the regression set, {wrong} wrong"
    return _line(part, "same answers", bool(passed), words, found)


# -- configuration: is it set up -------------------------------------------------------------------------------------


def _configured(known: Known) -> Iterator[Line]:
    part, found = "configuration", known.evidence.newest("doctor")
    yield _known_good(part, known)
    titles = ("model file", "kernels", "folders and room", "no unknown settings")
    model, kernels = (found.figures.get(name) or {} if found else {} for name in ("model", "kernels"))
    if found is not None and not (found.result.get("configuration") or {}).get("model"):
        said = model.get("said") or found.figures.get("speed_note")
        reason = f"no model answered when the doctor looked: {said}" if said else f"no model was asked: {_DOCTOR}"
        yield from (Line(part, title, "not measured", reason, str(found.path), found.age_s) for title in titles)
        return
    if found is None or found.stale:
        yield from (_unmeasured(part, title, found, _DOCTOR) for title in titles)
        return
    if model.get("state") == "missing":
        yield _unmeasured(part, "model file", found, model.get("said") or _DOCTOR)
    else:
        words = model.get("said") or f"{model.get('path')} loads and answers"
        yield _line(part, "model file", model.get("state") == "ok", words, found)
    yield _kernels(part, kernels, found)
    short = [row for row in found.figures.get("folders") or [] if not row["writable"] or (row["free"] or 0) < GIB]
    words = ", ".join(f"{row['path']} cannot be written or is nearly full" for row in short) or "all have room"
    yield _line(part, "folders and room", not short, words, found)
    unknown = known.configuration.warnings
    yield _line(part, "no unknown settings", not unknown, " ".join(unknown) or "every setting is known", found)


def _kernels(part: str, kernels: dict[str, Any], found: Evidence) -> Line:
    if kernels.get("compiling"):
        return Line(part, "kernels", "not measured", f"they were still being compiled: {_DOCTOR}", str(found.path))
    slow = kernels.get("kernels") == "reference" and kernels.get("device") == "cpu"
    words = f"{kernels.get('kernels')} on {kernels.get('device')}: {kernels.get('reason') or kernels.get('error')}"
    return _line(part, "kernels", bool(kernels.get("kernels")) and not slow, words, found)


def _known_good(part: str, known: Known) -> Line:
    title, store = "has answered", KnownGoodStore(known.configuration.folders.state)
    record = store.load()
    if record is None:
        return Line(part, title, "not measured", "no reply has finished yet with any configuration")
    age, path = age_of(record.answered_at, known.now), str(store.path)
    differs = record.differences(known.configuration.kept())
    if differs:
        listed = ", ".join(differs)
        return Line(part, title, "not measured", f"stale: what answered differs in {listed}", path, age)
    rollback = known.configuration.rollback
    words = f"this configuration answered{f', rolled back since {local_time(rollback.since)}' if rollback else ''}"
    return Line(part, title, "pass", words, path, age)


# -- monitoring: is it watched ---------------------------------------------------------------------------------------


def _monitored(known: Known) -> Iterator[Line]:
    part, server = "monitoring", known.server
    yield _baseline(part, known)
    log = log_file(known.configuration.folders.logs)
    found = files_of(log)
    if found is None:
        yield Line(part, "log", "not measured", "no log has been written yet")
    else:
        age = max(0.0, known.now.timestamp() - found[""][1] / 1e9)
        yield Line(part, "log", "pass", "it rotates and holds no text of chats", str(log), age)
    if server is None:
        for title in ("metrics", "engine restarts", "alerts"):
            yield Line(part, title, "not measured", f"no server runs: {_START}")
        return
    yield from _metrics(part, server)
    yield _alerts(part, server)


def _baseline(part: str, known: Known) -> Line:
    from ..watch.baseline import SETTING_FACTS, baseline_of
    from ..watch.baseline_file import BaselineFile

    title, file = "baseline", BaselineFile(known.configuration.folders.state)
    fingerprint = known.snapshot["model"].get("fingerprint")
    settings = known.snapshot["settings"]
    wanted = {name: settings[name] for name in SETTING_FACTS if name in settings}
    found = files_of(file.path)
    age = max(0.0, known.now.timestamp() - found[""][1] / 1e9) if found else None
    matching = [
        record
        for record in file.read().values()
        if fingerprint in (None, record.key.fingerprint)
        and all(record.key.facts.get(name) == value for name, value in wanted.items())
    ]
    for record in sorted(matching, key=lambda one: one.last_used, reverse=True):
        baseline = baseline_of(record, known.now.date())
        if baseline.ttft_p95_s is not None:
            return Line(part, title, "pass", baseline.words, str(file.path), age)
    advice = "`pagedchat bench serve --save-baseline` makes one"
    if found is None:
        return Line(part, title, "not measured", f"there is none yet: {advice}")
    return Line(part, title, "not measured", f"none for this model and configuration: {advice}", str(file.path), age)


def _metrics(part: str, server: RunningServer) -> Iterator[Line]:
    address, text = f"{server.url}/metrics", ""
    with suppress(PagedChatError):
        text = ask(server, "GET", "/metrics")[1].decode(errors="replace")
    values = {name: float(value) for name, value in METRIC.findall(text)}
    if "num_requests_running" not in values:
        yield Line(part, "metrics", "fail", "the server does not give them", address, 0.0)
        yield Line(part, "engine restarts", "not measured", "there are no metrics", address, 0.0)
        return
    yield Line(part, "metrics", "pass", f"{len(values)} figures", address, 0.0)
    restarts = int(values.get("engine_restarts_total", 0))
    words = f"{restarts} since the server started"
    yield Line(part, "engine restarts", "fail" if restarts else "pass", words, address, 0.0)


def _alerts(part: str, server: RunningServer) -> Line:
    address = f"{server.url}/api/alerts"
    try:
        status, answer = ask_json(server, "GET", "/api/alerts")
    except PagedChatError as error:
        return Line(part, "alerts", "fail", str(error), address, 0.0)
    if status != http.client.OK:
        return Line(part, "alerts", "not measured", "this server has no alert rules", address, 0.0)
    firing = [one["title"] for one in answer["alerts"] if one["state"] == "firing"]
    words = f"warned of: {'; '.join(firing)}" if firing else f"{len(answer['alerts'])} rules, none fires"
    return Line(part, "alerts", "fail" if firing else "pass", words, address, 0.0)


# -- helpers ---------------------------------------------------------------------------------------------------------


def _info(configuration: Configuration, server: RunningServer | None) -> dict[str, Any]:
    """What is known of the model in force: from the server that runs, else from what answered last, if it is that."""
    answer = running_info(server)
    if answer:
        return answer
    record = KnownGoodStore(configuration.folders.state).load()
    if record and record.model and not {"model", "model file"} & set(record.differences(configuration.kept())):
        return {"model": record.model.name, "fingerprint": record.model.fingerprint}
    return {}


def _phase(found: Evidence | None, name: str) -> dict[str, Any]:
    """The figures of one phase of our own server in a result of ``bench serve``; empty without them."""
    if found is None:
        return {}
    lists = [found.figures.get(part) for part in ("phases", "all")]
    rows = [row for listed in lists if isinstance(listed, list) for row in listed]
    ours = (row for row in rows if isinstance(row, dict) and row.get("phase") == name)
    return next((row for row in ours if str(row.get("target", "pagedchat")).startswith("pagedchat")), {})


def _line(part: str, title: str, good: bool, reason: str, found: Evidence) -> Line:
    return Line(part, title, "pass" if good else "fail", reason, str(found.path), found.age_s)


def _unmeasured(part: str, title: str, found: Evidence | None, advice: str) -> Line:
    if found is None:
        return Line(part, title, "not measured", advice)
    reason = f"stale: {found.stale}; {advice}" if found.stale else f"{found.path.name} has no figure for it; {advice}"
    return Line(part, title, "not measured", reason, str(found.path), found.age_s)


def _spread(figures: dict[str, Any]) -> str:
    return "/".join(f"{figures[name]:,.0f}" if figures.get(name) is not None else "-" for name in ("p50", "p95", "p99"))
