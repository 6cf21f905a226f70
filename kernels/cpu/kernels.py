"""The CPU backend: a compiled program for the whole decoder, plain torch until it is ready."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path

import torch

from ..interface import DecoderShape, DecoderWeights
from ..reference import ReferenceKernels
from .attention_tiles import WIDTH
from .compiled import CompiledFunctions, cache_folder, compile_functions, is_cached, prepare_folder
from .program import CpuProgram
from .threads import Team, default_threads
from .tiles import FEATURES

_lock = threading.Lock()
_functions: dict[Path, Future[CompiledFunctions]] = {}
_teams: dict[int, Team] = {}


def shared_team(threads: int) -> Team:
    """The process's team of this size: engines in one process take turns on it."""
    with _lock:
        return _teams.setdefault(threads, Team(threads)) if threads not in _teams else _teams[threads]


def compiled_functions(folder: Path, writable: bool) -> Future[CompiledFunctions]:
    """The compiled functions: at once when ``folder`` has them, else from a thread that compiles them."""
    with _lock:
        known = _functions.get(folder)
        if known is not None:
            return known
        future = _functions[folder] = Future()
    if writable and is_cached(folder):
        finish(future, lambda: compile_functions(folder))
    else:
        run_in_background(future, lambda: compile_functions(folder if writable else None), "pagedchat-compile")
    return future


def run_in_background(future: Future, work, name: str) -> None:
    """Settles ``future`` with what ``work`` gives, from a thread of its own."""
    threading.Thread(target=finish, args=(future, work), name=name, daemon=True).start()


def finish(future: Future, work) -> None:
    """Settles ``future`` with the result of ``work`` or with its error."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


class CpuKernels(ReferenceKernels):
    """Compiled kernels for this processor.

    They run as one program (`fuse`); single operations, which serve while the program is compiled or where there is
    none for a model, are those of plain torch.
    """

    def __init__(self, dtype: torch.dtype, cache: Path, version: str, threads: int | None = None):
        super().__init__("cpu", dtype)
        self.folder = cache_folder(cache, version)
        self.unwritable = prepare_folder(self.folder)
        self.threads = threads or default_threads()
        self._program: Future[CpuProgram] | None = None
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
        if not self._program.done():
            return "plain torch serves while the kernels are compiled, which a first start does once"
        failure = self._failure()
        if failure:
            return f"plain torch, the kernels could not be compiled ({failure})"
        best = next((name for name in ("avx512bw", "avx2", "neon") if name in FEATURES), "no vector extension")
        text = f"compiled for this processor ({best}), {self.threads} threads meeting in barriers of their own"
        return text + (f"; compiled anew at each start: {self.unwritable}" if self.unwritable else "")

    @reason.setter
    def reason(self, text: str) -> None:
        self._refusal = text

    def _failure(self) -> str | None:
        error = self._program.exception() if self._program is not None and self._program.done() else None
        return None if error is None else f"{type(error).__name__}: {error}"

    def fuse(self, shape: DecoderShape, weights: DecoderWeights, kv_cache: torch.Tensor) -> Future[CpuProgram] | None:
        """See `Kernels.fuse`. None for head sizes that are no multiple of 8."""
        if shape.head_dim % WIDTH:
            self._refusal = f"the compiled kernels need a head size in multiples of {WIDTH}, not {shape.head_dim}"
            return None
        functions = compiled_functions(self.folder, self.unwritable is None)
        self._program = program = Future()

        def build() -> CpuProgram:
            return CpuProgram(shape, weights, kv_cache, shared_team(self.threads), functions.result())

        if functions.done():
            finish(program, build)
        else:
            run_in_background(program, build, "pagedchat-pack")
        return program
