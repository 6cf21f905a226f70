"""The life of ``pagedchat serve``: one start at a time, engine first, page beside it, and a clean end.

    lock ── model known? ── sessions ── port ─┬─ fetch the model ── engine process (loads on its own)
                                              └─ import the page ── answer ── "ready" ── until a signal

The engine process is spawned before the page is imported, so both load at the same time.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn

from ..engine.client import EngineClient
from ..engine.errors import ConfigError, ModelFileError, PagedChatError
from ..sessions.chat_service import ChatService
from ..sessions.schema import upgrade_notice
from ..sessions.store import SessionStore
from . import browser, ports
from .background import in_thread, leave_after
from .backup_watch import BackupWatch
from .engine_start import EngineStart
from .folders import Folders, can_write
from .installation import Installation
from .instance import InstanceLock, RunningServer
from .log import log_file, start_log
from .model_store import ModelStore
from .operate.known_good import KnownGoodStore
from .operate.recovery import Recovery, Target, described, resolve_model, with_way_back
from .settings import Configuration, Settings
from .terminal import say
from .watch.sampler import AlertWatch

if TYPE_CHECKING:
    from fastapi import FastAPI

OTHER_START_S = 30.0
STOP_S = 4.5
SAVE_S = 2.0
DRAIN_S = 1
BROWSER_S = 5.0
PAGE_ANSWER_S = 10.0
log = logging.getLogger(__name__)


def run(configuration: Configuration) -> int:
    """Serve until a signal comes.

    Returns:
        The exit code.

    Raises:
        PagedChatError: if the server cannot start; everything it took is given back.
    """
    settings, folders = configuration.settings, configuration.folders
    ports.check_host(settings.host)
    try:
        settings.engine_config("")
    except ConfigError as error:
        flags = [name for name, origin in configuration.origins.items() if origin == "flag"]
        raise with_way_back(error, folders.state, flags) from error
    folders.create_data()
    lock = InstanceLock(folders.data)
    running = lock.take(OTHER_START_S)
    if running is not None:
        return _join(running, settings)
    try:
        models = ModelStore(folders.models)
        _tell_of(configuration)
        model = _find_model(configuration, models)
        start_log(folders.logs)
        _quiet_environment(folders)
        listener = ports.listen(settings.host, settings.port)
        if (notice := upgrade_notice(folders.database)) is not None:
            say(f"pagedchat: {notice}", sys.stderr)
        with listener, closing(SessionStore(folders.database)) as store:
            if store.notice:
                say(f"pagedchat: {store.notice}", sys.stderr)
                log.warning("%s", store.notice)
            port = listener.getsockname()[1]
            lock.publish(port, ports.page_url(settings.host, port))
            bound = replace(configuration, settings=settings.model_copy(update={"port": port}))
            asyncio.run(Server(bound, listener, store, models, model).run())
            return 0
    except PagedChatError:
        raise
    except Exception as error:
        log.exception("the server failed")
        what = f"{type(error).__name__}: {error}".rstrip(".")
        raise PagedChatError(f"pagedchat met an error of its own ({what}); see {log_file(folders.logs)}.") from error
    finally:
        lock.release()


def _join(running: RunningServer, settings: Settings) -> int:
    """A second start: show the page of the server that runs."""
    if settings.port not in (None, running.port):
        raise PagedChatError(
            f"pagedchat already serves this data folder at {running.url}; stop it first, or leave out --port."
        )
    say(f"pagedchat is already running at {running.url} (other flags of this start are ignored)", sys.stdout)
    if not settings.no_browser and browser.has_browser():
        browser.open_page(running.url).join(BROWSER_S)
    return 0


def _tell_of(configuration: Configuration) -> None:
    """Say what is special about the configuration, and forget a rollback that is over."""
    for warning in configuration.warnings:
        say(f"pagedchat: {warning}", sys.stderr)
    if configuration.rollback_over:
        try:
            KnownGoodStore(configuration.folders.state).end_rollback()
        except PagedChatError as error:
            say(f"pagedchat: {error}", sys.stderr)
    if configuration.rollback is not None:
        say(
            f"pagedchat: rolled back to {described(configuration.rollback.record)}; `pagedchat rollback --undo` "
            "returns to your own settings.",
            sys.stderr,
        )


def _find_model(configuration: Configuration, models: ModelStore) -> Path | ModelFileError | None:
    """Where the model is, None when the default one has to be fetched.

    Returns:
        The error in place of the model, where the page can offer a way back from it.

    Raises:
        ModelFileError: there is no such model, and no way back.
    """
    try:
        return resolve_model(configuration, models)
    except ModelFileError as error:
        record = KnownGoodStore(configuration.folders.state).load()
        if record is None or not record.differences(configuration.kept()):
            raise
        return error


def _quiet_environment(folders: Folders) -> None:
    """No look-ups on model hubs, and the page's temporary files in our cache folder (see also ``ui.quiet``)."""
    os.environ.update(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_OFFLINE="1")
    page_files = folders.cache / "page"
    if can_write(page_files):
        os.environ["GRADIO_TEMP_DIR"] = str(page_files)


