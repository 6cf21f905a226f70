"""What a terminal may ask of the chats, by name: the same over a server's socket and on chats opened here."""

from __future__ import annotations

import inspect
import logging
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

from ..engine.errors import PagedChatError, RequestError
from ..sessions.checks import check_id

PATH = "/api/chats"
"""Of the server's socket for terminals."""
LARGEST_FRAME = 4 << 20
"""Characters of a call; longer ones are not sent, and end the connection where they come."""
GOING_AWAY = 1001
"""With this code a server that ends closes a socket (RFC 6455, section 7.4.1)."""
Events = SimpleQueue[dict[str, Any]]
"""What happens to chats, as the service tells it; ``LOST`` is the last one when there is nothing more to come. A signal
handler may put something in."""
LOST = "lost"
METHODS = frozenset(
    (
        "last_session",
        "create_session",
        "rename",
        "delete",
        "undelete",
        "update_settings",
        "open",
        "send",
        "regenerate",
        "continue_reply",
        "edit",
        "select",
        "stop",
        "delete_branch",
        "restore_branch",
        "fork",
        "end_temporary",
        "library.presets",
        "library.purge",
    )
)
"""Methods of the chat service, and of its library after a dot."""
IDS = ("session_id", "message_id", "parent_id", "preset_id", "folder_id", "deletion")
LISTS = ("attachment_ids", "ids")
log = logging.getLogger(__name__)


async def run_call(service: Any, client: Any, method: Any, arguments: Any) -> Any:
    """Call a method of the chat service.

    Args:
        client: the engine client, for the one method that is not the service's: ``status``.
        method: one of ``METHODS``, or ``status``.
        arguments: by name.

    Raises:
        PagedChatError: it is not known, does not take these arguments, or cannot be done.
    """
    if method == "status":
        return status_view(client)
    if not isinstance(method, str) or method not in METHODS or not isinstance(arguments, dict):
        raise RequestError(f"There is no call {method!r}; terminal and server are of different versions.")
    function = attrgetter(method)(service)
    _check(arguments)
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise RequestError(f"{method} cannot be called like this ({error}).") from error
    return await function(**arguments)


def _check(arguments: dict[str, Any]) -> None:
    """Refuse arguments of a kind that a terminal of ours would never send."""
    for name in IDS:
        check_id(name.removesuffix("_id"), arguments.get(name))
    for name in LISTS:
        given = arguments.get(name, [])
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise RequestError("The terminal sent a list of ids that is none.")
    if not isinstance(arguments.get("params"), dict | None):
        raise RequestError("The terminal sent settings that are none.")


async def answer(service: Any, client: Any, frame: dict[str, Any]) -> dict[str, Any]:
    """The answer to one frame ``{"id", "call", "with"}``; whatever goes wrong becomes a sentence."""
    try:
        return {"re": frame["id"], "ok": await run_call(service, client, frame.get("call"), frame.get("with") or {})}
    except PagedChatError as error:
        return {"re": frame["id"], "error": str(error)}
    except Exception as error:
        log.exception("a call of a terminal failed")
        return {"re": frame["id"], "error": f"The server met an internal error ({type(error).__name__}); see its log."}


def status_view(client: Any) -> dict[str, Any]:
    """What the engine does: ``state``, ``progress``, ``message``, ``model`` (None while it is not known),
    ``compiling`` (kernels are being made, so that it is slow meanwhile), ``warnings``."""
    status = client.status
    info = status.info or {}
    view = {"state": status.state, "progress": status.progress, "message": status.message}
    about = {"compiling": bool(info.get("compiling")), "warnings": list(info.get("warnings") or [])}
    return {**view, **about, "model": info.get("model")}
