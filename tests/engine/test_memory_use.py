"""Serving leaves nothing behind but what is remembered on purpose, and that is bounded."""

from __future__ import annotations

import gc
import random
import sys
from collections import deque

from pagedchat.engine import computed_before, waiting
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import ByteTokenizer as Tokenizer
from support.paged_model import PagedModel


def test_six_hundred_requests_leave_memory_as_it_was(monkeypatch):
    monkeypatch.setattr(computed_before, "REMEMBERED_BLOCKS", 100)
    monkeypatch.setattr(waiting, "REMEMBERED_LANES", 100)
    config = EngineConfig("scripted", block_size=4, num_blocks=64, max_num_seqs=4)
    engine = Engine(config, runner=PagedModel(64, 4), tokenizer=Tokenizer(), num_blocks=64)  # type: ignore[arg-type]
    engine.kv.events._kept = deque(maxlen=100)
    engine._recent = deque(maxlen=10)
    rng = random.Random(2)

    def serve(count: int, first: int) -> None:
        for index in range(first, first + count):
            prompt = [rng.randrange(96) for _ in range(rng.randint(1, 20))]
            params = SamplingParams(temperature=1, max_tokens=3, n=rng.choice([1, 1, 2]), repetition_penalty=1.1)
            engine.add_request(str(index), prompt, params, salt=rng.choice(["", str(index)]), lane=str(index % 7))
            if rng.random() < 0.1:
                engine.cancel(str(index))
            while engine.has_unfinished():
                engine.step()
            engine.drain_events()
            engine.runner.rows.clear()  # type: ignore[attr-defined]

    serve(300, 0)
    gc.collect()
    before = sys.getallocatedblocks()
    serve(600, 300)
    gc.collect()
    grown = sys.getallocatedblocks() - before
    assert grown < 300, f"{grown / 600:.1f} objects a request stay"
    assert not engine._replies and not engine._samples and not engine.kv._tails
