"""A model and a tokenizer that are none: for measuring all that an engine does beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.types import StepBatch

VOCAB = 512


class NoModel:
    """A runner that computes nothing and always prefers the same token."""

    max_model_len = 1 << 20
    vocab_size = VOCAB
    windows = (None,)

    def execute(self, batch: StepBatch) -> np.ndarray:
        """See `ModelRunner.execute`."""
        logits = np.zeros((len(batch.sample_rows), VOCAB), np.float32)
        logits[:, 7] = 1
        return logits

    def describe(self) -> dict[str, Any]:
        """See `ModelRunner.describe`."""
        return {}


class NoTokenizer:
    """Token ids that stand for nothing."""

    num_tokens = VOCAB
    end_ids: frozenset[int] = frozenset()
    special_ids: frozenset[int] = frozenset()
    hidden_ids: frozenset[int] = frozenset()
    bos_id = None
    strips_leading_space = False
    warnings: tuple[str, ...] = ()

    def decode(self, ids: Any, *, skip_special: bool = True) -> str:
        """No text."""
        return ""

    def token_bytes(self, token: int) -> bytes:
        """No bytes."""
        return b""
