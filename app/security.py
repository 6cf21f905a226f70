"""Who may talk to the server: an exact list of Host names, and no page of another origin.

The Host check stops DNS rebinding (a foreign name that points to this computer); the Origin check stops other pages in
the user's browser from sending requests or opening WebSockets. Programs send no Origin and need none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; worker-src 'self' blob:; "
    "connect-src 'self' ws://{host} wss://{host}; object-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'"
)
log = logging.getLogger(__name__)


def allowed_hosts(port: int, extra: Iterable[str] = ()) -> frozenset[str]:
    """Host headers that are served, lower case: loopback names with the port, and the names the user added.

    An added name without a port stands for itself and for itself with the server's port.
    """
    hosts = {f"{name}:{port}" for name in LOOPBACK_NAMES}
    if port == 80:
        hosts.update(LOOPBACK_NAMES)
    for name in extra:
        hosts.add(name.lower())
        hosts.add(name.lower() if _has_port(name) else f"{name.lower()}:{port}")
    return frozenset(hosts)


class OnlyOurPage:
    """ASGI middleware: refuses foreign hosts and origins, and tells browsers to load nothing from elsewhere."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._app(scope, receive, _with_policy(send, headers["host"]))
            return
        log.warning("refused %s %s: %s", scope.get("method", "WebSocket"), _area(scope["path"]), refusal)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            await PlainTextResponse(refusal + "\n", status_code=403)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return f"This server does not answer to the name {host!r}; start it with --allowed-host to add one."
        origin = headers.get("origin")
        if origin is not None:
            return None if self._is_ours(origin) else "Requests from pages of another origin are refused."
        if scope.get("method", "GET") not in SAFE_METHODS and headers.get("sec-fetch-site") in (
            "cross-site",
            "same-site",
        ):
            return "Requests from pages of another site are refused."
        return None

    def _is_ours(self, origin: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() in self._hosts


def _with_policy(send: Send, host: str) -> Send:
    async def send_with_policy(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["x-content-type-options"] = "nosniff"
            headers["referrer-policy"] = "no-referrer"
            if headers.get("content-type", "").startswith("text/html"):
                headers["content-security-policy"] = _POLICY.format(host=host)
        await send(message)

    return send_with_policy


def _area(path: str) -> str:
    """The beginning of a path: what comes later may be a name that a user gave."""
    return "/".join(path.split("/")[:3])[:60]


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdigit() and not name.endswith("]")
