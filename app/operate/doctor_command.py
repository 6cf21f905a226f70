"""How ``pagedchat doctor`` tells what it found, and keeps it as evidence for ``pagedchat check``."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from ...engine.sizes import size_in_words
from ..options import AsJson, serve_flags
from ..terminal import local_time, say


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Look at hardware, kernels, folders, model and speed.

    It says what to change. serve's flags may follow: what they would start is what is tried. The result is kept for
    `pagedchat check`. Ends with 1 when something keeps pagedchat from answering.
    """
    from ..bench.report import BenchResult, save_result
    from ..folders import reason_of
    from .advice import advice, problems
    from .doctor import examine
    from .recovery import load_or_way_back

    configuration = load_or_way_back(serve_flags(context))
    result = BenchResult("doctor", {})
    found = examine(configuration, lambda line: say(f"{line} ...", sys.stderr))
    wrong, better = problems(found), advice(found)
    result.configuration, result.passed = found.configuration, not wrong
    result.figures = {**_without_configuration(found), "problems": wrong, "advice": better}
    result.verdict = " ".join(wrong) or "Everything that was looked at works."
    result.finish()
    print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False) if as_json else "\n".join(lines(result)))
    try:
        save_result(result, configuration.folders.state / "bench")
    except OSError as error:
        say(f"pagedchat: the result could not be kept ({reason_of(error)}).", sys.stderr)
    raise typer.Exit(1 if wrong else 0)


def lines(result: Any) -> list[str]:
    """The findings for a terminal."""
    configuration, found = result.configuration, result.figures
    machine, program, kernels = configuration["machine"], configuration["program"], found["kernels"]
    answered = found["known_good"]["answered_at"]
    around, model = found["surroundings"], found["model"]
    packages = ", ".join(f"{name} {version}" for name, version in configuration["packages"].items())
    told = [
        f"machine     {machine['processor']}, {machine['usable_cores']} of {machine['cores']} cores, "
        f"{size_in_words(around['memory_free'])} of {size_in_words(around['memory_total'])} free, {machine['system']}",
        f"versions    pagedchat {program['pagedchat']}, Python {program['python']}, {packages}",
        f"kernels     {_kernels(kernels)}",
        f"model       {model['name']}: {model['state']}" + (f", {model['path']}" if model["path"] else ""),
        f"server      {found['server'] or 'none runs'}",
        f"speed       {_speed(found)}",
        f"known good  {local_time(answered) if answered else 'nothing has answered yet'}",
    ]
    for row in found["folders"]:
        free = "?" if row["free"] is None else size_in_words(row["free"])
        state = "" if row["writable"] else "  CANNOT BE WRITTEN"
        told.append(f"{row['name']:<11} {row['path']}  ({size_in_words(row['size'])}, {free} free){state}")
    for title, sentences in (("What is wrong:", found["problems"]), ("What to change:", found["advice"])):
        if sentences:
            told += ["", title, *(f"- {sentence}" for sentence in sentences)]
    return told if found["problems"] or found["advice"] else [*told, "", result.verdict]


def _kernels(kernels: dict[str, Any]) -> str:
    if "error" in kernels:
        return kernels["error"]
    threads = f", {kernels['threads']} threads" if kernels.get("threads") else ""
    return f"{kernels.get('kernels')} on {kernels.get('device')} ({kernels.get('dtype')}{threads}): {kernels['reason']}"


def _speed(found: dict[str, Any]) -> str:
    speed = found["speed"]
    if speed is None:
        return f"not measured: {found['speed_note'] or 'there is no model yet'}"
    return (
        f"{speed['prefill']:,.0f} tokens/s of a prompt of {speed['prompt_tokens']}, "
        f"{speed['decode']:,.0f} tokens/s of a reply"
    )


def _without_configuration(found: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(found).items() if name != "configuration"}
