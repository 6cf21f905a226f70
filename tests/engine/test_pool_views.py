"""What the panel asks of a large pool says what the whole snapshot says, in few bytes."""

from __future__ import annotations

import json
import random

import pytest

from pagedchat.engine.inspect import pool_books, pool_snapshot
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.pool_views import block_ages, idle_rows, pool_brief, spread
from pagedchat.engine.request import Request
from pagedchat.engine.sampling_params import SamplingParams

SIZE = 16


class Pool:
    """A pool that was used by many, on a clock that the test sets."""

    def __init__(self, num_blocks: int, seed: int = 3) -> None:
        self.now, self.chance = 100.0, random.Random(seed)
        self.kv = KVCacheManager(num_blocks, SIZE, clock=lambda: self.now)
        self.running: list[Request] = []

    def ask(self, tokens: list[int], session: str) -> Request:
        request = Request(f"r{self.now}", tokens, SamplingParams(), 0, 0.0, 0, 1 << 20, {"session": session})
        assert self.kv.admit(request) and self.kv.append_slots(request, request.num_to_compute)
        self.kv.commit(request, request.num_to_compute)
        self.kv.step_done()
        self.running.append(request)
        self.now += self.chance.random() * 10
        return request

    def end(self, request: Request) -> None:
        self.running.remove(request)
        self.kv.free(request)

    def use(self, requests: int) -> None:
        shared = [self.chance.randrange(90) for _ in range(8 * SIZE)]
        for number in range(requests):
            rest = [self.chance.randrange(90) for _ in range(self.chance.randrange(20 * SIZE))]
            begin = shared[: self.chance.choice([0, 3 * SIZE, 5 * SIZE + 3])]
            request = self.ask([*begin, *rest, 1], f"session {number % 5}")
            if number % 3:
                self.end(request)


@pytest.fixture(scope="module")
def pool() -> Pool:
    pool = Pool(1_000)
    pool.use(90)
    pool.kv.set_pinned([block for block, letter in enumerate(pool.kv.pool.letters()) if letter == "c"][:5], True)
    return pool


def test_the_brief_says_what_the_snapshot_says(pool: Pool) -> None:
    snapshot, brief = pool_snapshot(pool.kv, pool.running), pool_brief(pool.kv, pool.running)
    assert {name: snapshot[name] for name in pool_books(pool.kv, pool.running)} == pool_books(pool.kv, pool.running)
    assert snapshot["shared"] and snapshot["cached"] and snapshot["free"] and snapshot["conserved"]
    states = "".join(letter * size for letter, size in brief["states"])
    assert states == "".join(row["state"][0] for row in snapshot["blocks"])
    held = [
        (count, [brief["owners"][one] for one in whose]) for _, size, count, whose in brief["held"] for _ in range(size)
    ]
    rows = [row for row in snapshot["blocks"] if row["ref_count"]]
    assert list(spread(brief["held"])) == [row["id"] for row in rows]
    assert held == [(row["ref_count"], row["owners"]) for row in rows]
    assert brief["pins"] == [row["id"] for row in snapshot["blocks"] if row.get("pinned")] and len(brief["pins"]) == 5


def test_ages_are_those_of_the_snapshot(pool: Pool) -> None:
    ages = block_ages(pool.kv)
    rows = [row for row in pool_snapshot(pool.kv, pool.running)["blocks"] if row["state"] != "free"]
    assert list(spread(ages["blocks"])) == [row["id"] for row in rows]
    assert ages["born_ms"] == [round(1e3 * row["born_s"]) for row in rows]
    assert ages["idle_ms"] == [round(1e3 * row["last_used_s"]) for row in rows]
    reuses = [value for value, size in ages["reuses"] for _ in range(size)]
    assert reuses == [row["reuses"] for row in rows] and max(reuses) > 3
    assert [value for value, size in ages["counts"] for _ in range(size)] == [row["ref_count"] for row in rows]
    assert ages["seq"] == pool.kv.events.seq


def test_idle_rows_are_the_idlest_of_the_snapshot_and_say_whose_they_are(pool: Pool) -> None:
    rows, snapshot = idle_rows(pool.kv, 20), pool_snapshot(pool.kv, pool.running)
    cached = [row for row in snapshot["blocks"] if row["state"] == "cached"]
    cost = [row["born_s"] / (1 + row["reuses"]) for row in rows]
    assert cost == pytest.approx(sorted((row["born_s"] / (1 + row["reuses"]) for row in cached), reverse=True)[:20])
    for row in rows:
        block = snapshot["blocks"][row["id"]]
        assert {name: row[name] for name in block} == block and block["state"] == "cached"
        assert row["sessions"], "what a chat has computed is known to be its own"
    assert idle_rows(KVCacheManager(8, SIZE), 5) == []


def test_the_brief_of_a_large_pool_is_small() -> None:
    pool = Pool(50_000)
    pool.use(200)
    brief = json.dumps(pool_brief(pool.kv, pool.running))
    assert len(brief) < 40_000 < len(json.dumps(pool_snapshot(pool.kv, pool.running))) / 100


def test_books_that_do_not_balance_are_told() -> None:
    pool = Pool(50)
    held = pool.ask([1] * 40, "a")
    assert pool_books(pool.kv, pool.running)["conserved"]
    pool.kv.pool.ref_counts[held.tables[0][0]] += 1
    assert not pool_books(pool.kv, pool.running)["conserved"]
