"""``pagedchat sessions list | search``: which chats there are, and where something was said."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...sessions.wording import counted
from ..options import AsJson, DataDir
from ..terminal import local_time
from .printing import SHORT_ID, print_json, print_lines, short_ids, tell

if TYPE_CHECKING:
    from ...sessions.lookup import Listed


def list_(
    archived: Annotated[bool, typer.Option("--archived", help="The chats in the archive.")] = False,
    trash: Annotated[bool, typer.Option("--trash", help="The chats in the trash.")] = False,
    folder: Annotated[str | None, typer.Option("--folder", help="Only the chats in this folder.")] = None,
    number: Annotated[int | None, typer.Option("-n", min=1, help="So many at most.  [default: all]")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List the chats, pinned ones first, then the latest."""
    from ...sessions.lookup import list_sessions
    from ...sessions.reading import reading
    from ...sessions.schema import empty_notice
    from ..settings import load_settings

    database = load_settings({"data_dir": data_dir})[1].database
    with reading(database) as connection:
        found = list_sessions(connection, archived=archived, trash=trash, folder=folder, limit=number)
        short = short_ids([row[0] for row in connection.execute("SELECT id FROM sessions")])
        notice = None if found else empty_notice(connection, database)
    if as_json:
        print_json([_row(one) for one in found])
        return
    print_lines(*(_line(one, short[one.session.id]) for one in found))
    if notice is not None:
        tell(notice)
    elif not found:
        tell("The trash is empty." if trash else "The archive is empty." if archived else "There are no chats here.")


def search(
    query: Annotated[list[str], typer.Argument(help="Words, and filters such as role:user or after:2026-05.")],
    number: Annotated[int, typer.Option("-n", min=1, help="So many hits at most.")] = 20,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Search all chats: words that all occur, "a phrase", -not this.

    Filters: role: folder: model: before: after: has:. After -- a word may begin with a minus.
    """
    from ...sessions.reading import open_reader
    from ...sessions.search import Search
    from ...sessions.views import found_view
    from ..settings import load_settings

    with open_reader(load_settings({"data_dir": data_dir})[1].database) as reader:
        found = found_view(Search(reader, reader).find(" ".join(query), number))
        with reader.reading() as connection:
            short = short_ids([row[0] for row in connection.execute("SELECT id FROM sessions")])
    if as_json:
        print_json(found)
        return
    print_lines(*(line for hit in found["hits"] for line in hit_lines(hit, short)))
    tell(hits_counted(found))


def hit_lines(hit: dict[str, Any], short: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A hit for people; ``short`` has beginnings of ids that no other chat shares."""
    named = short.get(hit["session_id"], hit["session_id"][:SHORT_ID])
    return [f"{named}  {local_time(hit['created_at'])}  {hit['title']}", f"    {_snippet(hit)}"]


def hits_counted(found: dict[str, Any]) -> str:
    """How much was found, and what there is to say of it."""
    shown, more = len(found["hits"]), "more than " if found["more"] else ""
    counts = f"{shown} of {more}{counted(found['total'], 'hit')}" if found["total"] else "Nothing was found."
    return f"{counts} {found['note']}".strip()


def _snippet(hit: dict[str, Any]) -> str:
    text = "".join(f"[{part}]" if wanted else part for part, wanted in hit["snippet"])
    return f"{hit['role'] or hit['part']}: {' '.join(text.split())}"


def _row(one: Listed) -> dict[str, Any]:
    session = one.session
    return {
        "id": session.id,
        "title": session.title,
        "folder": one.folder,
        "messages": one.messages,
        "model": session.model,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "pinned": session.pinned,
        "archived": session.archived,
        "deleted_at": session.deleted_at,
    }


def _line(one: Listed, short: str) -> str:
    marks = [f"in {one.folder}"] if one.folder else []
    marks += [name for name in ("pinned", "archived") if getattr(one.session, name)]
    marked = f"  ({', '.join(marks)})" if marks else ""
    when = local_time(one.session.updated_at)
    return f"{short}  {when}  {counted(one.messages, 'message'):>14}  {one.session.title or 'New chat'}{marked}"
