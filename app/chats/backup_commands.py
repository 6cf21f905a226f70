"""``pagedchat sessions backup | restore``: copies of all chats, taken and brought back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.errors import PagedChatError
from ...engine.sizes import size_in_words
from ...sessions.wording import counted
from ..options import AsJson, DataDir
from ..terminal import local_time
from .printing import print_json, print_lines

if TYPE_CHECKING:
    from ..folders import Folders

OTHER_START_S = 5.0


def backup(
    file: Annotated[Path | None, typer.Argument(help="Where to.  [default: the folder of backups]")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy all chats, while they are in use or not, and check the copy. Files sent with chats are not in it."""
    from ...sessions.backups import back_up, described
    from ..settings import load_settings

    made = described(back_up(load_settings({"data_dir": data_dir})[1].database, "hand", file))
    if as_json:
        print_json(_row(made))
    else:
        print_lines(f"{made.path}: {counted(made.chats, 'chat')}, {counted(made.messages, 'message')}")


def restore(
    name: Annotated[
        str | None, typer.Argument(metavar="BACKUP", help="Name or file of a copy, or latest.  [default: list them]")
    ] = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Instead of a copy, what can be read of the damaged database.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the copies, or put one in the place of all chats. What is there now is kept beside them."""
    from ...sessions.backups import list_backups
    from ..settings import load_settings

    folders = load_settings({"data_dir": data_dir})[1]
    if name is not None and salvage:
        raise PagedChatError("Give the name of a copy, or --salvage; not both.")
    if name is None and not salvage:
        found = list_backups(folders.database)
        if as_json:
            print_json([_row(one) for one in found])
        else:
            print_lines(*(_line(one) for one in found) if found else [f"There are no copies of {folders.database}."])
        return
    done = _restored(folders, name)
    if as_json:
        print_json(done)
        return
    print_lines(*done["report"], f"Restored {done['restored']}.")
    if done["put_aside"]:
        print_lines(f"What was there before is kept: {done['put_aside']}")


def _restored(folders: Folders, name: str | None) -> dict[str, Any]:
    """Bring a copy back, or what can be salvaged, while no server uses the folder."""
    from ...sessions.restore import find_backup, restore, restore_salvaged
    from ..instance import InstanceLock

    if not folders.data.is_dir():
        raise PagedChatError(f"There are no chats yet: {folders.data} does not exist.")
    lock = InstanceLock(folders.data)
    running = lock.take(OTHER_START_S)
    if running is not None:
        raise PagedChatError(f"pagedchat runs on these chats at {running.url}; end it first, then restore.")
    try:
        if name is None:
            report, aside = restore_salvaged(folders.database)
            told, source = report.sentences(), "what could be read"
        else:
            source = find_backup(folders.database, name)
            told, aside = [], restore(folders.database, source)
    finally:
        lock.release()
    return {"restored": str(source), "put_aside": str(aside) if aside else None, "report": told}


def _row(one: Any) -> dict[str, Any]:
    return {**asdict(one), "path": str(one.path), "name": one.name}


def _line(one: Any) -> str:
    held = one.problem or f"{counted(one.chats, 'chat')}, {counted(one.messages, 'message')}"
    return f"{one.name:<52}  {local_time(one.made_at)}  {size_in_words(one.size):>8}  {held}"
