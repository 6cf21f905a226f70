"""Imports Gradio with everything off that would speak to another host or keep what users do."""

from __future__ import annotations

import os
from types import ModuleType

QUIET = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_RUN_HISTORY": "False",
    "GRADIO_MCP_SERVER": "False",
    "GRADIO_SSR_MODE": "False",
    "GRADIO_VIBE_MODE": "",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def load_gradio() -> ModuleType:
    """The ``gradio`` module. Takes seconds the first time; the environment must be set before."""
    os.environ.update(QUIET)
    import gradio

    return gradio
