"""The two models of the trials: a tiny random Llama in float32, and the scripted model whose KV holds token ids."""

from __future__ import annotations

import random
from functools import cache
from typing import Any, Protocol

from pagedchat.engine import Engine, EngineConfig, SamplingParams
from support.paged_model import ByteTokenizer, PagedModel

CLOSE_CALL = 1e-4
"""Two logits nearer than this may change places when float32 sums are taken in another order: rounding is near 1e-6."""


class TrialModel(Protocol):
    """Makes engines and knows how exactly their replies must agree.

    Attributes:
        max_model_len: longest sequence in tokens.
    """

    max_model_len: int

    def engine(self, block_size: int, num_blocks: int, **settings: Any) -> Engine:
        """An engine with a pool of its own."""
        ...

    def params(self, draw: random.Random, max_tokens: int) -> SamplingParams:
        """Sampling under which a reply can be repeated."""
        ...

    def is_close_call(self, context: list[int]) -> bool:
        """Whether the next greedy token after ``context`` hangs on rounding."""
        ...


class ScriptedModel:
    """Exact, and fast: seeded sampling may be used, and no call is close."""

    max_model_len = 4096

    def engine(self, block_size: int, num_blocks: int, **settings: Any) -> Engine:
        """See `TrialModel`."""
        config = EngineConfig(model="scripted", block_size=block_size, num_blocks=num_blocks, **settings)
        runner = PagedModel(num_blocks, block_size, self.max_model_len)
        return Engine(config, runner=runner, tokenizer=ByteTokenizer(), num_blocks=num_blocks)  # type: ignore[arg-type]

    def params(self, draw: random.Random, max_tokens: int) -> SamplingParams:
        """Greedy or seeded, some with penalties, stop strings or several samples."""
        if draw.random() < 0.5:
            return SamplingParams(temperature=0, max_tokens=max_tokens)
        more: dict[str, Any] = {"n": draw.choice((1, 1, 2, 3))}
        if draw.random() < 0.2:
            more |= {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "min_p": 0.01}
        if draw.random() < 0.2:
            more |= {"stop": [draw.choice("aeiou"), "xy"]}
        seed = draw.randrange(1000)
        return SamplingParams(temperature=0.9, top_p=0.95, seed=seed, max_tokens=max_tokens, **more)

    def is_close_call(self, context: list[int]) -> bool:
        """Never."""
        return False


class TinyLlama:
    """Real arithmetic: plain torch kernels in float32 on random weights."""

    max_model_len = 256

    def __init__(self) -> None:
        from regression.tiny_set import tiny_model

        self._model, self._plain = tiny_model()

    def engine(self, block_size: int, num_blocks: int, **settings: Any) -> Engine:
        """See `TrialModel`."""
        from pagedchat.app.bench.models import Mode

        mode = Mode("reference", "float32", "float32")
        return self._model.engine(mode, block_size=block_size, num_blocks=num_blocks, **settings)

    def params(self, draw: random.Random, max_tokens: int) -> SamplingParams:
        """Greedy."""
        return SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)

    def is_close_call(self, context: list[int]) -> bool:
        """By transformers' logits."""
        import torch

        with torch.inference_mode():
            best, other = self._plain(torch.tensor([context])).logits[0, -1].topk(2).values.tolist()
        return best - other < CLOSE_CALL


@cache
def model_named(name: str) -> TrialModel:
    """``scripted`` or ``llama``."""
    return ScriptedModel() if name == "scripted" else TinyLlama()
