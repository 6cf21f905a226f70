"""The CPU backend: a compiled program for the whole decoder, plain torch until it is ready."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import torch

from ..interface import DecoderProgram, DecoderShape, DecoderWeights
from ..reference import ReferenceKernels
from .attention_tiles import UNIT
from .compiled import CompiledFunctions, cache_folder, compile_functions, is_cached, prepare_folder
from .program import CpuProgram
from .threads import Team, default_threads
from .tiles import FEATURES

log = logging.getLogger(__name__)

_lock = threading.Lock()
_functions: dict[Path, Future[CompiledFunctions]] = {}
_teams: dict[int, Team] = {}


def shared_team(threads: int) -> Team:
    """The process's team of this size: engines in one process take turns on it."""
    with _lock:
        if threads not in _teams:
            _teams[threads] = Team(threads)
        return _teams[threads]


def compiled_functions(folder: Path, writable: bool) -> Future[CompiledFunctions]:
    """The compiled functions: at once when ``folder`` has them, else from the background."""
    with _lock:
        known = _functions.get(folder)
        if known is not None and not (known.done() and known.exception()):
            return known
        future = _functions[folder] = Future()
    if writable and is_cached(folder):
        settle(future, lambda: compile_functions(folder))
    elif writable:
        settle_later(future, lambda: compile_apart(folder), "pagedchat-compile")
    else:
        settle_later(future, lambda: compile_functions(None), "pagedchat-compile")
    return future


def compile_apart(folder: Path) -> CompiledFunctions:
    """Compiles in a process of its own, which leaves this one's interpreter free to serve, then loads the result.

    The process ends when this one does: its standard input closes.
    """
    command = [sys.executable, "-m", f"{__package__}.compiled", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    complaint = process.stderr.read().decode(errors="replace").strip()
    if process.wait() != 0:
        log.warning("Compiling the kernels in another process failed, trying in this one: %s", complaint[-2000:])
    return compile_functions(folder)


def settle_later(future: Future, work: Callable[[], object], name: str) -> None:
    """Settles ``future`` with what ``work`` gives, from a thread of its own."""
    threading.Thread(target=settle, args=(future, work), name=name, daemon=True).start()


def settle(future: Future, work: Callable[[], object]) -> None:
    """Settles ``future`` with the result of ``work`` or with its error."""
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)


class CpuKernels(ReferenceKernels):
    """Compiled kernels for this processor.

    They run as one program (`fuse`); single operations, which serve while the program is compiled or where there is
    none for a model, are those of plain torch.
    """

    def __init__(self, plain_dtype: torch.dtype, cache: Path, version: str, threads: int | None = None):
        super().__init__("cpu", plain_dtype)
        self.folder = cache_folder(cache, version)
        self.unwritable = prepare_folder(self.folder)
        self.threads = threads or default_threads()
        self._program: Future[DecoderProgram] | None = None
        self._refusal = "no model is loaded"

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``numba`` once the compiled program serves, else ``reference``."""
        return "numba" if self._program is not None and self._program.done() and not self._failure() else "reference"

    @property
    def reason(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What serves and why."""
        if self._program is None:
            return f"plain torch, {self._refusal}"
        if self.compiling:
            return "plain torch serves while the kernels are compiled, which a first start does once"
        failure = self._failure()
        if failure:
            return f"plain torch, the kernels could not be compiled ({failure})"
        best = next((name for name in ("avx512bw", "avx2", "neon") if name in FEATURES), "no vector extension")
        text = f"compiled for this processor ({best}), {self.threads} thread{'s' * (self.threads != 1)} of its own"
        remark = getattr(self._program.result(), "remark", "")
        text += f", {remark}" if remark else ""
        return text + (f"; compiled anew at each start: {self.unwritable}" if self.unwritable else "")

    @reason.setter
    def reason(self, text: str) -> None:
        self._refusal = text

    @property
    def compiling(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the program is still compiled."""
        return self._program is not None and not self._program.done()

    def _failure(self) -> str | None:
        error = self._program.exception() if self._program is not None and self._program.done() else None
        return None if error is None else f"{type(error).__name__}: {error}"

    def can_fuse(self, shape: DecoderShape) -> bool:
        """See `Kernels.can_fuse`."""
        if shape.head_dim % UNIT:
            self._refusal = f"the compiled kernels need a head size in multiples of {UNIT}, not {shape.head_dim}"
        elif any(shape.layer_windows):
            self._refusal = "the compiled kernels do not know sliding windows yet"
        else:
            return True
        return False

    def fuse(
        self, shape: DecoderShape, weights: DecoderWeights, kv_cache: torch.Tensor
    ) -> Future[DecoderProgram] | None:
        """See `Kernels.fuse`. None for head sizes that are no multiple of 8, and for sliding windows."""
        if not self.can_fuse(shape):
            return None
        functions = compiled_functions(self.folder, self.unwritable is None)
        self._program = program = Future()

        def build() -> DecoderProgram:
            return CpuProgram(shape, weights, kv_cache, shared_team(self.threads), functions.result())

        if functions.done():
            settle(program, build)
        else:
            settle_later(program, build, "pagedchat-pack")
        return program
