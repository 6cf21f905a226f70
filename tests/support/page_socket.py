"""A page's WebSocket without a page: calls and their answers."""

from __future__ import annotations

import json
from typing import Any

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from support.running_app import RunningApp


class Page:
    """A page's WebSocket without the page."""

    def __init__(self, app: RunningApp) -> None:
        self.socket: ClientConnection = connect(
            app.url.replace("http", "ws") + "/ui/ws", origin=Origin(app.url), legacy=True
        )
        self._id = 0

    def call(self, op: str, **fields: Any) -> Any:
        self._id += 1
        self.socket.send(json.dumps({"id": self._id, "op": op, **fields}))
        while True:
            frame = json.loads(self.socket.recv(timeout=120))
            if frame.get("re") == self._id:
                assert "error" not in frame, frame
                return frame["ok"]
