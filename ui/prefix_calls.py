"""Calls about what branches of a chat share, and about why a prompt is not found in the cache."""

from __future__ import annotations

from ..sessions.why_not_cached import in_prompt, sentence
from .call_registry import call
from .connection import Connection
from .views import View

_TOLD = ("first", "blocks", "tokens", "cached", "branches", "parent", "shown", "messages", "others", "twice", "cost")


@call
async def kv_tree(connection: Connection, frame: View) -> View | None:
    """The block tables of the shown chat's branches as one tree of runs; see ``PrefixService.tree``.

    ``counts`` are one number where all are equal. None while no chat is shown.
    """
    session = connection.session_id
    if session is None:
        return None
    tree = await connection.hub.service.prefixes.tree(session)
    return {**tree, "runs": [_short(run) for run in tree["runs"]]}


@call
async def kv_why(connection: Connection, frame: View) -> View | None:
    """Why the branch of the block table is not found in the cache to its end: {"session", "end", "sentence", "differs",
    "message", "reason"}; see ``PrefixService.why``. None while no chat is shown."""
    session, end = connection.session_id, connection.panel.end
    if session is None:
        return None
    found = await connection.hub.service.prefixes.why(session, end)
    return {
        "session": session,
        "end": end,
        "sentence": found["sentence" if connection.near else "plain"],
        "differs": found["differs" if connection.near else "differs_plain"],
        "message": found["message"],
        "reason": found["reason"],
    }


async def why_not_found(connection: Connection, question: View, found: View) -> str | None:
    """The sentence for a message that is not sent yet; None where there is nothing to explain."""
    if "reason" not in found:
        return None
    token = None
    if connection.near and found.get("token_id") is not None and found["reason"] not in (None, "new"):
        token = await connection.hub.service.prefixes.spelled(found["token_id"])
    return sentence(
        found,
        where=in_prompt(question["messages"], found),
        begins="If you send this now",
        temporary=bool(question["salt"]),
        token=token,
    )


def _short(run: View) -> View:
    counts = run["counts"]
    return {**{name: run[name] for name in _TOLD}, "counts": counts[0] if len(set(counts)) == 1 else counts}
