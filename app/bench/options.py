"""What the benches' commands share: options, the model they run on, progress, and how a result is told and kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Protocol

import typer

from ...engine.errors import ConfigError, PagedChatError
from ..terminal import say

if TYPE_CHECKING:
    from .report import BenchResult

ModelName = Annotated[
    str, typer.Option("--model", help="GGUF file, Hugging Face folder, or a name in the models folder.")
]


def _writable(folder: Path | None) -> Path | None:
    """The folder asked for, made at once: a bench of minutes must not end without a place for its report."""
    if folder is not None:
        from ..folders import make_writable

        make_writable(folder, "report folder", "Name another one with --output.")
    return folder


Output = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the report (JSON and HTML).  [default: bench in the state folder]",
        show_default=False,
        callback=_writable,
    ),
]
Peer = Annotated[
    str, typer.Option(help="Also run on another OpenAI-compatible server (its address), or on transformers (hf).")
]
ServeFlags = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- FLAGS]", help="Flags of `pagedchat serve`, after --.", show_default=False),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the load.")]


def finish(result: BenchResult, as_json: bool, output: Path | None) -> NoReturn:
    """Tell a result and keep it.

    Raises:
        typer.Exit: always; 1 when a goal of the bench was missed, else 0.
        PagedChatError: when the folder cannot be written; the result has been printed by then.
    """
    from .report import text_lines

    if not result.seconds:
        result.finish()
    print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False) if as_json else "\n".join(text_lines(result)))
    keep(result, output)
    raise typer.Exit(1 if result.passed is False else 0)


def keep(result: BenchResult, output: Path | None) -> None:
    """Keep a result as ``NAME-TIME.json`` and ``.html``; where it lies goes to stderr.

    Raises:
        PagedChatError: when the folder cannot be written.
    """
    from ..folders import reason_of
    from .report import save_result
    from .report_html import save_html

    if not result.seconds:
        result.finish()
    folder = results_folder() if output is None else output
    try:
        path = save_result(result, folder)
        report = save_html(result, path)
    except OSError as error:
        raise PagedChatError(
            f"The report cannot be kept in {folder} ({reason_of(error)}); name another folder with --output."
        ) from error
    say(f"Report: {report}", sys.stderr)


def results_folder() -> Path:
    """Where results are kept when the command names no folder."""
    from ..settings import load_settings

    return load_settings({})[1].state / "bench"


class Shown(Protocol):
    """Progress as a bench reports it."""

    def phase(self, text: str, total: float | None = None) -> None:
        """What runs from now on, and how much of it there is."""

    def advance(self, amount: float = 1.0) -> None:
        """So much of the phase is done."""


@contextmanager
def progress() -> Iterator[Shown]:
    """Progress on stderr while the context lasts: a bar for people, a line a phase for pipes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


class _Lines:
    def phase(self, text: str, total: float | None = None) -> None:
        say(f"{text} ...", sys.stderr)

    def advance(self, amount: float = 1.0) -> None:
        pass


class _Bar:
    def __init__(self, bar) -> None:
        self._bar = bar
        self._task = None

    def phase(self, text: str, total: float | None = None) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(text, total=total)

    def advance(self, amount: float = 1.0) -> None:
        if self._task is not None:
            self._bar.advance(self._task, amount)


def chosen_model(name: str, models_dir: Path | None) -> Path:
    """The model a bench was asked for; the default one, fetched if it is not here, for an empty name."""
    return named_model(name, models_dir) if name else default_model(models_dir)


def default_model(models_dir: Path | None) -> Path:
    """The default model, fetched if it is not here."""
    from ..model_fetch import ModelFetch
    from ..terminal import fetch_display

    store = _store(models_dir)
    found = store.resolve("default")
    if found is not None:
        return found
    with fetch_display() as show:
        return ModelFetch(store, show).run()


def named_model(name: str, models_dir: Path | None) -> Path:
    """A model that is here."""
    found = _store(models_dir).resolve(name)
    if found is None:
        raise ConfigError(f"{name} is not here yet; `pagedchat models pull` fetches it.")
    return found


def _store(models_dir: Path | None):
    from ..model_store import ModelStore
    from ..settings import load_settings

    return ModelStore(load_settings({"models_dir": models_dir})[1].models)
