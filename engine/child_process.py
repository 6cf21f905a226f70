"""A child process that speaks lines of JSON, seen from the parent's event loop. Knows nothing of engines."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from . import wire

DUMP_S = 0.3
GRACE_S = 2.0
TERMINATE_S = 0.5


class ChildProcess(asyncio.SubprocessProtocol):
    """One child: calls ``on_message`` for every line it writes and ``on_exit`` once, after its last line."""

    def __init__(self, on_message: Callable[[dict[str, Any]], None], on_exit: Callable[[ChildProcess], None]) -> None:
        self._on_message = on_message
        self._on_exit = on_exit
        self._lines = wire.LineSplitter()
        self._transport: asyncio.SubprocessTransport | None = None
        self._gone = asyncio.Event()
        self._reason: str | None = None

    async def spawn(self, command: list[str], *, env: Mapping[str, str], stderr: IO[bytes] | None) -> None:
        """Start it. ``stderr`` None passes the child's stderr through.

        Raises:
            OSError: if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        await loop.subprocess_exec(
            lambda: self,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=env,
        )

    @property
    def pid(self) -> int | None:
        """Its process id, None before it started."""
        return self._transport.get_pid() if self._transport else None

    @property
    def was_killed(self) -> bool:
        """Whether it was killed and not by us: the system does that when memory runs out."""
        code = self._transport.get_returncode() if self._transport else None
        return self._reason is None and code == -signal.SIGKILL

    @property
    def exit_sentence(self) -> str:
        """How it ended, for a user."""
        if self._reason is not None:
            return self._reason
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "it is still running"
        if self.was_killed:
            return "it was killed, most likely because memory ran out"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"it was ended by signal {signal.Signals(-code).name}"
        return f"it ended with code {code}"

    def send(self, message: dict[str, Any]) -> None:
        """Queue one line for the child; lost without a sound when it is gone, as ``on_exit`` will tell.

        Raises:
            RequestError: if a text in it is not valid Unicode.
        """
        line = wire.encode(message)
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if pipe is not None and not pipe.is_closing():
            cast(asyncio.WriteTransport, pipe).write(line)

    async def close(self) -> None:
        """End it: its stdin closes, on which it exits; after 2 s it is terminated, then killed."""
        if self._transport is None:
            return
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()
        steps = ((GRACE_S, self._transport.terminate), (TERMINATE_S, self._transport.kill))
        for patience, force in steps:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), patience)
                return
            with contextlib.suppress(ProcessLookupError):
                force()
        await self._gone.wait()

    def kill(self, reason: str) -> None:
        """End it at once, after it wrote where it stands to its log; ``reason`` is what ``exit_sentence`` says then."""
        if self._transport is None or self._gone.is_set():
            return
        self._reason = reason
        with contextlib.suppress(ProcessLookupError):
            if wire.DUMP_SIGNAL is not None:
                self._transport.send_signal(wire.DUMP_SIGNAL)
        asyncio.get_running_loop().call_later(DUMP_S, self._kill)

    def _kill(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()

    # -- asyncio.SubprocessProtocol ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._on_message(wire.decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._on_exit(self)
