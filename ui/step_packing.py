"""Engine steps in few bytes: of neighbours that are alike only the milliseconds are said one by one."""

from __future__ import annotations

from typing import Any

import orjson

MOST_STEPS = 40
MOST_BYTES = 900
"""Of one frame; older steps are left out."""


def pack_steps(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The newest of some steps; None for none.

    Args:
        rows: as ``Engine.steps_since`` tells them.

    Returns:
        ``budget`` in tokens, and ``runs``, oldest first, each a list: number of the first step, milliseconds of each
        step, replies that got a token, requests that waited, chunks of prompts (place among ``owners``, tokens before,
        tokens, tokens of the whole prompt), places of those who lost blocks, whether it failed. The last three are left
        out where there is nothing to say. Steps with chunks, losses or a failure are runs of their own.
    """
    if not rows:
        return None
    runs: list[list[Any]] = []
    owners: dict[str | None, int] = {}
    size = 0
    for row in reversed(rows[-MOST_STEPS:]):
        known = len(owners)
        run = _run(row, owners)
        size += len(orjson.dumps(run)) + sum(3 + len(one or "") for one in list(owners)[known:])
        if runs and size > MOST_BYTES:
            owners = dict(list(owners.items())[:known])
            break
        if runs and len(run) == len(runs[-1]) == 4 and run[2:] == runs[-1][2:] and run[0] + 1 == runs[-1][0]:
            runs[-1][:2] = [run[0], run[1] + runs[-1][1]]
            size -= len(orjson.dumps(run)) - 6
        else:
            runs.append(run)
    return {"budget": rows[-1]["budget"], "owners": list(owners), "runs": runs[::-1]}


def _run(row: dict[str, Any], owners: dict[str | None, int]) -> list[Any]:
    """A run of one step; adds to ``owners`` those that it names."""

    def place(name: dict[str, str | None]) -> int:
        return owners.setdefault(name["session_id"] or name["request_id"], len(owners))

    milliseconds = 1000 * (row["seconds"] or 0.0)
    run = [row["step"], [round(milliseconds, 1 if milliseconds < 100 else None)], len(row["decodes"]), row["waiting"]]
    chunks = [[place(one), one["from"], one["tokens"], one["total"]] for one in row["prefills"]]
    lost = [place(one) for one in row["preempted"]]
    if row["failed"]:
        return [*run, chunks, lost, 1]
    return [*run, chunks, lost] if lost else [*run, chunks] if chunks else run
