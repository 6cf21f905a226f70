"""What to change: rules over what the doctor found, a sentence each. Problems keep it from working, advice does not."""

from __future__ import annotations

from collections.abc import Iterator

from ...engine.sizes import size_in_words
from .doctor import Findings

GIB = 1 << 30
LITTLE_DISK = GIB
LITTLE_MEMORY = GIB
SLOW_DECODE = 8.0
"""Tokens a second: slower than people read."""


def problems(found: Findings) -> list[str]:
    """What keeps pagedchat from answering."""
    return list(_problems(found))


def advice(found: Findings) -> list[str]:
    """What would make it better."""
    return [*_room(found), *_speed(found), *_configuration(found)]


def _problems(found: Findings) -> Iterator[str]:
    for row in found.folders:
        if row["name"] == "data" and not row["writable"]:
            yield f"{row['trouble']} Choose another folder with --data-dir."
    if found.model.get("state") in ("damaged", "fails"):
        yield found.model["said"]
    if "error" in found.kernels:
        yield f"The kernels cannot be loaded ({found.kernels['error']}); install pagedchat anew."
    if found.server is not None and found.speed is None and found.speed_note and not found.kernels.get("compiling"):
        named = found.server in found.speed_note
        yield found.speed_note if named else f"The server at {found.server} did not answer: {found.speed_note}"


def _room(found: Findings) -> Iterator[str]:
    for row in found.folders:
        if not row["writable"] and row["name"] != "data":
            yield f"{row['trouble']} {_LOST.get(row['name'], '')}".strip()
        elif row["free"] is not None and row["free"] < LITTLE_DISK and row["name"] in ("data", "models"):
            yield f"Only {size_in_words(row['free'])} are free on the disk of {row['path']}: make room there."
    free, total = found.surroundings.get("memory_free"), found.surroundings.get("memory_total")
    need = LITTLE_MEMORY + 2 * (found.model.get("size") or 0)
    if found.server is None and free is not None and free < need:
        yield (
            f"Only {size_in_words(free)} of {size_in_words(total or 0)} of memory are free: close other programs, or "
            "start with --profile low-memory."
        )
    if found.surroundings.get("swap_used", 0) > GIB and free is not None and free < 2 * need:
        swapped = size_in_words(found.surroundings["swap_used"])
        yield f"{swapped} are swapped out: memory is short, and replies will stall."
    if found.model.get("state") == "missing":
        yield f"{found.model['said']} `pagedchat models pull` fetches it ahead of time."


def _speed(found: Findings) -> Iterator[str]:
    around, cores = found.surroundings, found.configuration["machine"]["usable_cores"] or 1
    if cores < 2:
        yield "Only one core may be used: the page and the engine take it from each other; give it two or more."
    if around.get("load", 0) > 1.5 * cores:
        yield f"The processor is busy (load {around['load']:.1f} on {cores} cores): close what else computes."
    if around.get("debugger"):
        yield f"This process is watched by {around['debugger']}, which makes every step slower; start it without."
    if around.get("governor") == "powersave" or around.get("battery"):
        yield "The processor saves power: plug the computer in, or set its governor to performance."
    kernels = found.kernels
    threads = kernels.get("threads")
    if threads and threads > cores:
        yield f"{threads} threads share {cores} cores, which is slower than one each: leave --threads out."
    if kernels.get("compiling") and found.speed is None:
        yield (
            "The kernels are still being compiled, once for this version and processor, and replies are slow until "
            "then; ask again in a minute."
        )
    elif kernels.get("kernels") == "reference":
        yield f"The slow kernels of plain PyTorch are used: {kernels.get('reason')}."
    elif kernels.get("compiling"):
        yield "The kernels were still being compiled, so the speed is that of plain PyTorch; ask again in a minute."
    elif found.speed and found.speed["decode"] < SLOW_DECODE:
        yield f"{found.speed['decode']:.1f} tokens a second is slower than reading: take a smaller model or format."


def _configuration(found: Findings) -> Iterator[str]:
    yield from found.warnings
    if found.known_good.get("rolled_back"):
        yield (
            "A rollback is in force: when config.toml and environment are right again, `pagedchat rollback --undo` "
            "returns to them."
        )


_LOST = {
    "cache": "Without it the kernels are compiled at every start.",
    "logs": "Without it there is no log.",
    "models": "Without it no model can be fetched; choose another with --models-dir.",
    "state": "Without it nothing is known of earlier starts.",
    "config": "That is only needed to change config.toml.",
}
