"""The engine process loads what a first token takes, and no more."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pagedchat.engine.client import EngineClient
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.generate_request import GenerateRequest
from pagedchat.engine.lean_torch import FOR_COMPILERS
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput
from support.tiny_gguf import write_gguf
from support.tiny_tokenizers import byte_level_metadata

TESTS = Path(__file__).resolve().parent.parent
NOT_NEEDED = (
    "transformers", "gradio", "fastapi", "starlette", "uvicorn", "websockets", "pandas", "scipy", "huggingface_hub",
    "gguf", "typer", "rich", "pydantic", "sqlite3", "matplotlib", "torch._dynamo", "torch._inductor", "sympy",
    *FOR_COMPILERS,
)  # fmt: skip


def test_an_engine_that_has_answered_has_loaded_nothing_that_a_reply_does_not_take(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", metadata=byte_level_metadata())

    async def modules() -> set[str]:
        paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        client = EngineClient(engine="support.telling_engine:engine", env={"PYTHONPATH": paths})
        try:
            await client.start(EngineConfig(model=str(path), num_blocks=16))
            await client.wait_ready()
            request = GenerateRequest(SamplingParams(max_tokens=3, ignore_eos=True), prompt="hello")
            outputs = [item async for item in client.generate(request)]
            assert isinstance(outputs[-1], RequestOutput) and outputs[-1].finish_reason == "length"
            return set((await client.refresh_info())["modules"])
        finally:
            await client.close()

    loaded = asyncio.run(modules())
    assert {"torch", "tokenizers", "pagedchat.engine.worker_loop"} <= loaded
    assert loaded.isdisjoint(NOT_NEEDED), sorted(loaded.intersection(NOT_NEEDED))


SHAPE_WITHOUT_DATA = """
import sys
from pagedchat.engine.lean_torch import FOR_COMPILERS, without_compiler_parts
{first}
with without_compiler_parts():
    import torch
print([name in sys.modules for name in FOR_COMPILERS], [hasattr(torch, name[6:]) for name in FOR_COMPILERS])
import torch._meta_registrations
ones = torch.ones(2, 3, device="meta")
print(tuple(torch.nn.functional.scaled_dot_product_attention(ones, ones, ones).shape))
"""


@pytest.mark.parametrize(("first", "there"), [("", "[False] [False]"), ("import torch", "[True] [True]")])
def test_what_is_left_out_of_torch_can_be_had_later(first: str, there: str) -> None:
    script = SHAPE_WITHOUT_DATA.format(first=first)
    ran = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines() == [there, "(2, 3)"], ran.stderr
