"""Imports Gradio with everything off that speaks to other hosts, keeps what users do or only helps its authors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import LazyLoader, spec_from_file_location
from types import ModuleType
from typing import Any

QUIET = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_RUN_HISTORY": "False",
    "GRADIO_MCP_SERVER": "False",
    "GRADIO_SSR_MODE": "False",
    "GRADIO_VIBE_MODE": "",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

AUTHORING = {
    "gradio.component_meta": ("create_or_modify_pyi",),
    "gradio.events": ("EventListener", "set_doc"),
}
"""What Gradio (6.31) does for editors while it is imported, by module: it parses the source of every component to write
stub files beside it, and renders the docstring of every event. That is half the time of the import, and no page needs
it. A release without these names is imported as it is."""

BLAS_THREADS = "OPENBLAS_NUM_THREADS"

UNUSED = ("pandas",)
"""What Gradio imports for components that the page has not: loaded once somebody asks anything of it."""


def load_gradio() -> ModuleType:
    """The ``gradio`` module. Takes seconds the first time; the environment must be set before."""
    os.environ.update(QUIET)
    with _left_out(AUTHORING), _one_thread():
        import gradio

    return gradio


@contextmanager
def _one_thread() -> Iterator[None]:
    """NumPy, which Gradio imports, starts no thread for every processor; what the user has said of that stands."""
    if BLAS_THREADS in os.environ:
        yield
        return
    os.environ[BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[BLAS_THREADS]  # a process that computes says for itself how many it takes


@contextmanager
def _left_out(functions: dict[str, tuple[str, ...]]) -> Iterator[None]:
    """Modules imported within have no-ops in place of ``functions`` as soon as they have run; those of `UNUSED` have
    not run."""
    finder = _Finder(functions)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds the modules of ``functions`` and `UNUSED` where they are; leaves all others to the finders after it."""

    def __init__(self, functions: dict[str, tuple[str, ...]]) -> None:
        self._functions = functions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._functions and fullname not in UNUSED:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if fullname in UNUSED:
            if found is not None and found.loader is not None:
                found.loader = LazyLoader(found.loader)
            return found
        if found is None or found.origin is None or not isinstance(found.loader, SourceFileLoader):
            return None
        loader = _Loader(fullname, found.origin, self._functions[fullname])
        return spec_from_file_location(fullname, found.origin, loader=loader)


class _Loader(SourceFileLoader):
    """Loads a module and puts a no-op in place of the function that the names lead to."""

    def __init__(self, fullname: str, path: str, names: tuple[str, ...]) -> None:
        super().__init__(fullname, path)
        self._names = names

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        owner: Any = module
        for name in self._names[:-1]:
            owner = getattr(owner, name, None)
        if callable(getattr(owner, self._names[-1], None)):
            setattr(owner, self._names[-1], _nothing)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Takes the place of a function that is called for its effects only."""
