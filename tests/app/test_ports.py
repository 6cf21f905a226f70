from __future__ import annotations

import socket

import pytest

from pagedchat.app.ports import check_host, listen, page_url
from pagedchat.engine.errors import PagedChatError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_named_port_is_used():
    port = free_port()

    with listen("127.0.0.1", port) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


def test_a_named_port_that_is_taken_is_refused_with_the_way_out():
    with listen("127.0.0.1", free_port()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PagedChatError, match=rf"{port}.*in use.*--port"):
            listen("127.0.0.1", port)


def test_without_a_name_the_next_free_port_is_used():
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        assert second.getsockname()[1] > first.getsockname()[1] >= 7861


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_loopback_addresses_are_allowed(host):
    check_host(host)

    assert page_url("::1", 7861) == "http://[::1]:7861"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org", ""])
def test_every_other_address_is_refused(host):
    with pytest.raises(PagedChatError, match="login"):
        check_host(host)
