"""One side of the `published` table, in a process of its own, so that its memory can be told: one JSON line a case.

python -m pagedchat.app.bench.published_side '{"side": "paged", "model": PATH, ...}'
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...kernels.choose import plain_cpu_dtype
from .cells import CONTIGUOUS, PAGED, engine_for, reserved_tokens
from .figures import percentile
from .memory_peak import peak_memory, reset_peak
from .models import DEFAULT_MODE, BenchModel
from .replay import replay
from .traces import Lengths, chat_load
from .transformers_peer import transformers_model

if TYPE_CHECKING:
    from .cells import Way

WAYS = {"contiguous": CONTIGUOUS, "paged": PAGED}


@dataclass(frozen=True)
class Case:
    """What one side serves: all sequences at once, every prompt different.

    Attributes:
        context: longest sequence, which a reservation takes; the budget is ``reservations`` times that.
    """

    prompt: int
    output: int
    sequences: tuple[int, ...]
    context: int
    reservations: int
    seed: int = 1

    @property
    def budget(self) -> int:
        """Slots of KV."""
        return self.reservations * reserved_tokens(self.context)

    def arrivals(self, sequences: int, vocab_size: int):
        """The requests."""
        prompts, replies = Lengths(self.prompt, 0.0, 1), Lengths(self.output, 0.0, 1)
        return chat_load(sequences, prompts, replies, 0.0, self.seed, vocab_size)

    def to_dict(self) -> dict[str, Any]:
        """All fields, for the other process."""
        return asdict(self)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Case:
        """The reverse of `to_dict`."""
        own = {one.name: values[one.name] for one in fields(cls)}
        return cls(**{**own, "sequences": tuple(own["sequences"])})


def serve_side(side: str, model: BenchModel, case: Case) -> Iterator[dict[str, Any]]:
    """The figures of each number of sequences, as they come."""
    for sequences in case.sequences:
        if side == "transformers":
            found = serve_by_transformers(model, case, sequences)
        else:
            found = serve_by_engine(WAYS[side], model, case, sequences)
        yield {"side": side, "sequences": sequences, **found, "memory_bytes": peak_memory()}


def serve_by_engine(way: Way, model: BenchModel, case: Case, sequences: int) -> dict[str, Any]:
    """Our engine, memory in one of the two ways; what finds no room waits."""
    engine = engine_for(
        way,
        lambda size, blocks: model.runner(DEFAULT_MODE, size, blocks),
        model.tokenizer,
        case.budget,
        case.context,
        max_num_seqs=max(case.sequences),
    )
    bytes_per_slot = engine.runner.bytes_per_block // engine.kv.block_size
    _forget_loading()
    run = replay(engine, case.arrivals(sequences, model.tokenizer.num_tokens))
    peak = max(step.slots for step in run.steps)
    return {
        "seconds": run.seconds,
        "tokens_per_s": run.tokens_per_s,
        "ttft_p95_s": percentile([one.ttft_s for one in run.requests], 95),
        "e2e_s": statistics.median(one.token_times[-1] for one in run.requests),
        "at_once": max(step.running for step in run.steps),
        "kv_bytes": peak * bytes_per_slot,
        "bytes_per_slot": bytes_per_slot,
        "preemptions": run.preemptions,
    }


def serve_by_transformers(model: BenchModel, case: Case, sequences: int) -> dict[str, Any]:
    """Plain transformers in the numbers that plain torch is quick in here, one batch with its own cache, which grows
    by a token a step."""
    dtype = plain_cpu_dtype(torch.bfloat16)
    peer = transformers_model(model, dtype)
    arrivals = case.arrivals(sequences, model.tokenizer.num_tokens)
    ids = torch.tensor([one.prompt for one in arrivals])
    _forget_loading()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        began = time.perf_counter()
        step = peer(ids, use_cache=True, logits_to_keep=1)
        first = time.perf_counter() - began
        for _ in range(case.output - 1):
            ids = step.logits[:, -1:].argmax(-1)
            step = peer(ids, past_key_values=step.past_key_values, use_cache=True)
        took = time.perf_counter() - began
    spec = model.checkpoint.spec
    bytes_per_slot = 2 * dtype.itemsize * spec.num_layers * spec.num_kv_heads * spec.head_dim
    return {
        "seconds": took,
        "tokens_per_s": sequences * case.output / took,
        "ttft_p95_s": first,
        "e2e_s": took,
        "at_once": sequences,
        "kv_bytes": step.past_key_values.get_seq_length() * sequences * bytes_per_slot,
        "bytes_per_slot": bytes_per_slot,
        "dtype": str(dtype).removeprefix("torch."),
        "preemptions": 0,
    }


def _forget_loading() -> None:
    """What it took to read and lay out the weights is no part of a side's memory."""
    gc.collect()
    reset_peak()


def main() -> None:
    """Serve the side that the argument names."""
    asked = json.loads(sys.argv[1])
    model = BenchModel.open(Path(asked["model"]))
    for found in serve_side(asked["side"], model, Case.of(asked)):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
