"""Greedy ids in float32, computed in a process whose environment says for which processor: ``ids_of``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
PLAIN = "--plain"


def ids_of(
    model: Path, prompts: Sequence[Sequence[int]], max_tokens: int, environment: dict[str, str], *, plain: bool
) -> dict[str, Any]:
    """What `main` prints, run under ``environment``.

    Args:
        plain: by plain torch; else by the compiled program.
    """
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-P", "-m", "support.float32_ids", str(model), str(max_tokens), *[PLAIN] * plain],
        input=json.dumps([list(prompt) for prompt in prompts]),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main(model: str, max_tokens: str, *flags: str) -> None:
    """Print {"ids", "kernels", "aten", "vectors"}: ids of each prompt, which kernels gave them, and what torch and the
    tiles were built for."""
    if PLAIN in flags:
        sys.modules["numba"] = None  # type: ignore[assignment]
    import torch

    from pagedchat.engine import Engine, EngineConfig, SamplingParams

    engine = Engine(EngineConfig(model=model, dtype="float32", device="cpu", num_blocks=600))
    while engine.info()["compiling"]:
        time.sleep(0.1)
    prompts = json.load(sys.stdin)
    ids: list[list[int]] = [[] for _ in prompts]
    for index, prompt in enumerate(prompts):
        params = SamplingParams(temperature=0, max_tokens=int(max_tokens), ignore_eos=True)
        engine.add_request(str(index), prompt, params)
    while engine.has_unfinished():
        for output in engine.step():
            ids[int(output.request_id)] += output.token_ids
    told = {"ids": ids, "kernels": engine.info()["kernels"], "aten": torch.backends.cpu.get_cpu_capability()}
    if PLAIN not in flags:
        from pagedchat.kernels.cpu.tiles import FEATURES

        told["vectors"] = sorted(FEATURES & {"sse4.2", "avx", "avx2", "avx512bw", "neon"})
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
