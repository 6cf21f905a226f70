"""The calls of the page's script: one function each, found by its name. Those about whole chats: ``library_calls``."""

from __future__ import annotations

import logging

from .. import __version__
from ..engine.errors import PagedChatError, RequestError
from ..sessions.sampling import PARAM_NAMES
from . import (
    block_calls,
    file_calls,
    library_calls,
    message_calls,
    panel_calls,
    prefix_calls,
    queue_calls,
    settings_calls,
    token_calls,
    tour_calls,
    tree_calls,
    waits_calls,
)
from .call_registry import CALLS, call, check, or_shown_as_it_is, pass_on
from .connection import Connection, alerts_view, status_view
from .views import View

__all__ = [
    "CALLS",
    "answer",
    "block_calls",
    "file_calls",
    "library_calls",
    "message_calls",
    "panel_calls",
    "prefix_calls",
    "queue_calls",
    "settings_calls",
    "token_calls",
    "tour_calls",
    "tree_calls",
    "waits_calls",
]

log = logging.getLogger(__name__)


async def answer(connection: Connection, frame: View) -> View:
    """Run one call; errors become a sentence for the page, so that it never waits for an answer in vain."""
    try:
        run = CALLS.get(str(frame.get("op")))
        if run is None:
            raise RequestError("This page is older than the server; reload it.")
        check(frame)
        return {"re": frame["id"], "ok": await run(connection, frame)}
    except PagedChatError as error:
        return {"re": frame["id"], "error": str(error)}
    except (KeyError, TypeError, ValueError) as error:
        return {"re": frame["id"], "error": f"The page sent something that was not understood ({error})."}
    except Exception as error:
        log.exception("a call of the page failed")
        return {"re": frame["id"], "error": f"The server met an internal error ({type(error).__name__}); see its log."}


@call
async def hello(connection: Connection, frame: View) -> View:
    """First call of every connection: the list of chats, the engine, the chat to show, what there is to tell."""
    hub = connection.hub
    sessions = await hub.sessions()
    known = {one["id"] for one in sessions}
    wanted = frame.get("session")
    missing = await _missing(connection, wanted) if wanted and wanted not in known else None
    if wanted not in known and not frame.get("blank"):
        last = await hub.service.last_session()
        wanted = last["id"] if last else None
    return {
        "version": __version__,
        "sessions": sessions,
        "folders": await hub.service.library.folders(),
        "status": status_view(hub),
        "alerts": alerts_view(hub),
        "session": wanted if wanted in known else None,
        "missing": missing,
        "notice": hub.service.store.notice,
    }


async def _missing(connection: Connection, session_id: str) -> str:
    """Why a chat is not in the list: it is "deleted", which can be taken back, or "gone"."""
    trash = await connection.hub.service.library.trash()
    return "deleted" if any(one["id"] == session_id for one in trash["sessions"]) else "gone"


pass_on("edit", "edit", "message", "text")
pass_on("select", "select", "message")
pass_on("resume", "continue_reply", "message")
pass_on("stop", "stop", "message")


@call
async def open_(connection: Connection, frame: View) -> View:
    """Show a chat (null: none yet), at a message if one is named."""
    draft = await connection.hub.service.library.draft(frame["session"] or "")
    if frame["session"] is None:
        connection.leave_session()
        return {"draft": draft}
    return {**await connection.open(frame["session"], frame.get("message")), "draft": draft}


@call
async def older(connection: Connection, frame: View) -> None:
    await connection.widen()


@call
async def create(connection: Connection, frame: View) -> View:
    """A new chat. Where nothing is chosen for it, one that was made before and never used will do."""
    service = connection.hub.service
    if not any(frame.get(name) for name in ("params", "preset", "folder", "temporary", "system_prompt")):
        unused = await service.library.begin_unused(connection.hub.shown_elsewhere(connection))
        if unused is not None:
            return connection.hub.with_hue(unused)
    session = await service.create_session(
        frame.get("system_prompt"),
        frame.get("params"),
        preset_id=frame.get("preset"),
        folder_id=frame.get("folder"),
        temporary=frame.get("temporary") or False,
    )
    return connection.hub.with_hue(session)


@call
async def settings(connection: Connection, frame: View) -> View:
    """Change some settings of a chat, or put all back to the model's own."""
    service, session_id, change = connection.hub.service, frame["session"], dict(frame["change"])
    if change.pop("reset", False):
        changes: View = {"system_prompt": None, "params": dict.fromkeys(PARAM_NAMES)}
    else:
        changes = {"system_prompt": change.pop("system_prompt")} if "system_prompt" in change else {}
        if change:
            changes["params"] = {name: change[name] for name in PARAM_NAMES if name in change}
    change = service.update_settings(session_id, **changes, version=frame.get("version"))
    changed = await or_shown_as_it_is(connection, session_id, change)
    return {**changed, "info": connection.hub.client.status.info}


@call
async def send(connection: Connection, frame: View) -> View:
    """Store a question and begin its reply; without a session a new one begins.

    ``beside`` is the message that another page had sent from the same place before, if there is one.
    """
    service, files = connection.hub.service, frame.get("files") or []
    connection.narrow()  # what is sent is shown at the end, far from what was looked up before
    sent = await service.send(frame["session"], frame.get("parent"), frame["text"], files)
    user = sent["user"]
    others = [one for one in user["siblings"] if one != user["id"]] if user["parent_id"] == frame.get("parent") else []
    answer = {"session": user["session_id"], "user": user["id"], "reply": sent["reply"]["id"]}
    return {**answer, "beside": others[-1] if others else None}


@call
async def text(connection: Connection, frame: View) -> str:
    """The answer of a running reply so far."""
    reply = connection.hub.rendered(frame["message"])
    return reply.answer.text if reply else ""


@call
async def rollback(connection: Connection, frame: View) -> str:
    """Go back to the configuration that answered."""
    if connection.hub.recovery is None:
        raise RequestError("This server knows no configuration to go back to.")
    return await connection.hub.recovery.rollback()


@call
async def alerts(connection: Connection, frame: View) -> View | None:
    """All rules as of now: what is quiet changes without a word."""
    return alerts_view(connection.hub)


@call
async def probe(connection: Connection, frame: View) -> View:
    """What a message would find cached if it were sent now; "refused" says why it can never be."""
    hub = connection.hub
    question, told = await file_calls.planned(connection, frame)
    try:
        found = await hub.client.probe(**question)
    except RequestError as error:
        found = {"refused": str(error)}
    typed = len(await hub.client.tokenize(frame["text"]))
    why = await prefix_calls.why_not_found(connection, question, found)
    more = {"typed_tokens": typed, "reply_limit": question["max_tokens"], "why": why, **told}
    return {**found, **more, "max_model_len": hub.client.status.info.get("max_model_len", 0)}
