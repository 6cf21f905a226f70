"""OpenAI's interface: ``/v1/models``, ``/v1/chat/completions`` and ``/v1/completions``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from ..engine.client import EngineClient
from .api_body import read_json
from .api_errors import CLIENT_CLOSED, ApiError, ApiRoute, json_response, refuse_the_rest
from .api_v1_reply import Reply
from .api_v1_request import ApiRequest, chat_request, check_model, completion_request
from .streaming import ClientGone, StreamingAnswer, until_disconnect


def v1_router(client: EngineClient) -> APIRouter:
    """The routes under ``/v1``."""
    router = APIRouter(prefix="/v1", route_class=ApiRoute)
    started = int(time.time())

    @router.get("/models")
    async def models() -> Response:
        info = ready_info(client)
        return json_response({"object": "list", "data": [_model_object(info, started)]})

    @router.get("/models/{name:path}")
    async def model(name: str) -> Response:
        info = ready_info(client)
        check_model({"model": name}, info["model"])
        return json_response(_model_object(info, started))

    @router.post("/chat/completions")
    async def chat_completions(request: Request) -> Response:
        return await _answer(client, request, chat_request, chat=True)

    @router.post("/completions")
    async def completions(request: Request) -> Response:
        return await _answer(client, request, completion_request, chat=False)

    refuse_the_rest(router)
    return router


def ready_info(client: EngineClient) -> dict[str, Any]:
    """What the engine says of itself.

    Raises:
        ApiError: 503 while it is not ready.
    """
    status = client.status
    if status.state != "ready":
        message = status.message or "The engine is starting; try again in a moment."
        raise ApiError(503, message, code="engine_" + status.state)
    return status.info


async def _answer(
    client: EngineClient,
    request: Request,
    check: Callable[[dict[str, Any], dict[str, Any]], ApiRequest],
    *,
    chat: bool,
) -> Response:
    body = await read_json(request)
    info = ready_info(client)
    check_model(body, info["model"])
    asked = check(body, info.get("sampling_defaults") or {})
    reply = Reply(client, asked, info["model"], chat=chat)
    try:
        if not asked.stream:
            return json_response(await until_disconnect(request, reply.whole()))
        events = reply.stream()
        first = await until_disconnect(request, anext(events))
        return StreamingAnswer(events, first)
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED)


def _model_object(info: dict[str, Any], created: int) -> dict[str, Any]:
    return {
        "id": info["model"],
        "object": "model",
        "created": created,
        "owned_by": "pagedchat",
        "max_model_len": info["max_model_len"],
    }
