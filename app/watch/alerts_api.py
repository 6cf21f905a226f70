"""``GET /api/alerts``: what each rule says now."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..api_errors import json_response
from .sampler import AlertWatch


def alerts_router(alerts: AlertWatch) -> APIRouter:
    """The route, over the server's own watch."""
    router = APIRouter()

    @router.get("/api/alerts")
    async def list_alerts() -> Response:
        return json_response(alerts.view())

    return router
