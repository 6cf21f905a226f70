"""Whether the configuration in force answers, and the way back to the one that did.

::

    start ──engine ready──> first reply ──done──> known good (kept)
      └── cannot start ──┬──── failed ──> a problem, told on terminal, log, /health and page
                         └── rollback ──> the engine starts again with the known good configuration; chats stay

Knows no HTTP and no page. Of chats it learns only that a reply has ended.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...engine.errors import ConfigError, ContextLengthError, EngineError, ModelFileError, PagedChatError
from ...engine.status import EngineStatus
from ...engine.types import RequestOutput
from ..background import in_thread
from ..model_store import DEFAULT_ALIAS, ModelStore
from ..settings import KEPT_FIELDS, Configuration, Settings, load_configuration, usual_folders
from ..terminal import local_time, say
from .known_good import KnownGood, KnownGoodStore, ModelRecord, model_record, utc_now

SHOWN_DIFFERENCES = 3
_FLAG = re.compile(r"--([a-z][a-z-]*)")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """What an engine is to be started with.

    Attributes:
        model: path of the model; None when the default one has to be fetched, and for a remote engine.
        engine_url: of a remote engine; None for the own one.
    """

    settings: Settings
    model: Path | None
    engine_url: str | None = None


class Recovery:
    """One server's knowledge of its configuration.

    Args:
        client: the engine's client; its requests' ends are watched.
        restart: starts the engine anew; returns when that has begun.
    """

    def __init__(
        self,
        client: Any,
        configuration: Configuration,
        models: ModelStore,
        target: Target,
        restart: Callable[[Target], Awaitable[None]],
    ) -> None:
        self.target = target
        self.problem: str | None = None
        self._client = client
        self._store = KnownGoodStore(configuration.folders.state)
        self._config_file = configuration.folders.config_file
        self._models = models
        self._restart = restart
        self._record = self._store.load()
        self._since = configuration.rollback.since if configuration.rollback else None
        self._answered = self._restarting = False
        self._expected: str | None = None
        self._changing = asyncio.Lock()
        self._saving: set[asyncio.Task[None]] = set()
        self._watchers: list[Callable[[], None]] = []
        client.watch_ends(self._reply_ended)
        client.watch_status(self._status_changed)

    # -- what others see --------------------------------------------------------------------------------------------

    def watch(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the problem or the way back has changed."""
        self._watchers.append(callback)

    def way_back(self) -> KnownGood | None:
        """The known good configuration, if it is another one than that in force."""
        return self._record if not self._answered and self._differences() else None

    def view(self) -> dict[str, Any]:
        """For /health and the page: ``problem``, ``way_back`` (when that configuration answered), ``rolled_back``
        (since when)."""
        back = self.way_back()
        return {
            "problem": self.problem,
            "way_back": back.answered_at if back else None,
            "rolled_back": self._since,
        }

    def start_failed(self, error: PagedChatError) -> str:
        """The engine cannot start: what to tell, with the way back; "" if there is none."""
        back = self.way_back()
        if back is not None and self.problem is None:
            log.error("the engine could not start; the configuration before it answered at %s", back.answered_at)
            self._set_problem(f"{error} {way_back_sentence(back, self._differences())}")
        return self.problem or ""

    # -- what happens -----------------------------------------------------------------------------------------------

    def _status_changed(self, status: EngineStatus) -> None:
        if status.state in ("restarting", "failed"):
            log.error("engine %s: %s", status.state, status.message)
        self._tell_of_restarts(status)
        if status.state == "ready" and self._expected not in (None, status.info.get("fingerprint")):
            self._expected = None
            say("pagedchat: The model's content differs from that of the configuration that answered.", sys.stderr)

    def _tell_of_restarts(self, status: EngineStatus) -> None:
        """On the terminal, where nothing else says that a running engine went away, and that it is back."""
        if status.state == "restarting":
            self._restarting = True
            say(f"pagedchat: {status.message}", sys.stderr)
        elif self._restarting:
            self._restarting = False
            if status.state in ("ready", "failed"):
                say(f"pagedchat: {status.message or 'The engine runs again.'}", sys.stderr)

    def _reply_ended(self, end: Any) -> None:
        """The first reply that finishes makes the configuration a good one; one that fails before is told."""
        if self._answered:
            return
        if isinstance(end, RequestOutput) and end.finish_reason in ("stop", "length"):
            self._answered = True
            self._set_problem(None)
            task = asyncio.get_running_loop().create_task(self._keep())
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)
        elif isinstance(end, RequestOutput):
            if end.finish_reason == "error":
                self._reply_failed(end.error or "")
        elif self._blames(end):
            self._reply_failed(str(end))

    def _reply_failed(self, reason: str) -> None:
        back = self.way_back()
        if back is None or self.problem is not None:
            return
        log.error("the first reply failed; the configuration before it answered at %s", back.answered_at)
        hint = way_back_sentence(back, self._differences())
        self._set_problem(f"The first reply with this configuration failed. {reason} {hint}".replace("  ", " "))
        say(f"pagedchat: {self.problem}", sys.stderr)

    def _blames(self, error: Any) -> bool:
        """Whether an error in the place of a reply may be the configuration's fault."""
        if isinstance(error, ContextLengthError):
            return self._holds_less()
        return isinstance(error, EngineError) and self._client.status.state != "failed"

    def _holds_less(self) -> bool:
        """Whether the longest chat that fits is shorter than with the known good configuration."""
        before = _capacity(self._record.snapshot.get("engine") or {}) if self._record else None
        now = _capacity(self._client.status.info)
        return before is not None and now is not None and now < before

    async def _keep(self) -> None:
        """Keep the configuration in force as the known good one."""
        info, target = self._client.status.info, self.target

        def save() -> KnownGood:
            from .snapshot import configuration_snapshot  # not needed for the start

            path = info.get("model_path") or target.model
            model = model_record(Path(path), info) if path and target.engine_url is None else None
            settings = target.settings.model_dump(mode="json", include=set(KEPT_FIELDS))
            snapshot = configuration_snapshot(target.settings, info)
            return self._store.save(KnownGood(settings, model, target.engine_url, utc_now(), snapshot))

        try:
            self._record = await in_thread(save)
        except OSError as error:
            log.warning("the known good configuration could not be kept: %s", error.strerror)

    def _set_problem(self, problem: str | None) -> None:
        if problem != self.problem:
            self.problem = problem
            for watcher in list(self._watchers):
                watcher()

    def _differences(self) -> dict[str, tuple[Any, Any]]:
        if self._record is None:
            return {}
        settings = self.target.settings.model_dump(mode="json", include=set(KEPT_FIELDS))
        return self._record.differences(settings, self.target.engine_url)

    # -- going back -------------------------------------------------------------------------------------------------

    async def rollback(self) -> str:
        """Start the engine with the known good configuration, now and at later starts; a sentence that says so.

        Raises:
            PagedChatError: there is no known good configuration, its model is gone, or nothing can be noted.
        """
        async with self._changing:
            record = self._store.require()
            settings = self.target.settings.model_copy(update=record.settings)
            target = Target(settings, find_model(record, self._models), record.engine_url)
            state = self._client.status.state
            if state != "failed" and (target == self.target or not self._differences()):
                doing = "already runs" if state == "ready" else "is starting"
                return f"pagedchat {doing} with {described(record)}; there is nothing to go back from."
            rollback = self._store.begin_rollback(self._config_file)
            self.target = target
            self._record, self._since, self._answered = record, rollback.since, False
            self._expected = record.model.fingerprint if record.model else None
            self._set_problem(None)
            log.info("going back to the configuration that answered at %s", record.answered_at)
            await self._restart(self.target)
            return f"pagedchat goes back to {described(record)}; the engine is starting with it."


