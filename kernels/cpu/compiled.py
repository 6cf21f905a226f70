"""Compiles the step once and keeps it on disk, in a folder named after the version and a hash of the kernels' sources.

Numba's own index does not notice a changed callee in another file; the folder's name does.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numba
from llvmlite import binding
from numba import config, types

from . import pack, plan, step
from .machine_code import TileCode, build_object, load_object
from .processor import processor

VECTOR_64, VECTOR_32 = types.int64[::1], types.int32[::1]
FLOATS = tuple(types.Array(types.float32, axes, "C") for axes in range(4))
INTS_32, INTS_64 = types.int32[:, ::1], types.int64[:, ::1]
TILES_FILE = "tiles.o"
COMPILED_SOURCES = (
    "attention", "attention_tiles", "compiled", "elementwise", "halves", "machine_code", "matrix_tiles", "pack", "plan",
    "prefill", "prefill_tiles", "primitives", "processor", "products", "softmax_tile", "step", "tiles",
)  # fmt: skip
BYTES, READ_ONLY = types.uint8[:, ::1], types.Array(types.uint8, 2, "C", readonly=True)
FILL_Q4, FILL_Q8 = (READ_ONLY, types.int64, BYTES, BYTES), (READ_ONLY, BYTES)
PLAN = (
    VECTOR_32, VECTOR_32, INTS_32, types.int64, types.boolean,
    VECTOR_32, VECTOR_32, INTS_32, INTS_32, INTS_32, INTS_32, INTS_32,
)  # fmt: skip
STEP = (
    types.int64, types.int64, VECTOR_64, VECTOR_64, types.float32, types.float32,
    INTS_64, INTS_64, FLOATS[2], FLOATS[2], FLOATS[2],
    VECTOR_64, VECTOR_32, VECTOR_64, INTS_32, VECTOR_32, VECTOR_32, INTS_32, INTS_32, INTS_32, VECTOR_64, VECTOR_64,
    FLOATS[2], FLOATS[2], FLOATS[2], FLOATS[2], FLOATS[2], FLOATS[2], types.int16[:, ::1], FLOATS[3],
    FLOATS[3], FLOATS[3], FLOATS[2], VECTOR_64,
    FLOATS[3], FLOATS[3], FLOATS[3], INTS_32, FLOATS[3], FLOATS[3], FLOATS[3],
    types.int64, types.int64, types.int16[:, ::1], FLOATS[2], INTS_32, types.int16[:, ::1],
)  # fmt: skip


@dataclass(frozen=True)
class CompiledFunctions:
    """The functions a program calls, ready to run.

    Attributes:
        seconds: time it took to compile or load them.
        folder: where they are kept, or None when they are compiled anew at each start.
    """

    decoder_step: Callable
    plan_tiles: Callable
    tile_code: TileCode
    seconds: float
    folder: Path | None


def sources_hash() -> str:
    """Hash of everything the compiled code depends on: its sources, the place where Numba looks for them again, and the
    versions of Python and the compiler."""
    place = Path(__file__).parent
    digest = hashlib.sha256(f"numba {numba.__version__} {sys.implementation.cache_tag} {place}".encode())
    for name in COMPILED_SOURCES:
        digest.update((place / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(base: Path, version: str) -> Path:
    """The folder of this version's kernels for this processor, under the user's cache folder ``base``."""
    return base / "kernels" / f"{version}-{sources_hash()}-{processor_hash()}"


def is_cached(folder: Path) -> bool:
    """Whether an earlier start has left all compiled kernels (as far as their names tell)."""
    return (folder / TILES_FILE).is_file() and any(folder.rglob("*decoder_step*.nbc"))


def prepare_folder(folder: Path) -> str | None:
    """Creates the folder; None when it can be written, else why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".write"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return f"the cache folder {folder} cannot be written ({error.strerror or error})"
    return None


@contextmanager
def numba_cache_in(folder: Path):
    """Numba's cache setting, put back afterwards: it belongs to the whole process."""
    before = getattr(config, "CACHE_DIR", "")
    config.CACHE_DIR = str(folder)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # pyright: ignore[reportAttributeAccessIssue]


def compile_functions(folder: Path | None) -> CompiledFunctions:
    """Loads the functions from ``folder``, or compiles them and keeps them there; without a folder only compiles."""
    begin = time.perf_counter()
    wanted = (
        (pack.fill_q4, FILL_Q4),
        (pack.fill_q8, FILL_Q8),
        (plan.plan_tiles, PLAN),
        (step.decoder_step, STEP),
    )
    if folder is not None:
        with numba_cache_in(folder):
            for dispatcher, _ in wanted:
                dispatcher.enable_caching()
    for dispatcher, signature in wanted:
        dispatcher.compile(signature)
    tiles = load_tiles(folder)
    return CompiledFunctions(step.decoder_step, plan.plan_tiles, tiles, time.perf_counter() - begin, folder)


def load_tiles(folder: Path | None) -> TileCode:
    """The tiles' machine code from ``folder``, built first when it is not there."""
    if folder is None:
        return load_object(build_object())
    file = folder / TILES_FILE
    if not file.is_file():
        part = file.with_suffix(f".{os.getpid()}")
        part.write_bytes(build_object())
        part.replace(file)
    return load_object(file.read_bytes())


def processor_hash() -> str:
    """Names the processor that machine code is built for."""
    text = " ".join((binding.get_process_triple(), *processor()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def end_with_parent() -> None:
    """Ends this process once its standard input closes: then nobody waits for the result."""
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(1)


def main(folder: Path) -> None:
    """Compiles everything into ``folder``, out of the way of other programs."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)
    compile_functions(folder)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
