"""``GET /api/config``: what the server runs with. ``POST /api/rollback``: back to the configuration that answered."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ...engine.errors import PagedChatError
from ..api_errors import json_response
from .recovery import Recovery


def operate_router(recovery: Recovery) -> APIRouter:
    """The routes: the settings in force (``{"settings"}``); and the way back, 200 with ``{"message"}``, 409 with
    ``{"error"}`` when there is none."""
    router = APIRouter()

    @router.get("/api/config")
    async def config() -> Response:
        return json_response({"settings": recovery.target.settings.model_dump(mode="json")})

    @router.post("/api/rollback")
    async def rollback() -> Response:
        try:
            return json_response({"message": await recovery.rollback()})
        except PagedChatError as error:
            return json_response({"error": str(error)}, 409)

    return router
