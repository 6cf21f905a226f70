"""How ``pagedchat check`` tells its list."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ..options import AsJson, serve_flags
from ..terminal import say

if TYPE_CHECKING:
    from .check import Checklist

DAY, HOUR, MINUTE = 86_400, 3_600, 60


def check(context: typer.Context, as_json: AsJson = False) -> None:
    """Go through the launch checklist.

    It asks for load tests of the model, the configuration and the monitoring. Each line is pass, fail or not measured,
    with the evidence and its age; what was measured with another configuration, model or version is stale. Where a
    server runs, its settings are what counts; serve's flags may follow, and count instead. Ends with 1 on a fail, or
    where a part has nothing measured.
    """
    from .check import check_everything
    from .recovery import load_or_way_back

    found = check_everything(load_or_way_back(serve_flags(context)))
    if as_json:
        told = {"ready": not found.why_not, "why_not": found.why_not, "lines": [asdict(one) for one in found.lines]}
        print(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        print("\n".join(text_lines(found)))
    if found.why_not:
        say(f"pagedchat: {found.why_not}", sys.stderr)
    raise typer.Exit(1 if found.why_not else 0)


def text_lines(found: Checklist) -> list[str]:
    """The list for a terminal, a heading for each part; the folder of the evidence is named once, at the end."""
    told: list[str] = []
    folder = _common_folder(found)
    part = ""
    for line in found.lines:
        if line.part != part:
            part = line.part
            told += ["", part.capitalize()] if told else [part.capitalize()]
        shown = line.evidence.removeprefix(folder) if line.evidence else ""
        evidence = f"  [{shown}, {age(line.age_s)}]" if shown else ""
        told.append(f"  {line.state:<13} {line.title}: {line.reason}{evidence}")
    return [*told, "", f"Files of the evidence are in {folder}"] if folder else told


def _common_folder(found: Checklist) -> str:
    """The folder that all files of evidence are in, with its last separator; "" without files."""
    files = {line.evidence for line in found.lines if line.evidence and "://" not in line.evidence}
    folder = os.path.commonpath([os.path.dirname(one) for one in files]) if files else ""
    return os.path.join(folder, "") if folder else ""


def age(seconds: float | None) -> str:
    """An age in its largest whole unit."""
    if seconds is None:
        return "of unknown age"
    for size, name in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} old"
    return "just now"
