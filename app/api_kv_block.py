"""``/api/kv/block``: all that is known of one block. Its tokens are told where ``ui.block_text`` allows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response

from ..engine.client import EngineClient
from ..engine.errors import RequestError
from ..ui.block_text import is_near
from .api_errors import ApiError, json_response
from .api_v1 import ready_info

WhyNoText = Callable[..., Awaitable[str | None]]
"""``block_text.why_no_text`` of a service: why the tokens of a block must not be told."""


def add_block_route(router: APIRouter, client: EngineClient, why_no_text: WhyNoText) -> None:
    """``/api/kv/block?id=N``: ``text`` and ``token_ids``, or ``why`` they are not told."""

    @router.get("/block")
    async def block(request: Request, id: str = "") -> Response:
        ready_info(client)
        if not id.isascii() or not id.isdecimal() or len(id) > 9:
            raise ApiError(400, f"id must be the number of a block, not {id[:60]!r}.", param="id")
        try:
            detail = await client.block(int(id))
        except RequestError as error:
            raise ApiError(404, str(error), param="id") from error
        ids = detail.pop("token_ids")
        why = await why_no_text(is_near(request.scope), detail["sessions"], held=bool(ids))
        if why is not None:
            return json_response({**detail, "why": why})
        spelled = await client.spell(ids)
        words = "".join(text for text, control in spelled if not control)
        return json_response({**detail, "token_ids": ids, "text": words})
