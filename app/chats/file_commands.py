"""``pagedchat sessions export | import``: chats as files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...engine.errors import PagedChatError
from ..options import AsJson, DataDir
from .printing import print_json, print_lines, tell


def export(
    chats: Annotated[list[str] | None, typer.Argument(help="Ids, beginnings of ids, or titles.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All chats that are not in the trash.")] = False,
    format_name: Annotated[
        str, typer.Option("-f", "--format", help="pagedchat, markdown, text, openai or sharegpt.")
    ] = "pagedchat",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File to write.  [default: stdout]")] = None,
    shown: Annotated[bool, typer.Option("--shown", help="Only the branch that is shown, where branches fit.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write chats to a file. Only pagedchat's own format (the default) keeps everything."""
    from ...sessions.exchange.formats import export as written
    from ..settings import load_settings

    if bool(chats) == everything:
        raise PagedChatError("Name the chats to export, or give --all for all of them.")
    database = load_settings({"data_dir": data_dir})[1].database
    shelf = shelf_of(database) if everything else None
    made = written(trees_of(database, chats), format_name, branches=not shown, shelf=shelf)
    if output is None:
        if as_json:
            raise PagedChatError("--json tells of the file that -o names; without -o the file itself is printed.")
        sys.stdout.flush()
        sys.stdout.buffer.write(made.data)
        sys.stdout.buffer.flush()
        return
    target = output / made.name if output.is_dir() else output
    write_file(target, made.data, force)
    if as_json:
        print_json({"path": str(target.absolute()), "bytes": len(made.data), "media_type": made.media_type})
    else:
        tell(f"Wrote {target} ({len(made.data):,} bytes).")


def import_(
    files: Annotated[list[Path], typer.Argument(help="Exports of pagedchat, ChatGPT, Open WebUI, llama.cpp, ...")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and report, store nothing.")] = False,
    skip_seen: Annotated[bool, typer.Option("--skip-seen", help="Leave out chats that were imported before.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Bring in the chats of files, each file whole or not at all.

    A report says what came, what was mended and what did not come.
    """
    from ..chat_link import open_link
    from ..settings import load_settings

    contents = [(file.name, _read(file)) for file in files]
    if dry_run:
        reports = [_dry_report(name, data) for name, data in contents]
    else:
        link = open_link(load_settings({"data_dir": data_dir})[1])
        try:
            reports = [_imported(link, name, data, skip_seen) for name, data in contents]
        finally:
            link.close()
    if as_json:
        print_json(reports)
    else:
        print_lines(*(line for report in reports for line in report_lines(report)))
    if any("error" in one for one in reports):
        raise typer.Exit(1)


def report_lines(report: dict[str, Any]) -> list[str]:
    """A report for people."""
    if "error" in report:
        return [f"{report['file']}: {report['error']}"]
    lines = [f"{report['file']}: {report['summary']}"]
    lines += [f"  {note}" for note in report["notes"]]
    for chat in report["chats"]:
        lines += [f"  {chat['title']}: {repair}" for repair in chat["repairs"]]
    return lines + [f"  left out: {one['chat']}: {one['reason']}" for one in report["skipped"]]


def trees_of(database: Path, chats: list[str] | None) -> list[Any]:
    """The chats that are named, or all that are not in the trash, as files have them.

    Raises:
        SessionError: there is no such chat.
    """
    from ...sessions.exchange.exchange_store import ExchangeStore
    from ...sessions.exchange.files import FileFolder
    from ...sessions.lookup import find_session, list_sessions
    from ...sessions.reading import open_reader

    with open_reader(database) as reader:
        with reader.reading() as connection:
            if chats:
                ids = [find_session(connection, one).id for one in chats]
            else:
                listed = list_sessions(connection) + list_sessions(connection, archived=True)
                ids = [one.session.id for one in listed]
        store = ExchangeStore(reader, reader, FileFolder(database.parent / "attachments"))
        return [store.read_tree(one) for one in dict.fromkeys(ids)]


def shelf_of(database: Path) -> Any:
    """All presets and folders, as files have them."""
    from ...sessions.exchange.exchange_store import ExchangeStore
    from ...sessions.exchange.files import FileFolder
    from ...sessions.reading import open_reader

    with open_reader(database) as reader:
        return ExchangeStore(reader, reader, FileFolder(database.parent / "attachments")).shelf()


def write_file(target: Path, data: bytes, force: bool) -> None:
    """Write a file whole or not at all.

    Raises:
        PagedChatError: it is there already, or cannot be written.
    """
    from ..folders import reason_of

    if target.exists() and not force:
        raise PagedChatError(f"{target} exists already; name another file, or replace it with --force.")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise PagedChatError(f"{target} cannot be written ({reason_of(error)}).") from error


def _read(file: Path) -> bytes:
    """A file's content, or so much that it is refused as too large: a pipe or a device may have no end."""
    from ...sessions.exchange.parsing import MOST_BYTES
    from ..folders import reason_of

    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MOST_BYTES + 1)
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise PagedChatError(f"{file} cannot be read ({reason_of(error)}).") from error


def _dry_report(name: str, data: bytes) -> dict[str, Any]:
    from ...sessions.exchange.reading import read_file
    from ...sessions.exchange.report import ExchangeError, ImportedChat
    from ...sessions.titles import UNTITLED

    try:
        reading = read_file(name, data)
    except ExchangeError as error:
        return {"file": name, "error": str(error)}
    for tree, repairs in reading.trees:
        reading.report.chats.append(ImportedChat("", tree.title or UNTITLED, len(tree.nodes), repairs=list(repairs)))
    view = reading.report.to_view()
    return {**view, "file": name, "summary": "Nothing was stored. " + view["summary"].replace("imported", "to import")}


def _imported(link: Any, name: str, data: bytes, skip_seen: bool) -> dict[str, Any]:
    try:
        return {**link.import_file(name, data, skip_seen), "file": name}
    except PagedChatError as error:
        if link.lost:
            raise
        return {"file": name, "error": str(error)}
