"""Who may read what blocks hold: only somebody at this computer, and only text of chats that this server keeps.

The one place where that is decided. A block's token ids spell its text, so that they are told under the same rule.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

AWAY = "Tokens and their text are shown only in a browser on the computer that pagedchat runs on."
OTHERS = "Its tokens are not shown: no chat of this server that may be read here has them."
FREE = "It holds no tokens."
_PASSED_ON = (b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")


def is_near(scope: Mapping[str, Any]) -> bool:
    """Whether an ASGI connection comes from this computer: both ends, and the name that it was asked for, are loopback.

    A proxy for others passes on their address or another name.
    """
    ends = [(scope.get(end) or ("",))[0] for end in ("client", "server")]
    headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
    if any(name in headers for name in _PASSED_ON):
        return False
    host = urlsplit(f"//{headers.get(b'host', '')}").hostname or ""
    return all(_is_loopback(one) for one in ends) and (host == "localhost" or _is_loopback(host))


async def why_no_text(
    service: Any, near: bool, session_ids: Iterable[str], shown: str | None = None, held: bool = True
) -> str | None:
    """Why the tokens of a block must not be told; None if they may.

    Args:
        service: the chat service.
        near: see ``is_near``.
        session_ids: whose content it is, as the engine tells.
        shown: the chat that is shown to whoever asks. The text of a temporary chat is for its own page only.
        held: whether the block holds anything.
    """
    if not near:
        return AWAY
    if not held:
        return FREE
    for one in session_ids:
        readable = one == shown if service.core.is_temporary(one) else await service.blocks.holds(one)
        if readable:
            return None
    return OTHERS


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
