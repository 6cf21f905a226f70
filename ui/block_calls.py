"""Calls about one block, and about where the messages of a branch lie."""

from __future__ import annotations

from dataclasses import asdict

from ..sessions.errors import SessionError
from ..sessions.pieces import pieces_of
from .block_text import why_no_text
from .call_registry import call
from .connection import Connection
from .kv_feed import page_event
from .views import View

SHORT_WORDS = 60
"""Characters of a block's text that are told in passing."""
_TOLD = (
    *("id", "seq", "state", "ref_count", "num_tokens", "owners", "block_size", "kv_group", "logical"),
    *("chain", "children", "sessions"),
)
_HISTORY = ("born_s", "last_used_s", "reuses", "pinned")


@call
async def kv_block(connection: Connection, frame: View) -> View:
    """All that a page may know of a block; ``pieces`` are its tokens, or None, and then ``why`` says why.

    "row" is its place in the shown branch, or None; "places" are the messages of that branch that lie in it: see
    ``BlockWords.words``. Only the page's own chat is ever in them.
    """
    detail = await connection.hub.client.block(frame["block"])
    pieces, why = await _pieces(connection, detail)
    return {
        **{name: detail[name] for name in _TOLD},
        **{name: detail[name] for name in _HISTORY if name in detail},
        "holders": [{name: one[name] for name in ("session_id", "message_id", "logical")} for one in detail["holders"]],
        "events": [page_event(one) for one in detail["events"]],
        "pieces": pieces,
        "why": why,
        **await _in_branch(connection, detail, with_text=why is None),
    }


@call
async def kv_words(connection: Connection, frame: View) -> str:
    """The first words of a block's text; empty where they must not be told."""
    detail = await connection.hub.client.block(frame["block"])
    pieces, _ = await _pieces(connection, detail)
    text = "".join(one["text"] for one in pieces or [] if not one["control"])
    return text if len(text) <= SHORT_WORDS else f"{text[:SHORT_WORDS].rstrip()} …"


@call
async def kv_parts(connection: Connection, frame: View) -> View:
    """Which message each part of the shown branch is, by its tokens; see ``BlockWords.parts``."""
    session, end = connection.session_id, connection.panel.end
    parts = [] if session is None else await connection.hub.service.blocks.parts(session, end)
    return {"session": session, "end": end, "parts": parts}


async def _pieces(connection: Connection, detail: View) -> tuple[list[View] | None, str | None]:
    hub, ids = connection.hub, detail["token_ids"]
    why = await why_no_text(hub.service, connection.near, detail["sessions"], connection.session_id, bool(ids))
    if why is not None:
        return None, why
    pieces = pieces_of(await hub.client.pieces(ids))
    told = ("index", "count", "text", "control")
    return [{name: value for name, value in asdict(one).items() if name in told} for one in pieces], None


async def _in_branch(connection: Connection, detail: View, with_text: bool) -> View:
    """Where a block is in the shown branch, and what of its messages is in it."""
    session, end, first = connection.session_id, connection.panel.end, None
    places: list[View] = []
    try:
        if session is not None and detail["num_tokens"]:
            first = await _place(connection, session, end, detail["id"])
        if session is not None and first is not None:
            last = first + detail["num_tokens"]
            places = await connection.hub.service.blocks.words(session, end, first, last)
    except SessionError:
        places = []  # the chat is gone
    if not with_text:
        places = [{**one, "text": "", "written": None} for one in places]
    return {"row": None if first is None else first // detail["block_size"], "places": places}


async def _place(connection: Connection, session: str, end: str | None, block: int) -> int | None:
    """The place in the shown branch of a block's first token; None if the branch does not have the block."""
    service, client = connection.hub.service, connection.hub.client
    rows = await client.branch(await service.branch_tokens(session, end), service.salt(session))
    size = client.status.info.get("block_size", 16)
    return next((row["logical"] * size for row in rows if row["block"] == block), None)
