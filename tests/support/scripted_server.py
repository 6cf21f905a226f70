"""``pagedchat`` with the scripted engine in the place of a model: ``python -m support.scripted_server serve ...``.
``chat`` takes it too.

The name of the model file says how the engine behaves (see ``scripted_engine.MODELS``). SCRIPTED_DEFAULT_MODEL, fields
of ``PackagedModel`` as JSON, replaces the default model by a smaller one.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from pagedchat.app import cli, model_store
from pagedchat.app.model_store import ModelStore, PackagedModel
from pagedchat.engine import client
from pagedchat.engine.config import EngineConfig

TESTS = Path(__file__).resolve().parent.parent


def engine(config: EngineConfig) -> Any:
    """The scripted engine; a model's path counts as its name."""
    from support.scripted_engine import ScriptedEngine  # prints, which is for the engine process only

    return ScriptedEngine(replace(config, model=Path(config.model).stem))


def _script() -> None:
    """Put the scripted engine where a command would find the real one."""
    scripted = functools.partial(client.EngineClient, engine="support.scripted_server:engine")
    client.EngineClient = scripted  # type: ignore
    if "SCRIPTED_DEFAULT_MODEL" in os.environ:
        default = PackagedModel(**json.loads(os.environ["SCRIPTED_DEFAULT_MODEL"]))
        model_store.ModelStore = functools.partial(ModelStore, default=default)  # type: ignore


if __name__ == "__main__":
    _script()
    cli.main()
