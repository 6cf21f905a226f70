"""``/health``: whether requests are served, by what, and if not, why."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from fastapi import APIRouter, Response

from ..engine.client import EngineClient
from ..engine.errors import PagedChatError
from .api_errors import json_response
from .operate.recovery import Recovery
from .settings import Settings

FRESH_WITHIN_S = 0.3


def health_router(
    client: EngineClient, settings: Settings | None = None, recovery: Recovery | None = None
) -> APIRouter:
    """The route ``/health``: 200 with the engine's facts when it is ready, else 503 with its state.

    Args:
        settings: what the engine was asked for; where it could not follow, the warnings say so.
        recovery: knows of a known good configuration, which "configuration" tells about.
    """
    router = APIRouter()

    @router.get("/health")
    async def health() -> Response:
        with contextlib.suppress(TimeoutError, PagedChatError):
            await asyncio.wait_for(client.refresh_info(), FRESH_WITHIN_S)
        status = client.status
        answer: dict[str, Any] = {"status": "ok" if status.state == "ready" else status.state}
        asked = recovery.target.settings if recovery else settings
        if recovery is not None:
            answer["configuration"] = recovery.view()
        if status.state == "ready":
            warnings = [*status.info.get("warnings", []), *(asked.warnings(status.info) if asked else [])]
            return json_response({**answer, **status.info, "warnings": warnings})
        if status.progress is not None:
            answer["progress"] = status.progress
        if status.message:
            answer["message"] = status.message
        return json_response(answer, 503, {"retry-after": "1"})

    return router
