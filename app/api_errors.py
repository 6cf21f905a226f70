"""Errors of the HTTP interfaces, in the shape that OpenAI's clients read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from ..engine.errors import ContextLengthError, PagedChatError, RequestError

CLIENT_CLOSED = 499
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
log = logging.getLogger(__name__)


class ApiError(Exception):
    """A refusal with its status.

    Attributes:
        param: the field of the body that is to blame.
        code: OpenAI's word for it, such as "model_not_found".
        allowed: for a 405 the methods that would do.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        allowed: list[str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.allowed = allowed or []

    @property
    def body(self) -> dict[str, Any]:
        """``{"error": {message, type, param, code}}``."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """As a JSON response; a server that is not ready says when to ask again."""
        headers = {"retry-after": "1"} if self.status == 503 else {}
        if self.allowed:
            headers["allow"] = ", ".join(self.allowed)
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


def refuse_the_rest(router: APIRouter) -> None:
    """Answer whatever else is asked under ``router``'s prefix with an error object: 405 for a path that is served by
    another method, else 404. Comes after all its routes."""
    served = [route for route in router.routes if isinstance(route, APIRoute)]

    async def rest(request: Request) -> Response:
        path = request.scope["path"]
        allowed = sorted({method for route in served if route.path_regex.match(path) for method in route.methods or ()})
        if allowed:
            raise ApiError(405, f"{path} takes {' and '.join(allowed)}, not {request.method}.", allowed=allowed)
        raise ApiError(404, f"There is nothing at {path[:200]}; check the address.", code="unknown_url")

    for path in ("", "/{rest:path}"):
        router.add_api_route(path, rest, methods=METHODS, include_in_schema=False)


def api_error(error: Exception) -> ApiError:
    """What to tell the client about ``error``; details of unexpected ones go to the log."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ContextLengthError):
        return ApiError(400, str(error), param=error.param, code="context_length_exceeded")
    if isinstance(error, RequestError):
        return ApiError(400, str(error), param=error.param)
    if isinstance(error, PagedChatError):
        return ApiError(503, str(error))
    log.exception("a request failed", exc_info=error)
    return ApiError(500, f"The server met an internal error ({type(error).__name__}); its log says more.")


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON."""
    return Response(orjson.dumps(value), status, headers, media_type="application/json")
