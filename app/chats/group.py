"""``pagedchat sessions``: the commands of the group, each in a file of its own."""

from __future__ import annotations

import typer

from .backup_commands import backup, restore
from .file_commands import export, import_
from .list_commands import list_, search
from .remove_command import remove
from .show_command import show
from .stats_command import stats

sessions_cli = typer.Typer(help="The chats of this computer.", rich_markup_mode=None)


@sessions_cli.callback()
def _group() -> None:
    """The chats of this computer."""


sessions_cli.command("list")(list_)
sessions_cli.command("show")(show)
sessions_cli.command("search")(search)
sessions_cli.command("export")(export)
sessions_cli.command("import")(import_)
sessions_cli.command("backup")(backup)
sessions_cli.command("restore")(restore)
sessions_cli.command("rm")(remove)
sessions_cli.command("stats")(stats)
