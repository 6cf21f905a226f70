"""How many blocks chats under one prefix hold: the formula, and the engine's own count.

A prefix of P tokens and chats with oᵢ ≥ 1 tokens of their own, all with KV, hold

    ⌊P/B⌋ + Σ ⌈((P mod B) + oᵢ) / B⌉

blocks of B: the prefix's full blocks once, and for each chat its own copy of the block in which the prefix ends, with
what follows. Until a forked chat has written its first own token it has no copy yet: n chats at that moment hold ⌈P/B⌉.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ...engine.sampling_params import SamplingParams
from .cells import CACHED, engine_for
from .no_model import NoModel, NoTokenizer
from .step_cost import random_ids


def blocks_by_formula(prefix: int, own: Sequence[int], block_size: int) -> int:
    """Blocks of chats with ``own`` tokens each, at least one, after ``prefix`` shared ones."""
    full, part = divmod(prefix, block_size)
    return full + sum(-(-(part + tokens) // block_size) for tokens in own)


def blocks_unshared(prefix: int, own: Sequence[int], block_size: int) -> int:
    """Blocks of the same chats if each had the prefix for itself."""
    return sum(-(-(prefix + tokens) // block_size) for tokens in own)


def blocks_by_engine(prefix: int, prompts: Sequence[int], replies: int, block_size: int) -> tuple[int, list[int]]:
    """What the engine holds for chats with ``prompts`` own prompt tokens, some ``replies`` tokens into their replies.

    Returns:
        Blocks in use, and the own tokens with KV that each chat has by then.
    """
    rng = random.Random(prefix)
    shared = random_ids(rng, prefix, NoTokenizer.num_tokens)
    total = sum(prefix + one + 2 * replies + 2 * block_size for one in prompts)
    engine = engine_for(
        CACHED,
        lambda size, blocks: NoModel(),
        NoTokenizer(),
        total + 64 * block_size * len(prompts),
        1 << 19,
        block_size=block_size,
        max_num_seqs=len(prompts),
    )
    for index, count in enumerate(prompts):
        own = [index, *random_ids(rng, count - 1, NoTokenizer.num_tokens)]
        engine.add_request(str(index), shared + own, SamplingParams(temperature=0, max_tokens=1 << 18))
    running = engine.scheduler.running
    while len(running) < len(prompts) or min(one.num_output_tokens for one in running) < replies:
        engine.step()
        engine.drain_events()
    assert engine.snapshot()["conserved"]
    return engine.kv.pool.num_active, [request.num_computed - prefix for request in running]
