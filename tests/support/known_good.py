"""A state folder that remembers a configuration that answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pagedchat.app.operate.known_good import KnownGood, KnownGoodStore, ModelRecord
from pagedchat.app.settings import KEPT_FIELDS, Settings

LONG_AGO = "2026-01-02T03:04:05+00:00"


def known_good(data: Path, record: ModelRecord | None = None, **settings: Any) -> KnownGoodStore:
    """The defaults, with these settings and this model, have answered `LONG_AGO`."""
    store = KnownGoodStore(data / "state")
    whole = Settings().model_dump(mode="json", include=set(KEPT_FIELDS))
    store.save(KnownGood({**whole, **settings}, record, None, LONG_AGO))
    return store
