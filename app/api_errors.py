"""Errors of the HTTP interfaces, in the shape that OpenAI's clients read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from ..engine.errors import PagedChatError, RequestError

CLIENT_CLOSED = 499
log = logging.getLogger(__name__)


class ApiError(Exception):
    """A refusal with its status.

    Attributes:
        param: the field of the body that is to blame.
        code: OpenAI's word for it, such as "model_not_found".
    """

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """``{"error": {message, type, param, code}}``."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """As a JSON response; a server that is not ready says when to ask again."""
        headers = {"retry-after": "1"} if self.status == 503 else None
        return json_response(self.body, self.status, headers)


class ApiRoute(APIRoute):
    """A route whose errors become OpenAI error objects."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, wrapped."""
        handler = super().get_route_handler()

        async def with_errors(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:  # in the middle of its body
                return Response(status_code=CLIENT_CLOSED)
            except Exception as error:
                return api_error(error).response()

        return with_errors


def api_error(error: Exception) -> ApiError:
    """What to tell the client about ``error``; details of unexpected ones go to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestError):
        return ApiError(400, str(error))
    if isinstance(error, PagedChatError):
        return ApiError(503, str(error))
    log.exception("a request failed", exc_info=error)
    return ApiError(500, f"The server met an internal error ({type(error).__name__}); its log says more.")


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON."""
    return Response(orjson.dumps(value), status, headers, media_type="application/json")
