"""A small PDF that unfolds to more than may be read is refused for what it is, and no page of others is lost for it."""

from __future__ import annotations

import asyncio

from pagedchat.sessions import pdf_text
from support.made_pdf import pdf


def test_a_small_pdf_that_grows_beyond_all_measure_is_called_too_large_and_not_damaged() -> None:
    data = pdf("x", padding=76 << 20)
    assert len(data) < 100_000
    found = asyncio.run(pdf_text.read(data))
    assert found.text is None
    assert found.problem == "Reading this PDF needs more memory than it may have; attach its text instead."
