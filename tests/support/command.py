"""A ``pagedchat`` command in the test's own process, with the words and the exit code that the program would have."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from typing import NoReturn
from unittest.mock import patch

from pagedchat.app import commands


def pagedchat(*arguments: str, **variables: str) -> CompletedProcess[str]:
    """Run one command that ends by itself; ``variables`` stand in its environment."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(commands, "leave", _leave),
        patch.object(commands, "on_end_signals"),
        patch.dict(os.environ, variables),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            commands.run(arguments)
        except _Left as left:
            return CompletedProcess(arguments, left.status, out.getvalue(), err.getvalue())


class _Left(BaseException):
    """The program would have ended."""

    def __init__(self, status: int) -> None:
        self.status = status


def _leave(status: int) -> NoReturn:
    raise _Left(status)
