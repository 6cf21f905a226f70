"""What the terminal shows: plain lines, and while a model is fetched a bar for people or a few lines for pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from .model_fetch import FetchProgress


def say(line: str, stream: TextIO) -> None:
    """Print a line at once. That nobody reads it any more (a closed pipe) is no reason to stop."""
    with suppress(OSError, ValueError):
        print(line, file=stream, flush=True)


def local_time(moment: datetime | float | str) -> str:
    """A time as people here read it, with its zone: 2026-05-20 14:03 CEST.

    Args:
        moment: seconds since 1970 or ISO 8601 in text work too; text that is no time is told as it is.
    """
    try:
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment)
        elif not isinstance(moment, datetime):
            moment = datetime.fromtimestamp(moment, UTC)
        return f"{moment.astimezone():%Y-%m-%d %H:%M %Z}"
    except (ValueError, OverflowError, OSError):
        return str(moment)


@contextmanager
def fetch_display() -> Iterator[Callable[[FetchProgress], None]]:
    """Show fetch progress on stderr while the context lasts; what it yields takes every report, from any thread."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, Task, TextColumn, TransferSpeedColumn
    from rich.text import Text

    class Bytes(DownloadColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    class Speed(TransferSpeedColumn):
        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), Bytes(binary_units=True), Speed())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Fetching", total=None)

        def show(report: FetchProgress) -> None:
            nonlocal task
            if report.total is None:  # a known total cannot be taken back: what comes next is a bar of its own
                progress.remove_task(task)
                task = progress.add_task(report.message, total=None)
            progress.update(task, description=report.message, completed=report.done, total=report.total)

        yield show


class _Lines:
    """One line for each new message."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""

    def __call__(self, report: FetchProgress) -> None:
        if report.message != self._last:
            self._last = report.message
            self._console.print(f"{report.message} ...", highlight=False)
