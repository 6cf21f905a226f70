"""Fixtures of the session floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stored_chats import add_chats


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a few chats, to be copied."""
    path = tmp_path_factory.mktemp("source") / "sessions.db"
    add_chats(path, 3, 10)
    return path
