"""Which kernels are chosen, and what is said about it, where compiled ones are missing, late or cannot be kept."""

from __future__ import annotations

import builtins
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch
from platformdirs import user_cache_path

from pagedchat import __version__
from pagedchat.engine.runner import ModelRunner
from pagedchat.kernels import choose
from pagedchat.kernels.cpu import compiled, kernels
from support.fake_checkpoint import checkpoint_of, step_batch, tiny_llama


def load_tiny(**changes) -> ModelRunner:
    return ModelRunner.load(
        checkpoint_of(tiny_llama(**changes)),
        device="cpu",
        dtype="float32",
        block_size=4,
        num_blocks_for=lambda *_: 4,
    )


def logits(runner: ModelRunner) -> np.ndarray:
    return runner.execute(step_batch([[3, 14, 15, 92]], [[1]], [(0, 4)], 4))


def test_without_numba_plain_torch_serves_and_says_so(monkeypatch):
    real = builtins.__import__

    def no_numba(name, *rest, **more):
        if name == "numba" or name.startswith("numba."):
            raise ImportError("No module named 'numba'")
        return real(name, *rest, **more)

    expected = logits(load_tiny())
    for name in [name for name in sys.modules if name.startswith("pagedchat.kernels.cpu.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(sys.modules["pagedchat.kernels.cpu"], "kernels", raising=False)
    monkeypatch.setattr(builtins, "__import__", no_numba)
    runner = load_tiny()
    monkeypatch.undo()
    facts = runner.describe()
    assert facts["kernels"] == "reference" and "numba" in facts["reason"]
    np.testing.assert_allclose(logits(runner), expected, rtol=1e-4, atol=1e-4)


def test_plain_torch_serves_until_the_compiled_kernels_are_ready(monkeypatch):
    expected = logits(load_tiny())
    ready = kernels.compiled_functions
    late: Future = Future()
    monkeypatch.setattr(kernels, "compiled_functions", lambda *_: late)
    runner = load_tiny()
    facts = runner.describe()
    assert facts["kernels"] == "reference" and "compiled" in facts["reason"]
    np.testing.assert_allclose(logits(runner), expected, rtol=1e-4, atol=1e-4)
    folder = runner.decoder.kernels.folder
    late.set_result(ready(folder, True).result(timeout=200))
    runner.decoder._compiling.result(timeout=60)
    step = step_batch([[3, 14, 15, 92, 65]], [[1, 2]], [(4, 5)], 4)
    switched = runner.execute(step)
    assert runner.describe()["kernels"] == "numba"
    fresh = load_tiny()
    fresh.execute(step_batch([[3, 14, 15, 92, 65]], [[1, 2]], [(0, 4)], 4))
    np.testing.assert_allclose(switched, fresh.execute(step), rtol=1e-4, atol=1e-4)


def test_kernels_that_cannot_be_compiled_leave_plain_torch_with_the_reason(monkeypatch):
    broken: Future = Future()
    broken.set_exception(RuntimeError("no such instruction"))
    monkeypatch.setattr(kernels, "compiled_functions", lambda *_: broken)
    runner = load_tiny()
    assert logits(runner).shape == (1, 97)
    facts = runner.describe()
    assert facts["kernels"] == "reference" and "no such instruction" in facts["reason"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path):
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a folder should be")
    chosen = kernels.CpuKernels(torch.float32, blocked, "0")
    assert chosen.unwritable is not None and str(blocked) in chosen.unwritable
    chosen._program = Future()
    chosen._program.set_result(object())  # pyright: ignore[reportArgumentType]
    assert str(blocked) in chosen.reason


def test_a_head_size_the_compiled_kernels_lack_is_served_by_plain_torch():
    runner = load_tiny(head_dim=4)
    facts = runner.describe()
    assert facts["kernels"] == "reference" and "head size" in facts["reason"]
    assert np.isfinite(logits(runner)).all()


def test_another_process_compiles_into_the_folder_and_ends_with_its_parent(tmp_path: Path):
    command = [sys.executable, "-m", "pagedchat.kernels.cpu.compiled", str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=60) == 1
    assert not compiled.is_cached(tmp_path)


@pytest.mark.parametrize("name", ["pagedchat.kernels.choose", "pagedchat.engine.runner"])
def test_triton_and_numba_are_not_needed_to_import(name):
    code = f"import sys; sys.modules['triton'] = None; sys.modules['numba'] = None; import {name}"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


def test_an_unknown_device_kind_runs_on_the_reference():
    chosen = choose.choose_kernels("cpu", torch.float16)
    assert chosen.name == "reference" and "float16" in chosen.reason


def test_a_large_model_waits_for_the_compiled_kernels_instead_of_being_unpacked(monkeypatch):
    from pagedchat.engine.models import decoder

    monkeypatch.setattr(decoder, "MOST_PLAIN_WEIGHTS", 0)
    ready, late = kernels.compiled_functions, Future()
    monkeypatch.setattr(kernels, "compiled_functions", lambda *_: late)
    folder = kernels.CpuKernels(torch.float32, user_cache_path("pagedchat", appauthor=False), __version__).folder
    functions = ready(folder, True).result(timeout=200)
    timer = threading.Timer(0.3, late.set_result, [functions])
    timer.start()
    assert load_tiny().describe()["kernels"] == "numba"
    timer.join()


def test_plain_torch_computes_in_float32_on_a_processor_without_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    assert choose.plain_cpu_dtype(torch.bfloat16) == torch.float32
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert choose.plain_cpu_dtype(torch.bfloat16) == torch.bfloat16


@pytest.mark.parametrize(("threads", "words"), [(1, ", 1 thread of its own"), (2, ", 2 threads of its own")])
def test_the_number_of_threads_is_told_in_grammar(threads, words, monkeypatch):
    chosen = kernels.CpuKernels.__new__(kernels.CpuKernels)
    done: Future = Future()
    done.set_result(None)
    chosen._program, chosen.threads, chosen.unwritable = done, threads, None
    assert words in chosen.reason
