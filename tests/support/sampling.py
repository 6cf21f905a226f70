"""Choosing tokens from logits without an engine, and transformers' processors to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from pagedchat.engine.request import Request
from pagedchat.engine.sampler import Sampled, Sampler
from pagedchat.engine.sampling_params import SamplingParams


def vocabulary(size: int, end_ids: Sequence[int] = (), special_ids: Sequence[int] = ()) -> Any:
    """As much of a tokenizer as sampling looks at: token ``i`` is written as the digits of ``i`` in brackets."""
    return SimpleNamespace(
        num_tokens=size,
        end_ids=frozenset(end_ids),
        special_ids=frozenset(end_ids) | frozenset(special_ids),
        hidden_ids=frozenset(end_ids) | frozenset(special_ids),
        strips_leading_space=False,
        token_bytes=lambda number: b"[%d]" % number,
        encode=lambda text: [int(part) for part in text.strip("[]").split("][") if part.isdigit()],
    )


def request(
    params: SamplingParams, prompt: Sequence[int] = (0,), output: Sequence[int] = (), seed: int = 0, name: str = "r"
) -> Request:
    """A request whose next token is due."""
    one = Request(name, list(prompt), params, order=0, arrival=0.0, seed=seed, max_tokens=1 << 20)
    one.token_ids += output
    one.num_computed = one.num_tokens
    return one


def choose(logits: Any, requests: Sequence[Request], tokenizer: Any = None) -> list[Sampled]:
    """One step of a fresh sampler; ``logits`` [rows, vocab] stay as they are."""
    rows = np.array(logits, np.float32)
    return Sampler(tokenizer or vocabulary(rows.shape[1])).choose(requests, rows)


def tokens(logits: Any, requests: Sequence[Request], tokenizer: Any = None) -> list[int | None]:
    """Only the ids that `choose` gives."""
    return [one.token for one in choose(logits, requests, tokenizer)]


def transformers_scores(
    scores: np.ndarray, params: SamplingParams, prompt: Sequence[int], output: Sequence[int], end_ids: Sequence[int]
) -> np.ndarray:
    """A row's scores after transformers' processors, built and ordered by `generate` itself; -inf is out."""
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = GenerationConfig(
        do_sample=not params.greedy,
        temperature=params.temperature if not params.greedy else None,
        top_k=params.top_k if params.top_k > 0 else None,
        top_p=params.top_p if params.top_p < 1 else None,
        min_p=params.min_p or None,
        repetition_penalty=params.repetition_penalty,
        sequence_bias={(token,): bias for token, bias in params.logit_bias.items()} or None,
        min_new_tokens=params.min_tokens or None,
        eos_token_id=list(end_ids) or None,
        pad_token_id=0,
    )
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(scores), **shape))
    ids = torch.tensor([[*prompt, *output]])
    model._prepare_special_tokens(config, False, device=torch.device("cpu"))
    processors = model._get_logits_processor(
        generation_config=config, input_ids_seq_length=len(prompt), encoder_input_ids=ids, device="cpu"
    )
    return processors(ids, torch.from_numpy(scores[None].copy()))[0].numpy()
