"""What plain torch needs while kernels are compiled is let go of as soon as they are there."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
import torch

from pagedchat.engine.models import decoder as decoder_module
from pagedchat.engine.models.decoder import OperationSteps
from pagedchat.engine.runner import ModelRunner
from pagedchat.kernels.interface import DecoderProgram
from pagedchat.kernels.reference import ReferenceKernels
from support.fake_checkpoint import checkpoint_of, step_batch, tiny_llama

VOCABULARY = 97


class Program:
    """A compiled program that gives one number."""

    weight_bytes = 5

    def forward(self, token_ids: np.ndarray, groups: Any, sample_rows: np.ndarray) -> np.ndarray:
        return np.full((len(sample_rows), VOCABULARY), 7, np.float32)


class Compiling(ReferenceKernels):
    """Compiles until it is told to stop."""

    def __init__(self) -> None:
        super().__init__("cpu", torch.float32)
        self.program: Future[DecoderProgram] = Future()

    def can_fuse(self, shape: Any) -> bool:
        return True

    def fuse(self, shape: Any, weights: Any, kv_cache: Any) -> Future[DecoderProgram]:
        return self.program


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Compiling:
    found = Compiling()
    monkeypatch.setattr("pagedchat.engine.runner.choose_kernels", lambda *_: found)
    return found


def test_an_engine_that_nobody_asks_lets_go_of_them_when_it_tells_of_itself(
    kernels: Compiling, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(decoder_module, "give_back_freed", lambda: given_back.append(plain() is None))
    runner = ModelRunner.load(
        checkpoint_of(tiny_llama()), device="cpu", dtype="float32", block_size=4, num_blocks_for=lambda *_: 8
    )
    plain = weakref.ref(runner.decoder._holder)
    assert isinstance(plain(), OperationSteps)
    step = step_batch([[1, 2, 3]], [[0]], [(0, 3)], 4)
    assert len(set(runner.execute(step)[0])) > 1 and runner.describe()["weight_bytes"] > 5 and not given_back

    kernels.program.set_result(Program())
    assert runner.describe()["weight_bytes"] == 5
    gc.collect()
    assert plain() is None and given_back == [True]
    assert set(runner.execute(step)[0]) == {7.0}