def _capacity(engine: dict[str, Any]) -> int | None:
    """Tokens of the longest chat that fits, by what an engine says of itself."""
    known = [engine.get(name) for name in ("max_model_len", "num_blocks", "block_size")]
    if not all(isinstance(value, int) for value in known):
        return None
    limit, blocks, size = (int(value or 0) for value in known)
    return min(limit, blocks * size)


def resolve_model(configuration: Configuration, models: ModelStore) -> Path | None:
    """Where the model of a configuration is, as it was where a rollback chose it; None when it has to be fetched.

    Raises:
        ModelFileError: there is no such model, and it cannot be fetched.
    """
    settings, rollback = configuration.settings, configuration.rollback
    if rollback is not None and settings.model == rollback.record.settings.get("model"):
        return find_model(rollback.record, models)
    return models.resolve(settings.model)


def find_model(record: KnownGood, models: ModelStore) -> Path | None:
    """Where the model of a known good configuration is; None when it has to be fetched again, or is remote.

    Raises:
        ModelFileError: it is gone, and cannot be fetched.
    """
    if record.model is None:
        return None
    place = record.model.place()
    if place is not None:
        return place
    if record.settings.get("model") in (DEFAULT_ALIAS, models.default.name, models.default.file_name):
        return None
    raise ModelFileError(
        f"The model of {described(record)} is gone: {_size_sentence(record.model)}; put that file back, or give "
        "another one with --model."
    )


def way_back_sentence(record: KnownGood, differences: dict[str, tuple[Any, Any]]) -> str:
    """What ``pagedchat rollback`` would do, and what it would change."""
    shown = [f"{name} ({_shown(old)}, now {_shown(new)})" for name, (old, new) in differences.items()]
    more = len(shown) - SHOWN_DIFFERENCES
    listed = ", ".join(shown[:SHOWN_DIFFERENCES]) + (f" and {more} more" if more > 0 else "")
    differs = f", which differs in {listed}" if listed else ""
    return f"`pagedchat rollback` returns to {described(record)}{differs}."


def described(record: KnownGood) -> str:
    """A known good configuration in words."""
    return f"the configuration that answered on {local_time(record.answered_at)}"


def load_or_way_back(flags: dict[str, Any]) -> Configuration:
    """`load_configuration` for serve's flags.

    Raises:
        ConfigError: with the way back, where there is one and no flag is to blame.
    """
    try:
        return load_configuration(flags)
    except ConfigError as error:
        given = [name for name, value in flags.items() if value not in (None, [], ())]
        raise with_way_back(error, usual_folders(flags).state, given) from error


def with_way_back(error: PagedChatError, state: Path, flags: Collection[str]) -> PagedChatError:
    """The same error, with the way back where there is one: not where one of the ``flags`` just given is to blame."""
    record = KnownGoodStore(state).load()
    named = {name.replace("-", "_") for name in _FLAG.findall(str(error))}
    if record is None or named & set(flags):
        return error
    return type(error)(f"{error} {way_back_sentence(record, {})}")


def _size_sentence(model: ModelRecord) -> str:
    if len(model.files) == 1 and "" in model.files:
        return f"{model.path} is not the file of {model.files[''][0]:,} bytes that it was"
    return f"the files in {model.path} are not what they were"


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
