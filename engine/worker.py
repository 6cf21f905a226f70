"""Main program of the engine process: ``python -m pagedchat.engine.worker [--engine module:factory]``.

Commands come as lines on stdin, results leave as lines on what was stdout. The main thread owns the engine: it takes
commands between steps, steps while there is work and sleeps on the queue when there is none. A second thread only
reads stdin, so that the end of the parent (end of file) ends this process at once, whatever the engine is doing.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import gc
import io
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

from ..kernels.cpu.threads import default_threads, limit_libraries
from . import wire
from .config import EngineConfig
from .errors import EngineError, PagedChatError, is_out_of_memory
from .fault_text import print_fault, print_faults_without_words
from .lean_torch import without_compiler_parts
from .memory import give_back_freed
from .worker_loop import WorkerLoop

DEFAULT_ENGINE = "pagedchat.engine.engine:Engine"
PIPE_BYTES = 1 << 20
DOES_NOT_FIT = (
    "Memory ran out while the model was loaded. Close other programs, or start with fewer --num-blocks, a smaller "
    "--max-model-len, or another model."
)


def main(arguments: list[str] | None = None) -> None:
    """Serve one engine until stdin ends."""
    lines_out = _take_stdout()
    sys.stdout = sys.stderr = Unfailing(sys.stderr)
    _ignore_terminal_signals()
    _die_with_parent()
    _tell_where_it_stands_when_asked()
    parser = argparse.ArgumentParser(prog="pagedchat.engine.worker")
    parser.add_argument("--engine", default=DEFAULT_ENGINE, help="module:factory, called with an EngineConfig")
    factory = parser.parse_args(arguments).engine

    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=(commands,), name="commands", daemon=True).start()

    def send(message: dict[str, Any]) -> None:
        _write_all(lines_out, wire.encode(message))

    start = commands.get()
    gc.disable()  # until the model is there: it would walk ever more modules and find nothing to free
    engine = _load(factory, start["config"], send)
    if engine is None:
        os._exit(1)
    give_back_freed()
    gc.freeze()  # what was loaded stays; no collection needs to walk it between two tokens
    gc.enable()
    print_faults_without_words()  # from here on, errors may hold text of chats
    try:
        WorkerLoop(engine, commands, send, seq_base=start["seq_base"]).run()
    except BaseException as error:
        print_fault(error)
    os._exit(1)


class Unfailing(io.TextIOBase):
    """A stream for the log: on a full disk what is printed is lost, and the engine goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Print, or lose it."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Push out what was printed, or lose it."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def fileno(self) -> int:
        """The log's."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The log's."""
        return self._stream.encoding


def _take_stdout() -> int:
    """A private copy of fd 1; from now on fd 1 is stderr, so that no print can break the lines."""
    copy = os.dup(1)
    os.dup2(2, 1)
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import fcntl

        fcntl.fcntl(copy, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # type: ignore[attr-defined]
    return copy


def _ignore_terminal_signals() -> None:
    """Ctrl+C and a closed terminal reach the whole process group; the parent decides what they mean."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _die_with_parent() -> None:
    """On Linux the kernel ends us with the parent, even while C code holds the interpreter lock."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def _tell_where_it_stands_when_asked() -> None:
    """The parent sends this signal to a process that hangs; the answer in the log comes from C, whatever holds us."""
    if hasattr(faulthandler, "register") and wire.DUMP_SIGNAL is not None:
        faulthandler.register(wire.DUMP_SIGNAL, file=2, all_threads=True)


def _read_commands(commands: queue.SimpleQueue[dict[str, Any]]) -> None:
    with os.fdopen(0, "rb", closefd=False) as stdin:
        for line in stdin:
            commands.put(wire.decode(line))
    os._exit(0)


def _write_all(file: int, data: bytes) -> None:
    """Write everything; waits while the parent is slow. Exits when it is gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(file, view) :]
        except BrokenPipeError:
            os._exit(0)


def _load(factory: str, config: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> Any:
    """The engine, or None after the reason was sent."""
    try:
        send({"type": "status", "progress": None, "message": "Loading the model."})
        limit_libraries(config.get("threads") or default_threads())
        module, _, name = factory.partition(":")
        with without_compiler_parts():
            engine = getattr(import_module(module), name)(EngineConfig(**config))
        send({"type": "ready", "info": engine.info()})
        return engine
    except PagedChatError as error:
        send({"type": "failed", **wire.error_to_wire(error), "out_of_memory": is_out_of_memory(error.__cause__)})
    except Exception as error:
        traceback.print_exc()
        ran_out = is_out_of_memory(error)
        told = EngineError(DOES_NOT_FIT) if ran_out else error
        send({"type": "failed", **wire.error_to_wire(told), "out_of_memory": ran_out})
    return None


if __name__ == "__main__":
    main()
