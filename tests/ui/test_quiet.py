"""Gradio is imported without the work that it does for editors, and is otherwise whole."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest

from pagedchat.ui.quiet import BLAS_THREADS, load_gradio

LOAD = """
import ast
from pagedchat.ui.quiet import load_gradio
parsed = []
parse = ast.parse
ast.parse = lambda source, *args, **kwargs: (parsed.append(source), parse(source, *args, **kwargs))[1]
load_gradio()
print(sum(isinstance(source, str) and "gradio" in source and "class " in source for source in parsed))
"""


def test_gradio_parses_no_sources_while_it_is_imported() -> None:
    result = subprocess.run([sys.executable, "-P", "-c", LOAD], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "0"


def test_a_module_with_a_function_left_out_is_otherwise_the_same() -> None:
    gradio = load_gradio()
    meta, events = sys.modules["gradio.component_meta"], sys.modules["gradio.events"]
    assert meta.__file__ is not None and meta.__file__.endswith("component_meta.py")
    assert "class ComponentMeta" in inspect.getsource(meta)
    assert events.EventListener("click").event_name == "click"
    assert callable(gradio.Textbox.change)


def test_nothing_is_left_in_the_import_system() -> None:
    load_gradio()
    assert not [finder for finder in sys.meta_path if type(finder).__module__ == "pagedchat.ui.quiet"]


SERVED = """
import asyncio, sys
import httpx
from fastapi import FastAPI
from pagedchat.ui.page import mount_page

async def status():
    transport = httpx.ASGITransport(mount_page(FastAPI()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
        return (await browser.get("/")).status_code

print(asyncio.run(status()), type(sys.modules["pandas"]).__name__, "pandas.core" in sys.modules)
import pandas
print(pandas.DataFrame({"a": [1, 2]}).a.sum(), "pandas.core" in sys.modules)
"""


def test_what_only_components_of_others_need_is_loaded_when_they_do() -> None:
    result = subprocess.run([sys.executable, "-P", "-c", SERVED], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["200 _LazyModule False", "3 True"]


THREADS = """
import os
from pathlib import Path
from pagedchat.ui.quiet import BLAS_THREADS, load_gradio
load_gradio()
print(len(list(Path("/proc/self/task").iterdir())), BLAS_THREADS in os.environ)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("said", "expected"), [(None, "1 False"), ("2", "2 True")])
def test_the_page_brings_no_threads_that_compute_unless_the_user_says_so(said: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != BLAS_THREADS}
    environment |= {BLAS_THREADS: said} if said else {}
    command = [sys.executable, "-P", "-c", THREADS]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.strip() == expected
