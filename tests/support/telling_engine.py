"""An engine that tells which modules its process has loaded: ``engine="support.telling_engine:engine"``."""

from __future__ import annotations

import sys
from typing import Any

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine


class TellingEngine(Engine):
    """Adds ``modules`` to what it tells of itself."""

    def info(self) -> dict[str, Any]:
        return {**super().info(), "modules": sorted(sys.modules)}


def engine(config: EngineConfig) -> TellingEngine:
    """What the worker calls."""
    return TellingEngine(config)
