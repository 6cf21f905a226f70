"""Where ``pagedchat`` begins: signals first, then the commands, whose libraries take a third of a second to load."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .end_signals import on_end_signals


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 fine, 1 could not do it, 2 wrong usage. A signal before it begins ends with 0."""
    on_end_signals(_leave)
    from .commands import run

    run(sys.argv[1:] if arguments is None else arguments)


def _leave(number: int, frame: Any) -> NoReturn:
    """Nothing has been begun, so there is nothing to give back."""
    os._exit(0)
