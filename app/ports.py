"""The socket the page is served on: loopback only, the default port or the next free one."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from ..engine.errors import PagedChatError
from .folders import reason_of
from .settings import DEFAULT_PORT

PORTS_TO_TRY = 100
BACKLOG = 128


def check_host(host: str) -> None:
    """Allow loopback addresses only.

    Raises:
        PagedChatError: for any other address.
    """
    if host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise PagedChatError(
        f"--host {host} is refused: pagedchat has no login yet, so it serves this computer only (127.0.0.1 or ::1); "
        "to reach it from elsewhere, use an SSH tunnel."
    )


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket on ``port``, or without one on the default port or the next free one.

    Raises:
        PagedChatError: if the named port is taken or not allowed, or none is free.
    """
    if port is not None:
        try:
            return _listen(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                advice = "end what uses it, name another one, or leave out --port"
                raise PagedChatError(f"Port {port} on {host} is already in use: {advice}.") from error
            raise PagedChatError(f"Port {port} on {host} cannot be used ({reason_of(error)}).") from error
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TO_TRY):
        try:
            return _listen(host, candidate)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise PagedChatError(f"{host} cannot be used ({reason_of(error)}).") from error
    raise PagedChatError(
        f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + PORTS_TO_TRY - 1} is free on {host}; name one with --port."
    )


def page_url(host: str, port: int) -> str:
    """The address people open."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
