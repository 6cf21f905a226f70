"""``pagedchat doctor | check | rollback`` and ``pagedchat config show | diff``. Heavy modules load where needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...engine.errors import PagedChatError
from ...engine.sizes import size_in_words
from ..options import SERVE_FLAGS, AsJson, DataDir, ModelsDir, serve_flags
from ..terminal import say
from .check_command import check
from .doctor_command import doctor

SIZES = ("kv_cache_memory", "settings.kv_cache_memory", "machine.memory")


def add_commands(cli: typer.Typer, config_cli: typer.Typer) -> None:
    """Register the commands; ``config_cli`` is the group of ``config``."""
    cli.command("doctor", context_settings=SERVE_FLAGS)(doctor)
    cli.command("check", context_settings=SERVE_FLAGS)(check)
    cli.command("rollback")(rollback)
    config_cli.command("show", context_settings=SERVE_FLAGS)(show)
    config_cli.command("diff")(diff)


def rollback(
    undo: Annotated[bool, typer.Option("--undo", help="Return to your own settings at the next start.")] = False,
    data_dir: DataDir = None,
    models_dir: ModelsDir = None,
    as_json: AsJson = False,
) -> None:
    """Go back to the last configuration that answered.

    A server that runs starts its engine again with it, chats stay as they are; without one the next start uses it.
    Nothing is written to config.toml. Flags of a later start still count; --undo, or a change of config.toml, ends it.
    """
    from ..instance import ask_json, running_server
    from ..model_store import ModelStore
    from .known_good import KnownGoodStore
    from .recovery import described, find_model

    folders = _folders(data_dir, models_dir)
    store = KnownGoodStore(folders.state)
    server = running_server(folders.data)
    if undo:
        ended = store.end_rollback()
        later = "; the server that runs keeps what it has until it is started again" if server and ended else ""
        message = f"The next start follows your own settings again{later}." if ended else "No rollback is in force."
    elif server is not None:
        status, answer = ask_json(server, "POST", "/api/rollback")
        if status != 200:
            raise PagedChatError(answer.get("error") or "The server that runs cannot go back.")
        message = answer["message"]
    else:
        find_model(store.require(), ModelStore(folders.models))
        began = store.begin_rollback(folders.config_file)
        message = f"The next start uses {described(began.record)}; `pagedchat rollback --undo` takes that back."
    print(json.dumps({"message": message, "running": bool(server)}, ensure_ascii=False) if as_json else message)


def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Print every setting with its value and where it comes from: a flag (serve's flags may follow), a rollback, the
    environment, the config file, the profile, or the default."""
    from .recovery import described, load_or_way_back
    from .show import shown_settings

    configuration = load_or_way_back(serve_flags(context))
    rows, rollback = shown_settings(configuration), configuration.rollback
    for warning in configuration.warnings:
        say(f"pagedchat: {warning}", sys.stderr)
    if as_json:
        since = rollback.since if rollback else None
        found = {
            "settings": {row["name"]: {"value": row["value"], "origin": row["origin"]} for row in rows},
            "config_file": str(configuration.folders.config_file),
            "rolled_back": since,
            "warnings": configuration.warnings,
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print(f"{row['name']:<24} {setting_text(row['name'], row['value']):<24} {row['origin']}")
    if rollback is not None:
        print(f"\nRolled back to {described(rollback.record)}; `pagedchat rollback --undo` ends that.")


def diff(
    a: Annotated[str, typer.Argument(help="A JSON file with a snapshot, or current, known-good or default.")],
    b: Annotated[str, typer.Argument(help="The other one.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print how two configurations differ, a line each with a column for A and one for B: settings, engine, model,
    versions, machine.

    current: the server that runs, its settings and engine; without one, what a start from here would use.
    known-good: the last configuration whose first reply finished well. default: nothing set.
    """
    from .show import snapshot_differences, snapshot_named

    flags = {"data_dir": data_dir}
    found = snapshot_differences(snapshot_named(a, flags), snapshot_named(b, flags))
    if as_json:
        print(json.dumps({"a": a, "b": b, "same": not found, "differences": found}, indent=2, ensure_ascii=False))
        return
    if found:
        print(f"{'':<32} {_cut(a):<28} {_cut(b)}")
    for row in found:
        whole = "." not in row["name"]  # a part of which only one of the two has anything
        left, right = (
            "not known" if whole and row[side] is None else setting_text(row["name"], row[side]) for side in ("a", "b")
        )
        print(f"{row['name']:<32} {left:<28} {right}")
    if not found:
        print(f"{a} and {b} are the same configuration.")


def value_text(value: Any) -> str:
    """A value for a person; what is long is cut, and of a part of a snapshot its first value is told."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return value_text(next(iter(value.values()), None)) + (" and more" if len(value) > 1 else "")
    return _cut(str(value).lower() if isinstance(value, bool) else str(value))


def setting_text(name: str, value: Any) -> str:
    """`value_text` with sizes in units that people read."""
    return size_in_words(value) if name in SIZES and isinstance(value, int) else value_text(value)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _folders(data_dir: Path | None, models_dir: Path | None):
    """The folders, also where the config file cannot be used: that is what one goes back from."""
    from ...engine.errors import ConfigError
    from ..settings import load_settings, usual_folders

    flags = {"data_dir": data_dir, "models_dir": models_dir}
    try:
        return load_settings(flags)[1]
    except ConfigError:
        return usual_folders(flags)
