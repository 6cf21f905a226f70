"""``POST /ui/files``: a file for the next message of a chat. Which pages may send one is the application's matter."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from ..engine.errors import PagedChatError
from ..engine.sizes import size_in_words
from ..sessions.attachments import SIZE_LIMIT, clean_name
from ..sessions.errors import SessionError, StoreError


def add_file_routes(router: APIRouter, service: Any) -> None:
    """Let ``router`` take files."""

    @router.post("/ui/files", include_in_schema=False)
    async def add_file(request: Request, session: str = "", name: str = "") -> JSONResponse:
        """The body is the file. The answer says whether a model can read it: see ``DocumentService.draft_view``."""
        try:
            data = await _body(request, clean_name(name))
            kind = request.headers.get("content-type", "")
            return JSONResponse(await service.documents.add(session, name, data, kind))
        except StoreError as error:
            return _refusal(str(error), 507 if error.problem == "full" else 503)
        except PagedChatError as error:
            return _refusal(str(error), 400)


async def _body(request: Request, name: str) -> bytes:
    """What was sent, not read further than a file may be long.

    Raises:
        SessionError: it is too long.
    """
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > SIZE_LIMIT:
            limit = size_in_words(SIZE_LIMIT)
            raise SessionError(f'"{name}" has more than {limit}, the most that a file may have; attach a smaller one.')
        parts.append(chunk)
    return b"".join(parts)


def _refusal(words: str, status: int) -> JSONResponse:
    return JSONResponse({"error": {"message": words}}, status_code=status)
