"""Block tables and events in few bytes: what is alike is said once, so that a long chat costs what a short one does."""

from __future__ import annotations

from typing import Any

View = dict[str, Any]
_ALIKE = ("tokens", "cached", "count", "sharers")
_LONG = 8
"""Events about more blocks than this are packed."""


def pack_rows(rows: list[View], old: list[View] | None) -> list[View]:
    """The rows that differ from ``old``, neighbours that are alike as one.

    Returns:
        Runs: a row's fields without its block, ``logical`` of the first and ``span``, how many there are. ``physical``
        lists their blocks; it is left out where none of them has another block than before.
    """
    runs: list[View] = []
    moved: list[bool] = []
    for row in rows:
        before = old[row["logical"]] if old is not None and row["logical"] < len(old) else None
        if row == before:
            continue
        last = runs[-1] if runs else None
        if (
            last is None
            or row["logical"] != last["logical"] + last["span"]
            or any(row[name] != last[name] for name in _ALIKE)
        ):
            last = {"logical": row["logical"], "span": 0, "physical": [], **{name: row[name] for name in _ALIKE}}
            runs.append(last)
            moved.append(False)
        last["span"] += 1
        last["physical"].append(row["physical"])
        moved[-1] = moved[-1] or before is None or before["physical"] != row["physical"]
    for run, has_moved in zip(runs, moved, strict=True):
        if not has_moved:
            del run["physical"]
    return runs


def pack_event(event: View) -> View:
    """An event about many blocks: ``spans`` of (first block, how many; down from it where negative) instead of
    ``blocks``; one state and one count where all are equal."""
    blocks, counts, states = event["blocks"], event["ref_counts"], event["states"]
    if len(blocks) <= _LONG or not isinstance(states, str):
        return event
    packed = {name: value for name, value in event.items() if name != "blocks"}
    packed["spans"] = _spans(blocks)
    if len(set(counts)) == 1:
        packed["ref_counts"] = counts[0]
    if len(set(states)) == 1:
        packed["states"] = states[0]
    return packed


def pack_events(events: list[View]) -> View:
    """The events of one frame, in order, as rows; kv_unpacking.js turns them back.

    Returns:
        ``seq`` and ``time`` of the first event; ``types`` and ``owners``, names; ``rows`` of [place in ``types``, a
        block or ``blocks`` or ``spans`` as {"of": …}, counts, states, tokens, place in ``owners`` or -1, milliseconds
        after ``time``], and at the end the event's number where it is not one more than the last; counts and states
        are one where all are alike.
    """
    types: dict[str, int] = {}
    owners: dict[str, int] = {}
    rows: list[list[Any]] = []
    begin = events[0]["time"] if events else 0.0
    due = events[0]["seq"] if events else 0
    for event in events:
        owner, counts, states = event["owner"], event["ref_counts"], event["states"]
        row = [
            types.setdefault(event["type"], len(types)),
            {"of": event["spans"]} if "spans" in event else _one_of(event["blocks"]),
            _one_of(counts),
            states[:1] if isinstance(states, str) and len(set(states)) == 1 else states,
            event["num_tokens"],
            -1 if owner is None else owners.setdefault(owner, len(owners)),
            round(1e3 * (event["time"] - begin)),
        ]
        rows.append(row if event["seq"] == due else [*row, event["seq"]])
        due = event["seq"] + 1
    return {
        "seq": events[0]["seq"] if events else 0,
        "time": begin,
        "types": list(types),
        "owners": list(owners),
        "rows": rows,
    }


def _one_of(values: Any) -> Any:
    """The value that all of a list are, if it has one."""
    alike = isinstance(values, list) and len(set(values)) == 1
    return values[0] if alike else values


def _spans(blocks: list[int]) -> list[list[int]]:
    spans: list[list[int]] = []
    for block in blocks:
        if spans:
            first, size = spans[-1]
            if size > 0 and block == first + size:
                spans[-1][1] += 1
                continue
            if size in (1, -1) and block == first - 1:
                spans[-1][1] = -2
                continue
            if size < -1 and block == first + size:
                spans[-1][1] -= 1
                continue
        spans.append([block, 1])
    return spans
