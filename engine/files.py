"""Small readers for the JSON files that come with models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import ModelFileError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is no such file.

    Raises:
        ModelFileError: the file holds no JSON object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}.") from None
    if not isinstance(found, dict):
        raise ModelFileError(f"{path} does not hold a JSON object.")
    return found
