"""``/api/kv``: the block pool for programs. A client reads the snapshot, then follows the events from its ``seq``."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from ..engine.client import EngineClient
from ..engine.errors import PagedChatError
from .api_body import read_json, text
from .api_errors import ApiError, ApiRoute, json_response
from .api_v1 import ready_info
from .api_v1_request import chat_request, check_model, prompts
from .streaming import StreamingAnswer

KEEP_ALIVE_S = 15.0
MAX_BEHIND = 10_000
BranchTokens = Callable[[str, str | None], Awaitable[list[int]]]


def kv_router(client: EngineClient, branch_tokens: BranchTokens) -> APIRouter:
    """The routes under ``/api/kv``.

    Args:
        branch_tokens: ids of a session's branch, up to a message or, for None, of the branch that is shown.
    """
    router = APIRouter(prefix="/api/kv", route_class=ApiRoute)

    @router.get("/snapshot")
    async def snapshot() -> Response:
        ready_info(client)
        return json_response(await client.snapshot())

    @router.get("/branch")
    async def branch(session: str = "", message: str = "") -> Response:
        info = ready_info(client)
        if not session:
            raise ApiError(400, "Name the session: /api/kv/branch?session=ID.", param="session")
        try:
            ids = await branch_tokens(session, message or None)
        except PagedChatError as error:
            raise ApiError(404, str(error)) from error
        answer = {"session": session, "message": message or None, "block_size": info["block_size"]}
        return json_response({**answer, "num_tokens": len(ids), "blocks": await client.branch(ids)})

    @router.post("/probe")
    async def probe(request: Request) -> Response:
        body = await read_json(request)
        info = ready_info(client)
        check_model(body, info["model"])
        return json_response(await client.probe(**_probed(body), salt=text(body, "cache_salt")))

    @router.post("/reset")
    async def reset() -> Response:
        ready_info(client)
        try:
            await client.reset_cache()
        except PagedChatError as error:
            raise ApiError(409, str(error)) from error
        return json_response({"reset": True})

    @router.get("/events")
    async def events(request: Request) -> Response:
        ready_info(client)
        return StreamingAnswer(_follow(client, _start_of(request)))

    return router


def _probed(body: dict[str, Any]) -> dict[str, Any]:
    """The one prompt of a completion's or a chat's body, as arguments of ``client.probe``."""
    if "messages" in body:
        return {"messages": chat_request(body, {}).requests[0].messages}
    found = prompts(body)
    if len(found) != 1:
        raise ApiError(400, f"A probe is about one prompt, not {len(found)}.", param="prompt")
    return {"prompt": found[0].get("prompt"), "token_ids": found[0].get("prompt_token_ids")}


def _start_of(request: Request) -> int | None:
    """Number of the last event the client knows; None if it only wants new ones."""
    value = request.query_params.get("from") or request.headers.get("last-event-id")
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 18:
        raise ApiError(400, f"from must be the number of an event, not {value[:60]!r}.", param="from")
    return int(value)


async def _follow(client: EngineClient, start: int | None) -> AsyncIterator[bytes]:
    """Server-sent events after ``start``, without gap or repetition; a "reset" wherever that is impossible."""
    fresh: deque[dict[str, Any]] = deque()
    arrived = asyncio.Event()
    overflowed = False

    def take(batch: list[dict[str, Any]]) -> None:
        nonlocal overflowed
        fresh.extend(batch)
        if len(fresh) > MAX_BEHIND:
            fresh.clear()
            overflowed = True
        arrived.set()

    unwatch = client.watch_events(take)
    try:
        known = (await client.snapshot())["seq"] if start is None else start
        missed = [] if start is None else await client.events_since(start)
        if missed is None:
            known = (await client.snapshot())["seq"]
            missed = [_reset(known)]
        yield b": following\n\n" + _lines(missed)
        known = max([known, *(event["seq"] for event in missed)])
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(arrived.wait(), KEEP_ALIVE_S)
            arrived.clear()
            if overflowed:
                overflowed = False
                known = (await client.snapshot())["seq"]
                yield _lines([_reset(known)])
                continue
            events = [event for event in fresh if event["seq"] > known]
            fresh.clear()
            if events:
                known = events[-1]["seq"]
            yield _lines(events) if events else b": still here\n\n"
    finally:
        unwatch()


def _reset(seq: int) -> dict[str, Any]:
    return {"seq": seq, "type": "reset", "blocks": [], "parent": None, "num_tokens": None, "request_id": None}


def _lines(events: list[dict[str, Any]]) -> bytes:
    return b"".join(b"id: %d\ndata: %b\n\n" % (event["seq"], orjson.dumps(event)) for event in events)
