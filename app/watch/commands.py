"""``pagedchat alerts``: the rules for Prometheus, and what the running server says of them."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.errors import PagedChatError
from ..options import AsJson, DataDir
from ..terminal import local_time

if TYPE_CHECKING:
    from ..folders import Folders
    from .baseline import Baseline

ANSWER_S = 5.0

alerts_cli = typer.Typer(help="What the running server warns of, and the rules for Prometheus.", rich_markup_mode=None)


@alerts_cli.command("list")
def list_alerts(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the alerts of the server that runs: its state, since when, and why."""
    from ..settings import load_settings

    folders = load_settings({"data_dir": data_dir})[1]
    answer = _ask_server(folders)
    if answer is None:
        raise PagedChatError(f"No pagedchat runs on the data folder {folders.data}; start it, then ask again.")
    if as_json:
        print(json.dumps(answer, indent=2, ensure_ascii=False))
        return
    print(answer["baseline"]["words"])
    for alert in answer["alerts"]:
        since = f" since {local_time(alert['since'])}" if alert["since"] else ""
        kind = f"{alert['state']:<11}  {alert['severity']:<8}  {alert['name']:<22}"
        print(f"{kind}  {alert['title']}{since}: {alert['sentence']}")


@alerts_cli.command("render")
def render(
    output: Annotated[Path | None, typer.Option(help="File to write instead of printing.", show_default=False)] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the rules for Prometheus, with the baseline of what runs (or ran last) on this machine."""
    from ..settings import load_settings
    from .render import render_rules
    from .rules import ENGINE_LOG, rules_for

    settings, folders = load_settings({"data_dir": data_dir})
    baseline = _baseline(folders)
    text = render_rules(rules_for(settings, baseline, folders.logs / ENGINE_LOG), baseline)
    if output is None:
        print(text, end="")
        return
    _write(output, text)
    print(output)


def _baseline(folders: Folders) -> Baseline:
    """Of the configuration that runs on the data folder, else of the one that was measured last."""
    from .baseline import baseline_of, utc_today
    from .baseline_file import BaselineFile

    records = BaselineFile(folders.state).read()
    answer = _ask_server(folders)
    if answer is not None and answer["baseline"]["key"]:
        return baseline_of(records.get(answer["baseline"]["key"]["id"]), utc_today())
    newest = max(records.values(), key=lambda record: record.last_used, default=None)
    return baseline_of(newest, utc_today())


def _ask_server(folders: Folders) -> dict[str, Any] | None:
    """What the server of the data folder says; None if none answers."""
    from ..instance import ask_json, running_server

    server = running_server(folders.data)
    if server is None:
        return None
    with suppress(PagedChatError):
        answer = ask_json(server, "GET", "/api/alerts", timeout_s=ANSWER_S)[1]
        return answer if isinstance(answer, dict) and "alerts" in answer else None
    return None


def _write(output: Path, text: str) -> None:
    from ..folders import reason_of, write_whole

    try:
        write_whole(output, text)
    except OSError as error:
        raise PagedChatError(f"{output} cannot be written ({reason_of(error)}); name another --output.") from error