class Server:
    """One run of the server, from bound port to closed files.

    Attributes:
        url: where the page is.
        client, service: the engine and the chats.
        alerts: what is watched meanwhile.
        installation: what the settings tell of it.
    """

    def __init__(
        self,
        configuration: Configuration,
        listener: socket.socket,
        store: SessionStore,
        models: ModelStore,
        model: Path | ModelFileError | None,
    ) -> None:
        """
        Args:
            configuration: with the port that ``listener`` is bound to.
            model: path of the model; None when the default one has to be fetched; the error if it cannot be used, but
                a known good configuration could.
        """
        settings, folders = configuration.settings, configuration.folders
        assert settings.port is not None
        self.url = ports.page_url(settings.host, settings.port)
        logs = folders.logs / "engine.log" if can_write(folders.logs) else Path(os.devnull)
        self.client = EngineClient(log_path=logs)
        self.service = ChatService(store, self.client, titles=settings.titles)
        trouble = model if isinstance(model, ModelFileError) else None
        target = Target(settings, None if isinstance(model, ModelFileError) else model)
        self.recovery = Recovery(self.client, configuration, models, target, self._start_again)
        self.alerts = AlertWatch(self.client, settings, folders)
        self.installation = Installation(lambda: self.recovery.target.settings, folders, models)
        self._watching: asyncio.Future[Any] | None = None
        self._backups = BackupWatch(folders.database)
        self._saved = False
        self._models = models
        self._engine = self._engine_start(target, trouble)
        self._starting: asyncio.Task[None] | None = None
        self._settings = settings
        self._listener = listener
        self._app: FastAPI | None = None
        self._web: uvicorn.Server | None = None

    async def run(self) -> None:
        """Serve until a signal comes or something fails.

        Raises:
            PagedChatError: if a model that was already here cannot be loaded.
        """
        stop = asyncio.Event()
        _watch_signals(stop)
        engine = self._starting = asyncio.create_task(self._engine.run())
        page = asyncio.create_task(self._serve_page())
        ends = {asyncio.create_task(stop.wait()), asyncio.create_task(_failure_of(engine)), page}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        leave_after(STOP_S, 0 if stop.is_set() else 1, _trouble_of(engine, page))
        await self._engine.cancel(self._starting)
        await self._close(page)
        for task in (engine, page):
            if task.done() and not task.cancelled():
                task.result()
        say(f"pagedchat has ended{'; everything is saved' if self._saved else ''}.", sys.stdout)

    def _engine_start(self, target: Target, trouble: ModelFileError | None = None) -> EngineStart:
        return EngineStart(
            self.client, target.settings, self._models, target.model, self.recovery.start_failed, trouble
        )

    async def _start_again(self, target: Target) -> None:
        """Start the engine anew, with another configuration; chats stay as they are."""
        assert self._starting is not None
        await self._engine.cancel(self._starting)
        self._engine = self._engine_start(target)
        self.alerts.settings = target.settings
        self._engine.page_is_up()
        self._starting = asyncio.create_task(_stays_up(self._engine, self.client))

    async def _serve_page(self) -> None:
        await self._engine.begun.wait()  # the page's import takes the interpreter
        gc.disable()  # until the page is there: it would walk ever more modules and find nothing to free
        create_app = await in_thread(_load_page)
        self._app = create_app(self._settings, self.client, self.service, self.recovery, self.alerts, self.installation)
        gc.freeze()
        gc.enable()
        config = uvicorn.Config(
            self._app,
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
        self._web = _WebServer(config)
        serving = asyncio.create_task(self._web.serve(sockets=[self._listener]))
        answering = asyncio.create_task(in_thread(lambda: _first_answer(self.url)))
        await asyncio.wait({serving, answering}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
            say(f"pagedchat is ready at {self.url}", sys.stdout)
            self._engine.page_is_up()
            self._watching = asyncio.gather(self.alerts.run(), self._backups.run())
            if not self._settings.no_browser and browser.has_browser():
                browser.open_page(self.url)
        await serving

    async def _close(self, page: asyncio.Task[None]) -> None:
        """Save running replies, close sockets, end the engine, in this order."""
        if self._watching is not None:
            self._watching.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.service.close(), SAVE_S)
            self._saved = True
        closing_engine = asyncio.create_task(self.client.close())
        if self._web is None or self._app is None:
            page.cancel()
        else:
            self._app.state.shutting_down.set()
            self._web.should_exit = True
            await asyncio.wait({page}, timeout=STOP_S)
        await closing_engine
        if self._watching is not None:
            await asyncio.wait({self._watching})


def _watch_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on Ctrl+C, SIGTERM and a closed terminal (unless nohup says that the last one is nothing)."""
    loop = asyncio.get_running_loop()
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        number = getattr(signal, name, None)
        if number is None or (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
            continue
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
        else:
            loop.add_signal_handler(number, stop.set)


async def _stays_up(engine: EngineStart, client: EngineClient) -> None:
    """A start while the page is there: what fails is told there."""
    try:
        await engine.run()
    except PagedChatError as error:
        client.set_failed(str(error))
        say(f"pagedchat: {error}", sys.stderr)


async def _failure_of(task: asyncio.Task[None]) -> None:
    """Return when ``task`` fails; one that ends well is no reason to."""
    await asyncio.wait({task})
    if task.cancelled() or task.exception() is None:
        await asyncio.Event().wait()


def _trouble_of(*tasks: asyncio.Task[None]) -> str:
    """What the first of ``tasks`` that failed has to say; empty if none did."""
    errors = (task.exception() for task in tasks if task.done() and not task.cancelled())
    return next((f"pagedchat: {error}" for error in errors if error is not None), "")


class _WebServer(uvicorn.Server):
    """uvicorn without its own signal handling, which re-raises the signal and waits for open streams."""

    def capture_signals(self) -> AbstractContextManager[None]:
        return nullcontext()


def _load_page() -> Callable[..., FastAPI]:
    from .web import create_app

    return create_app


def _first_answer(url: str) -> None:
    """Return when the page itself answers, which also makes its first visit quick."""
    address = urlsplit(url)
    while True:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PAGE_ANSWER_S)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/")
            response = connection.getresponse()
            response.read()
            if response.status == http.client.OK:
                return
        time.sleep(0.02)
