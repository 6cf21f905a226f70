"""Fixtures for all floors. The package under test is the installed one, whatever the checkout's folder is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import pagedchat

assert "site-packages" in pagedchat.__file__, "install the package first: pip install '.[test]'"


def pytest_configure(config: pytest.Config) -> None:
    """Files go to the processes of ``-n`` in the order of the collection, see below."""
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: Playwright keeps its event loop in the main thread, where others run their own.

    The longest file is the first of them, so that it is not what all wait for in the end.
    """
    items.sort(key=lambda item: ("browser" in item.path.parts, item.path.name != "test_looks.py"))


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model, fetched as users fetch it and kept in the user's models folder."""
    from pagedchat.app.folders import find_folders
    from pagedchat.app.model_fetch import ModelFetch
    from pagedchat.app.model_store import ModelStore

    store = ModelStore(find_folders().models)
    return store.resolve("default") or ModelFetch(store).run()


@pytest.fixture
def start_app(tmp_path: Path) -> Iterator[Callable]:
    """Start ``pagedchat serve`` in a process of its own: ``start_app(*flags, data_dir=..., env=...)``.

    Every server that a test leaves running is ended with SIGTERM, and must end well.
    """
    from support.running_app import RunningApp

    with ExitStack() as stack:

        def start(*flags: str, data_dir: Path | None = None, **options) -> RunningApp:
            app = RunningApp(*flags, data_dir=data_dir or tmp_path / "data", **options)
            return stack.enter_context(app)

        yield start
