"""A model without weights that reads its context through block tables, so that any fault of paging changes its reply.

Its "KV cache" holds token ids. The next token is a pseudo-random function of the whole context as found through the
block table: a stale, missing, foreign or half-copied slot gives another reply, or an error.
"""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np

from pagedchat.engine.config import EngineConfig
from pagedchat.engine.engine import Engine
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput, StepBatch

VOCAB = 97
POISON = -1


class ByteTokenizer:
    """Ids 0..95 are printable ASCII, id 96 ends a turn."""

    num_tokens = VOCAB
    end_ids = frozenset({96})
    special_ids = hidden_ids = frozenset({96})
    bos_id = None
    strips_leading_space = False
    warnings: tuple[str, ...] = ()

    def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
        return [ord(letter) - 32 for letter in text]

    def decode(self, ids, *, skip_special: bool = True) -> str:
        return "".join(chr(one + 32) for one in ids if one < 96)

    def token_bytes(self, token: int) -> bytes:
        return bytes([token + 32]) if token < 96 else b""


class PagedModel:
    """Runner whose logits depend on every token of the context, at its position."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        max_model_len: int = 4096,
        end_turns: bool = False,
        windows: tuple[int | None, ...] = (None,),
    ) -> None:
        self.windows = windows
        self.cache = np.full((num_blocks, block_size), POISON, np.int64)
        self.block_size, self.max_model_len, self.num_blocks = block_size, max_model_len, num_blocks
        self.vocab_size = VOCAB + 8  # more rows than the tokenizer has ids
        self.end_turns = end_turns
        self.fail_at: set[int] = set()
        self.calls = 0
        self.rows: list[int] = []

    def describe(self) -> dict[str, str]:
        return {"device": "cpu", "dtype": "none", "kernels": "scripted", "reason": "test"}

    def execute(self, batch: StepBatch) -> np.ndarray:
        self.calls += 1
        self.rows.append(len(batch.token_ids))
        if self.calls in self.fail_at:
            raise RuntimeError("forward failed on purpose")
        for source, target in batch.copies:
            self.cache[target] = self.cache[source]
        slots = np.concatenate([group.slot_mapping for group in batch.groups])
        assert len(set(slots.tolist())) == len(slots), "two rows write one slot"
        for group in batch.groups:
            self.cache.reshape(-1)[group.slot_mapping] = batch.token_ids
        return np.stack([self._logits(batch.groups, row) for row in batch.sample_rows] or [np.zeros(self.vocab_size)])[
            : len(batch.sample_rows)
        ].astype(np.float32)

    def _logits(self, groups, row: int) -> np.ndarray:
        seen = b"".join(self._context(group, row).tobytes() for group in groups)
        logits = np.random.default_rng(zlib.crc32(seen)).normal(size=self.vocab_size) * 3
        logits[VOCAB:] = 1e6
        if not self.end_turns:
            logits[96] = -1e6
        return logits

    def _context(self, attention, row: int) -> np.ndarray:
        """The tokens that a group's layers see from this row."""
        sequence = int(np.searchsorted(attention.query_start, row, side="right")) - 1
        length = int(attention.positions[row]) + 1
        rows_after = int(attention.query_start[sequence + 1]) - 1 - row
        assert length == attention.seq_lens[sequence] - rows_after
        context = self.cache[attention.block_tables[sequence]].reshape(-1)[:length]
        if attention.window is not None:
            context = context[max(0, length - attention.window) :]
        assert (context != POISON).all(), "a slot was read that was never written"
        return context


def make_engine(num_blocks: int = 64, block_size: int = 4, end_turns: bool = False, **settings) -> Engine:
    """An engine over a `PagedModel`, checked for conservation after every step."""
    longest, windows = settings.pop("max_model_len", 4096), settings.pop("windows", (None,))
    model = PagedModel(num_blocks, block_size, longest, end_turns, windows)
    config = EngineConfig(model="scripted", block_size=block_size, num_blocks=num_blocks, **settings)
    return CheckedEngine(config, runner=model, tokenizer=ByteTokenizer(), num_blocks=num_blocks)  # type: ignore[arg-type]


class CheckedEngine(Engine):
    """Asserts after every step that the pool's books balance, that every index entry tells the truth, and that every
    token that will be seen again lies in the slot where the tables say."""

    def step(self) -> list[RequestOutput]:
        outputs = super().step()
        assert self.kv.conserved(self._requests())
        history = self.kv.pool.history
        assert history.allocated - history.released == self.kv.pool.num_active
        model = self.runner
        for block in self.kv.index.blocks():
            tokens = self.kv.index.tokens_of(block)
            assert tuple(model.cache[block][: len(tokens)]) == tokens  # type: ignore[attr-defined]
        for request in self._requests():
            for group, table in enumerate(request.tables):
                first = self.kv.index.first_needed(group, request.num_computed) * self.kv.block_size
                for position in range(first, request.num_computed):
                    block, slot = table[position // self.kv.block_size], position % self.kv.block_size
                    assert model.cache[block][slot] == request.token_ids[position]  # type: ignore[attr-defined]
        snapshot = self.snapshot()
        assert snapshot["free"] + snapshot["cached"] + snapshot["active"] == snapshot["num_blocks"]
        return outputs


def prompt_of(length: int, seed: int = 0) -> list[int]:
    """Random ids of the scripted vocabulary, none of which ends a turn."""
    rng = random.Random(seed)
    return [rng.randrange(96) for _ in range(length)]


def greedy(max_tokens: int = 8, **more: Any) -> SamplingParams:
    """Always the most likely token."""
    return SamplingParams(temperature=0, max_tokens=max_tokens, **more)


def run(engine: Engine, prompts: dict[str, list[int]], max_tokens: int = 8, **params) -> dict[str, list[int]]:
    """Serve some prompts together to their end; ids by request id."""
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=max_tokens, **params))
    return drain(engine)[0]


def drain(engine: Engine) -> tuple[dict[str, list[int]], dict[str, RequestOutput]]:
    """Step to the end; (ids, last output) by request id."""
    ids: dict[str, list[int]] = {}
    last: dict[str, RequestOutput] = {}
    for _ in range(20_000):
        if not engine.has_unfinished():
            return ids, last
        for output in engine.step():
            ids.setdefault(output.request_id, []).extend(output.token_ids)
            last[output.request_id] = output
    raise AssertionError("the engine does not come to an end")


def cold(prompt: list[int], max_tokens: int = 8, block_size: int = 4, **settings) -> list[int]:
    """The reply with no cache, no company and no shortage."""
    engine = make_engine(512, block_size, enable_prefix_caching=False, **settings)
    return run(engine, {"cold": prompt}, max_tokens)["cold"]
