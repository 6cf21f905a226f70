"""The watch of a running server: a scrape every 15 s, an hour of them, the rules, and this machine's baseline.

    every 15 s    client.metrics() ─┬─ samples of the last hour ── evaluate ── states ── whoever watches
                                    └─ recorder
    every 5 min   recorder ── baseline.json
    when changed  baseline.json ── baseline ── thresholds of the rules

An engine that becomes ready, and a baseline that a command kept, are seen at once or with the next scrape.

Nothing here ends the server: a scrape that fails is one that is missing, a file that fails is told in the log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any

from ...engine.errors import PagedChatError
from ...engine.metric_catalogue import blank_metrics
from ...engine.supervisor import add_watcher
from ..background import in_thread
from .alert_view import alert_view, sentence
from .baseline import Baseline, baseline_key, baseline_of, utc_today
from .baseline_file import BaselineFile, Records
from .evaluate import AlertState, evaluate_all
from .promql import Sample, Series, series_of
from .recorder import BaselineRecorder
from .rules import ENGINE_LOG, Rule, rules_for, watched_names

if TYPE_CHECKING:
    from ...engine.status import EngineStatus
    from ..folders import Folders
    from ..settings import Settings
    from .baseline import BaselineKey

EVERY_S = 15.0
KEPT_S = 3600.0
ANSWER_S = 5.0
WRITE_EVERY = 20
"""Scrapes between two writes of the baselines."""
WRITE_AT_END_S = 1.0
NO_MODEL = Baseline("No baseline yet: no model runs.")
log = logging.getLogger(__name__)


class AlertWatch:
    """Samples, evaluates and remembers. All methods belong to one event loop.

    Attributes:
        settings: what the engine was asked for, and the thresholds; may be replaced while it runs.
    """

    def __init__(
        self,
        client: Any,
        settings: Settings,
        folders: Folders,
        *,
        now: Callable[[], float] = time.monotonic,
        today: Callable[[], date] = utc_today,
    ) -> None:
        """
        Args:
            client: has ``metrics()`` and ``status``, as ``EngineClient``.
            now: seconds on a clock that never goes back.
        """
        self.settings = settings
        self._client = client
        self._now, self._today = now, today
        self._file = BaselineFile(folders.state)
        self._recorder = BaselineRecorder(self._file)
        self._records: Records = {}
        self._stamp: tuple[int, int] | None = None
        self._info: dict[str, Any] = {}
        self._key: BaselineKey | None = None
        self._key_day: tuple[str, date] | None = None
        self._baseline = NO_MODEL
        self._log = folders.logs / ENGINE_LOG
        self._rules: tuple[Rule, ...] = rules_for(settings, NO_MODEL, self._log)
        self._samples = [Sample(now(), series_of(_nothing_yet(), watched_names(self._rules)))]
        self._states: dict[str, AlertState] = evaluate_all(self._rules, self._samples, now(), {})
        self._watchers: list[Callable[[], None]] = []
        self._trouble = ""
        self._due = asyncio.Event()
        self._was_ready = False

    # -- what others ask --------------------------------------------------------------------------------------------

    def view(self) -> dict[str, Any]:
        """All rules with their states, for the API and the page."""
        shift = time.time() - self._now()
        alerts = [alert_view(rule, self._states[rule.name], shift) for rule in self._rules]
        key = {"id": self._key.id, "model": self._key.model, "facts": dict(self._key.facts)} if self._key else None
        return {"baseline": {"words": self._baseline.words, "key": key}, "alerts": alerts}

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` when something that people are told has changed; the result ends that."""
        return add_watcher(self._watchers, callback)

    # -- its life ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch until cancelled, then write what was measured."""
        unwatch = self._client.watch_status(self._status_changed)
        try:
            await self.write()
            number = 0
            while True:
                await self.sample()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._due.wait(), EVERY_S)
                self._due.clear()
                number += 1
                if number % WRITE_EVERY == 0:
                    await self.write()
        finally:
            unwatch()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.write(), WRITE_AT_END_S)

    def _status_changed(self, status: EngineStatus) -> None:
        """An engine has become ready: what it is decides which baseline counts."""
        was_ready, self._was_ready = self._was_ready, status.state == "ready"
        if self._was_ready and not was_ready:
            self._due.set()

    async def sample(self) -> None:
        """One scrape and what follows from it."""
        if self._file.stamp() != self._stamp:
            await self._read()
        found = await self._scrape()
        try:
            self._add(Sample(self._now(), found))
            self._evaluate()
        except Exception as error:
            self._tell_once(f"the alerts failed ({type(error).__name__}: {error})")

    async def _scrape(self) -> Series:
        """The series of now; none if the engine's client cannot tell them."""
        try:
            metrics = await asyncio.wait_for(self._client.metrics(), ANSWER_S)
            self._find_key()
            self._recorder.take(metrics, self._key, self._today())
            return series_of(metrics, watched_names(self._rules))
        except (PagedChatError, TimeoutError):
            return {}
        except Exception as error:
            self._tell_once(f"a scrape for the alerts failed ({type(error).__name__}: {error})")
            return {}

    async def write(self) -> None:
        """Write what was measured, and read what counts from now on."""
        await self._renew(lambda: self._recorder.write(self._today()))

    async def _read(self) -> None:
        """Another process changed the file: read what counts from now on."""
        await self._renew(self._file.read)

    async def _renew(self, records: Callable[[], Records]) -> None:
        try:
            self._stamp, self._records = await in_thread(lambda: (self._file.stamp(), records()))
        except PagedChatError as error:
            self._tell_once(str(error))
        except Exception as error:
            self._tell_once(f"the baselines failed ({type(error).__name__}: {error})")
        self._key_day = None

    def _find_key(self) -> None:
        """An engine that starts again knows nothing of itself for a while: what ran last counts until then."""
        info = self._client.status.info
        if info and info is not self._info:
            self._info, self._key = info, baseline_key(info, self.settings)

    def _add(self, sample: Sample) -> None:
        self._samples.append(sample)
        while self._samples[0].time < sample.time - KEPT_S:
            del self._samples[0]

    def _evaluate(self) -> None:
        told = self._told()
        baseline, rules = self._find_baseline()
        self._states = evaluate_all(rules, self._samples, self._samples[-1].time, self._states)
        self._baseline, self._rules = baseline, rules
        if self._told() != told:
            for watcher in list(self._watchers):
                watcher()

    def _find_baseline(self) -> tuple[Baseline, tuple[Rule, ...]]:
        """Another model, another day, or a file that was read again: another baseline and other thresholds."""
        if self._key is None or self._key_day == (self._key.id, self._today()):
            return self._baseline, self._rules
        self._key_day = (self._key.id, self._today())
        baseline = baseline_of(self._records.get(self._key.id), self._today())
        return baseline, rules_for(self.settings, baseline, self._log)

    def _told(self) -> list[Any]:
        """What people are told: states, and the sentences of those that are not quiet."""
        states = [(rule, self._states[rule.name]) for rule in self._rules]
        loud = [sentence(rule, one) for rule, one in states if one.state in ("pending", "firing")]
        return [self._baseline.words, [one.state for _, one in states], loud]

    def _tell_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("%s", trouble)


def _nothing_yet() -> dict[str, Any]:
    """The totals when a server starts: what happens before the first scrape has happened since then."""
    return {**blank_metrics(), "gauges": {}}
