"""``pagedchat sessions rm``: into the trash, out of it, or away forever."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...engine.errors import PagedChatError
from ...sessions.wording import counted
from ..options import AsJson, DataDir
from .printing import print_json, print_lines

if TYPE_CHECKING:
    from ...sessions.rows import Session


def remove(
    chats: Annotated[list[str], typer.Argument(help="Ids, beginnings of ids, or titles.")],
    undo: Annotated[bool, typer.Option("--undo", help="Take them out of the trash.")] = False,
    forever: Annotated[
        bool, typer.Option("--forever", help="Delete them; it cannot be undone. Copies made before still hold them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Put chats in the trash. Either all of them are found, or none is touched."""
    from ..chat_link import open_link
    from ..settings import load_settings

    if undo and forever:
        raise PagedChatError("--undo and --forever are two things; give one of them.")
    folders = load_settings({"data_dir": data_dir})[1]
    found = _found(folders.database, chats, in_trash=undo, anywhere=forever)
    if forever and not yes:
        _ask(found)
    link = open_link(folders)
    try:
        for session in found:
            if undo:
                link.call("undelete", session_id=session.id)
            elif session.deleted_at is None:
                link.call("delete", session_id=session.id)
        if forever:
            link.call("library.purge", ids=[one.id for one in found])
    finally:
        link.close()
    if as_json:
        print_json([{"id": one.id, "title": one.title} for one in found])
        return
    for one in found:
        print_lines(_told(one, undo, forever))


def _found(database: Path, chats: list[str], *, in_trash: bool, anywhere: bool) -> list[Session]:
    from ...sessions.errors import SessionError
    from ...sessions.lookup import find_session
    from ...sessions.reading import reading

    found = {}
    with reading(database) as connection:
        for name in chats:
            try:
                session = find_session(connection, name, trash=in_trash)
            except SessionError as error:
                if not anywhere:
                    raise
                try:
                    session = find_session(connection, name, trash=True)
                except SessionError:
                    raise error from None
            found[session.id] = session
    return list(found.values())


def _ask(found: list[Session]) -> None:
    """Let the user confirm what cannot be undone.

    Raises:
        PagedChatError: there is nobody to ask, or the answer is no.
    """
    named = ", ".join(repr(one.title or "New chat") for one in found[:5]) + (" and more" if len(found) > 5 else "")
    if not sys.stdin.isatty():
        raise PagedChatError("--forever cannot be undone; add --yes if that is what you want.")
    print(f"Delete {counted(len(found), 'chat')} forever: {named}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PagedChatError("Nothing was deleted.")


def _told(one: Session, undo: bool, forever: bool) -> str:
    title = one.title or "New chat"
    if forever:
        return f"{title}: deleted forever; copies made before still hold it."
    if undo:
        return f"{title}: back in the list."
    return f"{title}: in the trash; `pagedchat sessions rm --undo {one.id}` brings it back."
