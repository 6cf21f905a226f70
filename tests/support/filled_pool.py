"""A pool that was used by many requests which have ended."""

from __future__ import annotations

import random

from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_client import PagedFakeClient

CHATS = 4


def fill(client: PagedFakeClient, num_blocks: int, longest: int = 200, seed: int = 7) -> None:
    """Fill blocks with the content of requests that have ended, each of up to ``longest`` blocks, of some chats; a
    third of them begin alike."""
    chance, manager, size = random.Random(seed), client.kv_manager, client.block_size
    alike = [chance.randrange(50_000) for _ in range(4 * size)]
    number = 0
    while manager.pool.num_cached < num_blocks:
        number += 1
        rest = [chance.randrange(50_000) for _ in range(chance.randrange(longest // 10, longest) * size)]
        tokens = [*(alike if number % 3 == 0 else []), *rest]
        labels = {"session": f"chat {number % CHATS}"}
        held = Request(f"old-{seed}-{number}", tokens, SamplingParams(), 0, 0.0, 0, 1 << 20, labels)
        assert manager.admit(held) and manager.append_slots(held, held.num_to_compute), "the pool is too small"
        manager.commit(held, held.num_to_compute)
        manager.step_done()
        manager.free(held)
    manager.events.drain()
