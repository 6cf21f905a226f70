"""Results kept in the state folder, and whether they still speak for the configuration in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..settings import ENGINE_FIELDS

MACHINE_FACTS = ("processor", "usable_cores")
PACKAGES_THAT_COMPUTE = ("torch", "numba", "triton")
LARGEST_BYTES = 32 << 20


@dataclass(frozen=True)
class Evidence:
    """One result in a file.

    Attributes:
        result: see ``bench.report.BenchResult``.
        age_s: seconds since it was begun; None where it does not say.
        stale: why it does not speak for the configuration in force; "" if it does.
    """

    path: Path
    result: dict[str, Any]
    age_s: float | None
    stale: str = ""

    @property
    def figures(self) -> dict[str, Any]:
        """What was measured."""
        found = self.result.get("figures")
        return found if isinstance(found, dict) else {}


class EvidenceFolder:
    """The results of one folder, judged by one configuration.

    Args:
        current: the snapshot of the configuration in force; where its model's fingerprint is not known, names are
            compared.
    """

    def __init__(self, folder: Path, current: dict[str, Any], now: datetime | None = None) -> None:
        self._folder = folder
        self._current = current
        self._now = now or datetime.now(UTC)

    def newest(self, name: str) -> Evidence | None:
        """The newest result of a bench that still speaks for the configuration, else the newest of all; None without
        any that can be read."""
        found = list(self._all(name))
        return next((one for one in found if not one.stale), found[0] if found else None)

    def _all(self, name: str) -> Iterator[Evidence]:
        """Results of a bench, newest first."""
        paths = sorted(self._folder.glob(f"{name}-*.json"), key=lambda path: path.stem, reverse=True)
        for path in paths:
            result = read_result(path)
            if result is None or result.get("name") != name:
                continue
            age = age_of(result.get("started"), self._now)
            yield Evidence(path, result, age, staleness(result.get("configuration") or {}, self._current))


def read_result(path: Path) -> dict[str, Any] | None:
    """A result; None if the file holds none."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("configuration"), dict) else None


def age_of(started: Any, now: datetime) -> float | None:
    """Seconds since an ISO 8601 time; None where it is none."""
    try:
        began = datetime.fromisoformat(started)
        return max(0.0, (now - began.replace(tzinfo=began.tzinfo or UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def staleness(then: dict[str, Any], now: dict[str, Any]) -> str:
    """Why what was found under the snapshot ``then`` does not speak for ``now``; "" if it does."""
    reasons = [
        *_differences(then, now, "program", ("pagedchat",)),
        *_model_differs(then.get("model") or {}, now.get("model") or {}),
        *_differences(then, now, "settings", ENGINE_FIELDS),
        *_differences(then, now, "machine", MACHINE_FACTS),
        *_differences(then, now, "packages", PACKAGES_THAT_COMPUTE),
    ]
    return "; ".join(reasons[:3]) + (f" and {len(reasons) - 3} more" if len(reasons) > 3 else "")


def _model_differs(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    for key in ("fingerprint", "name"):
        if then.get(key) and now.get(key):
            same = then[key] == now[key]
            return [] if same else [f"another model ({then.get('name')}, now {now.get('name')})"]
    return [] if then else ["it does not say which model was measured"]


def _differences(then: dict[str, Any], now: dict[str, Any], part: str, names: tuple[str, ...]) -> list[str]:
    left, right = then.get(part) or {}, now.get(part) or {}
    return [
        f"{name} {_shown(left.get(name))}, now {_shown(right.get(name))}"
        for name in names
        if left.get(name) != right.get(name)
    ]


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
