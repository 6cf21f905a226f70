"""Keeps one engine process alive: spawns it, knows its status, starts it again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .child_log import ChildLog
from .child_process import ChildProcess
from .client_metrics import ClientMetrics
from .config import EngineConfig
from .errors import EngineError
from .status import EngineState, EngineStatus
from .watchdog import Watchdog

DEATHS_WHILE_LOADING = 3
RESTART_DELAY_S = 0.2
QUIET_S = 5.0


class EngineSupervisor:
    """One child and its status.

    Args:
        command: arguments after the interpreter.
        env: extra environment of the child.
        log_path: file that takes the child's stderr; passed through when None.
        on_message: called with every message of the child that is not about its status.
        on_down: called with a sentence whenever the child that served is gone.
        owes: whether the child owes an answer to anything it was asked.
        metrics: who counts deaths and restarts.

    Attributes:
        status: what the engine does now.
        child: the process, None while there is none.
        last_seq: number of the newest KV event seen, carried over restarts so that numbers only grow; -1 before any.
    """

    def __init__(
        self,
        command: list[str],
        *,
        env: Mapping[str, str],
        log_path: Path | None,
        on_message: Callable[[dict[str, Any]], None],
        on_down: Callable[[str], None],
        owes: Callable[[], bool],
        metrics: ClientMetrics,
    ) -> None:
        self.status = EngineStatus()
        self.child: ChildProcess | None = None
        self.last_seq = -1
        self._command = command
        self._env = dict(env)
        self._log = ChildLog(log_path) if log_path else None
        self._log_name = "its log" if log_path in (None, Path(os.devnull)) else str(log_path)
        self._on_message = on_message
        self._on_down = on_down
        self._owes = owes
        self._metrics = metrics
        self._quiet_until = 0.0
        self._watchdog: Watchdog | None = None
        self._config: EngineConfig | None = None
        self._restart: asyncio.Task[None] | None = None
        self._deaths = 0
        self._watchers: list[Callable[[EngineStatus], None]] = []

    async def start(self, config: EngineConfig) -> None:
        """Spawn the engine; returns once the process exists. A running one is closed first."""
        await self._close_child("The engine was closed to load a model.")
        self._config = config
        self._deaths = 0
        await self._spawn("loading", "Loading the model.")

    async def close(self) -> None:
        """End the child; takes 2 s at most unless it hangs."""
        self._config = None
        await self._close_child("The engine was closed.")
        self.set_status("starting")

    async def wait_ready(self) -> None:
        """Wait until requests run.

        Raises:
            EngineError: with the reason, if the engine cannot start.
        """
        changed = asyncio.Event()
        unwatch = self.watch(lambda _: changed.set())
        try:
            while self.status.state != "ready":
                if self.status.state == "failed":
                    raise EngineError(self.status.message)
                await changed.wait()
                changed.clear()
        finally:
            unwatch()

    def watch(self, callback: Callable[[EngineStatus], None]) -> Callable[[], None]:
        """Call ``callback`` on every change of the status; the result ends that."""
        return add_watcher(self._watchers, callback)

    def set_status(
        self,
        state: EngineState,
        progress: float | None = None,
        message: str = "",
        info: dict[str, Any] | None = None,
    ) -> None:
        """Change the status and tell the watchers."""
        status = EngineStatus(state, progress, message, info or {})
        if status == self.status:
            return
        self.status = status
        for watcher in list(self._watchers):
            watcher(status)

    def set_info(self, info: dict[str, Any]) -> None:
        """Renew what is known of an engine that is ready."""
        if self.status.state == "ready":
            self.set_status("ready", None, self.status.message, info)

    @property
    def was_heard_lately(self) -> bool:
        """Whether the child said something in the last seconds, or announced a step that takes long."""
        return self.child is not None and time.monotonic() < self._quiet_until

    def send(self, message: dict[str, Any]) -> None:
        """Ask the child something that it will answer, and mind that it does; nothing happens while there is none.

        Raises:
            RequestError: if a text in it is not valid Unicode.
        """
        if self.child is not None:
            self.child.send(message)
            if self._watchdog is not None:
                self._watchdog.asked()

    # -- the child ------------------------------------------------------------------------------------------------

    async def _spawn(self, state: EngineState, message: str) -> None:
        config = self._config
        if config is None:
            return
        self.set_status(state, None, message)
        child = ChildProcess(self._on_line, self._on_exit)
        self.child = child
        self._watchdog = Watchdog(config.hang_timeout_s, self._owes, lambda seconds: self._hangs(child, seconds))
        with contextlib.ExitStack() as stack:
            try:
                log = stack.enter_context(self._log.open()) if self._log else None
                command = [sys.executable, "-P", *self._command]
                await child.spawn(command, env={**os.environ, **self._env}, stderr=log)
            except OSError as error:
                self.child = None
                self.set_status("failed", None, f"The engine process could not be started: {error}.")
                return
        if self.child is not child:
            await child.close()
            return
        child.send({"op": "start", "config": config.to_dict(), "seq_base": self.last_seq + 1})

    async def _close_child(self, reason: str) -> None:
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        child, self.child = self.child, None
        self._stop_watching()
        self._on_down(reason)
        if child is not None:
            await child.close()

    def _stop_watching(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def _hangs(self, child: ChildProcess, seconds: float) -> None:
        where = f"{self._log_name} says where it stood"
        child.kill(f"it made no progress for {seconds:.0f} seconds, so it was ended; {where}")

    def _on_exit(self, child: ChildProcess) -> None:
        if child is not self.child:
            return
        self.child = None
        self._stop_watching()
        reason = f"The engine stopped: {child.exit_sentence}."
        if child.was_killed:
            self._metrics.note_out_of_memory("killed")
        self._on_down(reason)
        if self.status.state == "failed" or self._config is None:
            return
        self._deaths += 1
        if self._deaths >= DEATHS_WHILE_LOADING:
            times = f"{self._deaths} times in a row"
            self.set_status("failed", None, f"{reason} It did so {times} while starting; {self._log_name} says more.")
            return
        message = f"{reason} It is starting again."
        self.set_status("restarting", None, message)
        self._metrics.note_restart()
        self._restart = asyncio.get_running_loop().create_task(self._respawn(RESTART_DELAY_S * self._deaths, message))

    async def _respawn(self, delay_s: float, message: str) -> None:
        await asyncio.sleep(delay_s)
        self._restart = None
        await self._spawn("restarting", message)

    def _on_line(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        allowance_s = message["seconds"] if kind == "step" else 0.0
        self._quiet_until = time.monotonic() + QUIET_S + allowance_s
        if self._watchdog is not None:
            self._watchdog.heard(allowance_s)
        if self._log is not None:
            self._log.look()
        if kind == "step":
            return
        if kind == "status":
            if self.status.state == "loading":
                self.set_status("loading", message["progress"], message["message"])
        elif kind == "ready":
            self._deaths = 0
            self.set_status("ready", None, "", message["info"])
        elif kind == "info":
            self.set_info(message["info"])
        elif kind == "failed":
            if message.get("out_of_memory"):
                self._metrics.note_out_of_memory("load")
            self.set_status("failed", None, message["text"])
        else:
            self._on_message(message)


def add_watcher(watchers: list[Any], callback: Any) -> Callable[[], None]:
    """Append ``callback``; the result takes it out again, any number of times."""
    watchers.append(callback)

    def remove() -> None:
        with contextlib.suppress(ValueError):
            watchers.remove(callback)

    return remove
