"""Puts our early script and preloads into Gradio's HTML, where Gradio itself would add them only after it has started.

So the theme is there before the first paint, our files load beside Gradio's, and its start-up spinner, whose timer
never ends (Gradio 6.31), does not keep an idle page busy.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"<head>"


class EarlyHead:
    """ASGI wrapper: adds ``html`` to the start of the head of the page at "/"."""

    def __init__(self, app: ASGIApp, html: str) -> None:
        self._app = app
        self._html = html.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != scope.get("root_path", "") + "/":
            await self._app(scope, receive, send)
            return
        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        await self._app({**scope, "headers": plain}, receive, self._adding(send))

    def _adding(self, send: Send) -> Send:
        start: Message = {}
        parts: list[bytes] = []

        async def send_added(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            parts.append(message.get("body", b""))
            if message.get("more_body"):
                return
            body = b"".join(parts)
            headers = MutableHeaders(scope=start)
            if headers.get("content-type", "").startswith("text/html"):
                body = body.replace(HEAD, HEAD + self._html, 1)
                headers["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": body})

        return send_added
