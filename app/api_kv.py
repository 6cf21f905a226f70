"""``/api/kv``: the block pool for programs. A client reads the snapshot, then follows the events from its ``seq``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter, Request, Response

from ..engine.client import EngineClient
from ..engine.errors import EngineError
from ..sessions.errors import SessionError
from ..ui.block_text import AWAY, is_near
from .api_body import read_json, text
from .api_errors import ApiError, ApiRoute, json_response, refuse_the_rest
from .api_kv_block import WhyNoText, add_block_route
from .api_v1 import ready_info
from .api_v1_request import chat_request, check_model, prompts
from .kv_events import EventFollower
from .streaming import StreamingAnswer

LONGEST_PIN_NAME = 100
MOST_IDLE = 1_000

BranchTokens = Callable[[str, str | None], Awaitable[list[int]]]
Salt = Callable[[str], str]


async def _nobody_reads(near: bool, session_ids: Iterable[str], held: bool = True) -> str | None:
    return "This server keeps no chats."


def kv_router(
    client: EngineClient,
    branch_tokens: BranchTokens,
    salt: Salt = lambda session: "",
    why_no_text: WhyNoText = _nobody_reads,
) -> APIRouter:
    """The routes under ``/api/kv``.

    Args:
        branch_tokens: ids of a session's branch, up to a message or, for None, of the branch that is shown.
        salt: what a session's requests share blocks under.
        why_no_text: who may read the tokens of a block.
    """
    router = APIRouter(prefix="/api/kv", route_class=ApiRoute)

    @router.get("/branch")
    async def branch(request: Request, session: str = "", message: str = "") -> Response:
        info = ready_info(client)
        ids = await _branch_ids(branch_tokens, session, message)
        answer = {"session": session, "message": message or None, "block_size": info["block_size"]}
        rows = [_branch_row(row, ids, info["block_size"]) for row in await client.branch(ids, salt(session))]
        if not is_near(request.scope):
            answer["why"] = AWAY
            for row in rows:
                del row["token_ids"]
        return json_response({**answer, "num_tokens": len(ids), "blocks": rows})

    @router.post("/probe")
    async def probe(request: Request) -> Response:
        body = await read_json(request)
        info = ready_info(client)
        check_model(body, info["model"])
        found = await client.probe(**_probed(body), salt=text(body, "cache_salt"))
        if not found["prompt_tokens"]:
            raise ApiError(400, "The prompt is empty: it needs at least one token.", param="prompt")
        return json_response(found)

    @router.post("/reset")
    async def reset() -> Response:
        ready_info(client)
        await _reset(client)
        return json_response({"reset": True})

    _add_looks(router, client)
    _add_pins(router, client)
    add_block_route(router, client, why_no_text)

    @router.get("/events")
    async def events(request: Request) -> Response:
        ready_info(client)
        start = _number_of("an event", request, request.headers.get("last-event-id"))
        return StreamingAnswer(EventFollower(client).follow(start))

    refuse_the_rest(router)
    return router


def _add_looks(router: APIRouter, client: EngineClient) -> None:
    @router.get("/snapshot")
    async def snapshot() -> Response:
        ready_info(client)
        return json_response(await client.snapshot())

    @router.get("/idle-blocks")
    async def idle(limit: str = "50") -> Response:
        ready_info(client)
        if not limit.isascii() or not limit.isdecimal() or len(limit) > 9:
            raise ApiError(400, f"limit must be a number of blocks, not {limit[:60]!r}.", param="limit")
        return json_response({"blocks": await client.idle(min(int(limit), MOST_IDLE))})

    @router.get("/requests")
    async def requests() -> Response:
        ready_info(client)
        return json_response({"requests": await client.list_requests()})

    @router.get("/steps")
    async def steps(request: Request) -> Response:
        ready_info(client)
        return json_response({"steps": await client.steps_since(_number_of("a step", request) or 0)})


def _add_pins(router: APIRouter, client: EngineClient) -> None:
    @router.get("/pins")
    async def pins() -> Response:
        ready_info(client)
        return json_response({"pins": (await client.stats())["pins"]})

    @router.post("/pins")
    async def pin(request: Request) -> Response:
        body = await read_json(request)
        check_model(body, ready_info(client)["model"])
        name = text(body, "name")
        if not name.strip(". ") or len(name) > LONGEST_PIN_NAME:  # an address cannot end in dots
            raise ApiError(400, f"A pin needs a name of 1 to {LONGEST_PIN_NAME} characters.", param="name")
        await client.pin(name, **_probed(body), salt=text(body, "cache_salt"))
        return json_response({"pins": (await client.stats())["pins"]})

    @router.delete("/pins/{name:path}")
    async def unpin(name: str) -> Response:
        ready_info(client)
        if not await client.unpin(name):
            raise ApiError(404, f"Nothing is pinned under the name {name[:60]!r}.", param="name")
        return json_response({"pins": (await client.stats())["pins"]})


async def _reset(client: EngineClient) -> None:
    try:
        await client.reset_cache()
    except EngineError as error:
        if (await client.books())["active"]:
            raise ApiError(409, str(error)) from error
        raise


async def _branch_ids(branch_tokens: BranchTokens, session: str, message: str) -> list[int]:
    if not session:
        raise ApiError(400, "Name the session: /api/kv/branch?session=ID.", param="session")
    try:
        return await branch_tokens(session, message or None)
    except SessionError as error:
        raise ApiError(404, str(error)) from error


def _branch_row(row: dict[str, Any], ids: list[int], size: int) -> dict[str, Any]:
    """One logical block: its ids, its physical block or None, how many hold it and who."""
    start = row["logical"] * size
    rest = {name: value for name, value in row.items() if name not in ("logical", "block")}
    return {"logical": row["logical"], "physical": row["block"], "token_ids": ids[start : start + size], **rest}


def _probed(body: dict[str, Any]) -> dict[str, Any]:
    """The one prompt of a completion's or a chat's body, as arguments of ``client.probe``."""
    if "messages" in body:
        request = chat_request(body, {}).requests[0]
        return {"messages": request.messages, "template_args": request.template_args}
    found = prompts(body)
    if len(found) != 1:
        raise ApiError(400, f"A probe is about one prompt, not {len(found)}.", param="prompt")
    return {"prompt": found[0].get("prompt"), "token_ids": found[0].get("prompt_token_ids")}


def _number_of(what: str, request: Request, otherwise: str | None = None) -> int | None:
    """Number of the last event or step that the client knows; None if it names none."""
    value = request.query_params.get("from") or otherwise
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 18:
        raise ApiError(400, f"from must be the number of {what}, not {value[:60]!r}.", param="from")
    return int(value)
