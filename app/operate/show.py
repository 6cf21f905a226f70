"""What is configured, from where, and how two configurations differ. Plain values; the commands print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...engine.errors import PagedChatError
from ..folders import reason_of
from ..instance import running_server
from ..settings import Configuration, Settings, load_configuration
from .evidence import LARGEST_BYTES
from .known_good import KnownGoodStore
from .running import configuration_in_force, running_info
from .snapshot import configuration_snapshot

NAMED = ("current", "known-good", "default")


def shown_settings(configuration: Configuration) -> list[dict[str, Any]]:
    """Every setting: ``{"name", "value", "origin"}``, JSON values."""
    values = configuration.settings.model_dump(mode="json")
    return [{"name": name, "value": values[name], "origin": configuration.origins[name]} for name in values]


def snapshot_named(name: str, flags: dict[str, Any]) -> dict[str, Any]:
    """The snapshot that ``name`` means: one of `NAMED`, or a JSON file that holds one (a bench's result does).

    Raises:
        PagedChatError: there is none.
    """
    if name == "default":
        return configuration_snapshot(Settings())
    if name == "current":
        configuration = load_configuration(flags)
        server = running_server(configuration.folders.data)
        return configuration_snapshot(configuration_in_force(configuration, server).settings, running_info(server))
    if name == "known-good":
        return KnownGoodStore(load_configuration(flags).folders.state).require().snapshot
    return _snapshot_in(Path(name))


def snapshot_differences(one: dict[str, Any], other: dict[str, Any]) -> list[dict[str, Any]]:
    """What differs: ``{"name", "a", "b"}`` with dotted names. A part that only one of them has is one entry, whose
    other side is None: nothing is known there. A port that only one side names is no difference: the other takes the
    usual one, or the next that is free."""
    found = []
    for part in dict.fromkeys([*one, *other]):
        left, right = one.get(part) or {}, other.get(part) or {}
        if bool(left) != bool(right):
            found.append({"name": part, "a": left or None, "b": right or None})
            continue
        for name in dict.fromkeys([*left, *right]):
            free_port = (part, name) == ("settings", "port") and None in (left.get(name), right.get(name))
            if left.get(name) != right.get(name) and not free_port:
                found.append({"name": f"{part}.{name}", "a": left.get(name), "b": right.get(name)})
    return found


def _snapshot_in(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise PagedChatError(f"{path} is larger than any result of a bench; name a file that holds one.")
        found = json.loads(content)
    except FileNotFoundError as error:
        raise PagedChatError(
            f"There is no file {str(path)!r}; give a bench's result, a snapshot, or {', '.join(NAMED[:-1])} or "
            f"{NAMED[-1]}."
        ) from error
    except OSError as error:
        raise PagedChatError(f"{path} cannot be read ({reason_of(error)}).") from error
    except (ValueError, RecursionError) as error:
        raise PagedChatError(f"{path} is no JSON file.") from error
    for part in ("configuration", "snapshot"):
        if isinstance(found, dict) and isinstance(found.get(part), dict):
            found = found[part]
    if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
        raise PagedChatError(f"{path} holds no configuration; a bench's result does, and so does known_good.json.")
    return {part: value for part, value in found.items() if isinstance(value, dict)}
