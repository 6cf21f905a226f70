"""Sizes in words are the same wherever people read them."""

from __future__ import annotations

import pytest

from pagedchat.engine.sizes import size_in_words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (10_239, "10 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (32 << 20, "32 MiB"),
        (3 << 19, "1.5 MiB"),
        (1000 << 20, "1,000 MiB"),
        (2 << 30, "2 GiB"),
        (25 << 29, "12.5 GiB"),
        (3 << 40, "3 TiB"),
        (3 << 50, "3,072 TiB"),
    ],
)
def test_a_size_is_said_in_one_unit_with_a_decimal_where_it_tells_something(size: int, words: str) -> None:
    assert size_in_words(size) == words
