"""``POST /api/rollback``: back to the configuration that answered."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ...engine.errors import PagedChatError
from ..api_errors import json_response
from .recovery import Recovery


def operate_router(recovery: Recovery) -> APIRouter:
    """The route; 200 with ``{"message"}``, 409 with ``{"error"}`` when there is no way back."""
    router = APIRouter()

    @router.post("/api/rollback")
    async def rollback() -> Response:
        try:
            return json_response({"message": await recovery.rollback()})
        except PagedChatError as error:
            return json_response({"error": str(error)}, 409)

    return router
