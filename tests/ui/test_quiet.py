"""Gradio is imported without the work that it does for editors, and is otherwise whole."""

from __future__ import annotations

import inspect
import subprocess
import sys

from pagedchat.ui.quiet import load_gradio

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
