"""``/api/sessions``: chats as files, for the page and for programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from ..engine.sizes import size_in_words
from ..sessions.errors import SessionError
from ..sessions.exchange.parsing import MOST_BYTES
from ..sessions.exchange.report import ExchangeError
from ..sessions.library_service import LibraryService
from .api_errors import ApiError, ApiRoute, json_response, refuse_the_rest

_FORM_ROOM = 1 << 16
_BRANCHES = ("all", "shown")


def exchange_router(library: LibraryService) -> APIRouter:
    """The routes under ``/api/sessions``."""
    router = APIRouter(prefix="/api/sessions", route_class=ApiRoute)

    @router.get("/export")
    async def export(ids: str | None = None, format: str = "pagedchat", branches: str = "all") -> Response:
        if branches not in _BRANCHES:
            raise ApiError(400, f"branches must be all or shown, not {branches[:40]!r}.", param="branches")
        wanted = None if ids is None else [one for one in ids.split(",") if one]
        try:
            name, media_type, data = await library.export(wanted, format, branches=branches == "all")
        except ExchangeError as error:
            raise ApiError(400, str(error)) from error
        except SessionError as error:
            raise ApiError(404, str(error), param="ids") from error
        return Response(data, headers={"content-disposition": _disposition(name)}, media_type=media_type)

    @router.post("/import")
    async def import_file(request: Request, name: str = "", skip_seen: str = "false") -> Response:
        if skip_seen not in ("true", "false"):
            raise ApiError(400, f"skip_seen must be true or false, not {skip_seen[:40]!r}.", param="skip_seen")
        sent_name, data = await _file_of(request)
        try:
            report = await library.import_file(name or sent_name, data, skip_seen=skip_seen == "true")
        except ExchangeError as error:
            raise ApiError(400, str(error)) from error
        return json_response(report)

    refuse_the_rest(router)
    return router


def _disposition(name: str) -> str:
    """A header that saves the answer as ``name``, which may be of any script."""
    plain = "".join(one if one.isascii() and one.isprintable() and one not in '"\\%;' else "_" for one in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


async def _file_of(request: Request) -> tuple[str, bytes]:
    """(name, content) of the file that is sent, as the body itself or as the first file of a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        return "", b"".join([chunk async for chunk in _limited(request, MOST_BYTES)])
    parser = MultiPartParser(request.headers, _limited(request, MOST_BYTES + _FORM_ROOM), max_files=1, max_fields=20)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise ApiError(400, f"The form cannot be read: {getattr(error, 'message', 'it has no boundary')}") from error
    files = [one for one in form.values() if isinstance(one, UploadFile)]
    if not files:
        raise ApiError(400, "The form holds no file; choose one.", param="file")
    try:
        return files[0].filename or "", await files[0].read()
    finally:
        await form.close()


async def _limited(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """The body; refused before it is read where its length is told and too large."""
    too_long = ApiError(413, f"The file is larger than {size_in_words(MOST_BYTES)}, the most that is imported at once.")
    told = request.headers.get("content-length", "")
    if told.isdecimal() and len(told) < 20 and int(told) > limit:
        raise too_long
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_long
        yield chunk
