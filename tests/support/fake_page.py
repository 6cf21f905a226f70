"""A page without a browser: what it asks for, and what it holds after all that it was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pagedchat.engine.errors import RequestError
from pagedchat.ui.calls import answer
from pagedchat.ui.connection import Connection
from pagedchat.ui.hub import Hub


class FakePage:
    """What a browser would hold: the frames, and the blocks of every message with patches applied."""

    def __init__(self, hub: Hub) -> None:
        self.frames: list[dict[str, Any]] = []
        self.sizes: dict[str, list[int]] = {}
        self.blocks: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.connection = Connection(hub, self._take)
        self._calls = 0
        hub.join(self.connection)
        self._pump = asyncio.create_task(self.connection.pump())

    async def _take(self, data: bytes) -> None:
        await self.hold.wait()
        frame = json.loads(data)
        self.frames.append(frame)
        self.sizes.setdefault(frame.get("ev", "answer"), []).append(len(data))
        self._apply(frame)

    def _apply(self, frame: dict[str, Any]) -> None:
        views = frame.get("messages", []) + ([frame["message"]] if frame.get("ev") == "message" else [])
        for view in views:
            if view.get("blocks") is not None:
                self.blocks[view["id"]] = view["blocks"]
        if "kept" in frame:
            self.ids = [*self.ids[: frame["kept"]], *frame["ids"]]
        if frame.get("ev") == "patch":
            old = self.blocks[frame["id"]]
            kept = old[: frame["at"]]
            for index, html in enumerate(frame["html"]):
                before = old[frame["at"]] if index == 0 and frame["keep"] else ""
                kept.append(utf16_prefix(before, frame["keep"]) + html)
            assert len(kept) == frame["total"]
            self.blocks[frame["id"]] = kept

    async def call(self, op: str, **arguments: Any) -> Any:
        self._calls += 1
        reply = await answer(self.connection, {"id": self._calls, "op": op, **arguments})
        if "error" in reply:
            raise RequestError(reply["error"])
        if isinstance(reply["ok"], dict):
            self._apply(reply["ok"])
        return reply["ok"]

    async def until(self, condition: Callable[[], Any]) -> None:
        for _ in range(1_000):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("this never came")

    def leave(self, hub: Hub) -> None:
        hub.leave(self.connection)
        self._pump.cancel()


def unpacked_rows(table: dict[str, Any], before: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a packed block table, for a page that has ``before``."""
    rows = []
    for run in table["rows"]:
        alike = {name: value for name, value in run.items() if name not in ("span", "physical")}
        for at in range(run["span"]):
            logical = run["logical"] + at
            block = run["physical"][at] if "physical" in run else before[logical]["physical"]
            rows.append({**alike, "logical": logical, "physical": block})
    return rows


def utf16_prefix(text: str, units: int) -> str:
    return text.encode("utf-16-le")[: 2 * units].decode("utf-16-le")
