"""What the server that runs says of itself: its engine, and the settings that it was started with."""

from __future__ import annotations

import http.client
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ..instance import RunningServer, ask_json
from ..settings import Configuration, Settings

FOLDERS = ("data_dir", "models_dir")


def running_info(server: RunningServer | None) -> dict[str, Any]:
    """What its engine says of itself; empty without a server, or while the engine is not ready."""
    if server is None:
        return {}
    status, answer = ask_json(server, "GET", "/health")
    return answer if status == http.client.OK else {}


def running_settings(server: RunningServer | None) -> Settings | None:
    """The settings that it runs with; None without a server, or where it is of a version that does not tell them.

    Raises:
        PagedChatError: it does not answer.
    """
    if server is None:
        return None
    status, answer = ask_json(server, "GET", "/api/config")
    if status != http.client.OK or not isinstance(answer, dict):
        return None
    try:
        return Settings(**answer["settings"])
    except (KeyError, TypeError, ValidationError):
        return None


def configuration_in_force(configuration: Configuration, server: RunningServer | None) -> Configuration:
    """The configuration with the settings of the server that runs; as it is where flags of a start were typed."""
    typed = [name for name, origin in configuration.origins.items() if origin == "flag" and name not in FOLDERS]
    settings = None if typed else running_settings(server)
    return configuration if settings is None else replace(configuration, settings=settings)
