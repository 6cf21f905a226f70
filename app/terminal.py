"""What the terminal shows while a model is fetched: a bar for people, a few lines for files and pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from .model_fetch import FetchProgress


@contextmanager
def fetch_display() -> Iterator[Callable[[FetchProgress], None]]:
    """Show fetch progress on stderr while the context lasts; what it yields takes every report, from any thread."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Fetching", total=None)

        def show(report: FetchProgress) -> None:
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
