"""Calls about whole chats: names, pins, folders, archive, trash, drafts, search, and branches as things to keep.

Each change carries the ``version`` of the chat that the page knew, or null to change whatever there is.
"""

from __future__ import annotations

from operator import attrgetter

from ..engine.errors import RequestError
from .call_registry import CALLS, call, or_shown_as_it_is, pass_on
from .connection import Connection
from .views import View, list_item

MOST_HITS = 200

pass_on("delete", "delete", "session")
pass_on("undelete", "undelete", "session")
pass_on("end_temporary", "end_temporary", "session")
pass_on("delete_branch", "delete_branch", "message", answers=True)
pass_on("restore_branch", "restore_branch", "branch", answers=True)
pass_on("trash", "library.trash", answers=True)
pass_on("purge", "library.purge", "ids", answers=True)
pass_on("add_folder", "library.add_folder", "name", answers=True)
pass_on("rename_folder", "library.rename_folder", "folder", "name", answers=True)
pass_on("delete_folder", "library.delete_folder", "folder")
pass_on("undelete_folder", "library.undelete_folder", "folder")
pass_on("presets", "library.presets", answers=True)
pass_on("delete_preset", "library.delete_preset", "preset")
pass_on("undelete_preset", "library.undelete_preset", "preset")


def _change(name: str, method: str, field: str) -> None:
    """Register a change of a chat. Its answer is the chat's line in the list."""

    async def run(connection: Connection, frame: View) -> View:
        work = attrgetter(method)(connection.hub.service)
        change = work(frame["session"], frame[field], version=frame.get("version"))
        return list_item(connection.hub.with_hue(await or_shown_as_it_is(connection, frame["session"], change)))

    CALLS[name] = run


_change("rename", "rename", "title")
_change("pin", "library.pin", "on")
_change("archive", "library.archive", "on")
_change("move", "library.move", "folder")


@call
async def fork(connection: Connection, frame: View) -> View:
    """A new chat with the branch of a message."""
    made = await connection.hub.service.fork(frame["message"], frame["mode"])
    return connection.hub.with_hue(made)


@call
async def copy(connection: Connection, frame: View) -> View:
    """A new chat with everything that a chat has."""
    service = connection.hub.service
    head_id = (await service.core.session(frame["session"])).head_id
    if head_id is None:
        raise RequestError("This chat is empty, so there is nothing to copy.")
    return connection.hub.with_hue(await service.fork(head_id, "tree"))


@call
async def search(connection: Connection, frame: View) -> View:
    """Chats and messages that have some words."""
    limit = min(frame.get("limit") or MOST_HITS, MOST_HITS)
    return await connection.hub.service.library.search(frame["query"], limit, frame.get("offset") or 0)


@call
async def draft(connection: Connection, frame: View) -> View:
    """Keep what is typed in a chat; null is the chat that has not begun."""
    save = connection.hub.service.library.save_draft
    return await save(frame["session"] or "", frame["text"], frame.get("parent"), None, frame.get("version"))


@call
async def save_preset(connection: Connection, frame: View) -> View:
    """Make a preset, or change one."""
    if frame["change"] is None:
        raise RequestError("The page did not say what to keep of the preset; reload it.")
    return await connection.hub.service.library.save_preset(frame["change"], frame.get("version"))
