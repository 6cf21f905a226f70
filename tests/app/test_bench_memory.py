"""Four allocators on one trace: what they hold and what they waste."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from pagedchat.app.bench import memory, virtual_memory
from pagedchat.app.bench.allocators import Doubling, Paged, Reserve
from pagedchat.app.bench.memory import MemoryLoad, make_trace, run_memory, run_trace
from pagedchat.app.bench.traces import Lengths
from pagedchat.app.bench.virtual_memory import NoSmapsError, Virtual
from support.command import pagedchat

SMALL = MemoryLoad(
    chats=40, prompts=Lengths(300, least=150, most=700), replies=Lengths(60, least=20, most=120), budget=8192
)
needs_smaps = pytest.mark.skipif(not virtual_memory.SMAPS.exists(), reason="this system has no /proc/self/smaps")


def test_a_reservation_takes_the_longest_sequence_and_says_what_of_it_is_never_used():
    reserve = Reserve(1000, 400)
    assert reserve.admit(1, [7] * 100, end=150) and reserve.admit(2, [7] * 50, end=50)
    assert not reserve.admit(3, [7], end=1)
    usage = reserve.usage()
    assert (usage.live, usage.in_use, usage.reserved, usage.internal) == (150, 800, 50, 600)
    assert reserve.external(100) == 200 and reserve.external(201) == 0


def test_a_sequence_that_outgrows_its_region_moves_to_one_of_twice_the_size():
    doubling = Doubling(128, 128)
    assert doubling.admit(1, [7] * 30, end=40)
    assert doubling.in_use() == 32
    for _ in range(3):
        assert doubling.append(1, 7)
    assert doubling.in_use() == 64 and doubling.moved == 32
    assert doubling.usage().internal == 64 - 40
    doubling.release(1)
    assert doubling.in_use() == 0 and doubling.admit(2, [7] * 128, end=128)


def test_a_move_that_finds_no_room_changes_nothing():
    doubling = Doubling(64, 64)
    assert doubling.admit(1, [7] * 32, end=64) and doubling.admit(2, [7] * 16, end=16)
    assert not doubling.append(1, 7)
    assert doubling.in_use() == 48 and doubling.lengths[1] == 32
    assert doubling.external(10) == 16


def test_regions_never_overlap_and_all_come_back():
    rng, doubling, live = random.Random(4), Doubling(1000, 512), {}
    for key in range(400):
        if live and rng.random() < 0.5:
            doubling.release(live.popitem()[0])
        if doubling.admit(key, [7] * rng.randint(1, 200), end=300):
            live[key] = None
        if live and (grown := rng.choice(list(live))) is not None:
            doubling.append(grown, 7)
        spans = sorted(doubling._regions.values())
        assert all(at + size <= later for (at, size), (later, _) in pairwise(spans))
        assert sum(len(places) * size for size, places in doubling._free.items()) + doubling.in_use() == 1000 // 16 * 16
    for key in live:
        doubling.release(key)
    assert doubling.in_use() == 0


def test_blocks_are_counted_once_however_many_share_them():
    paged = Paged(1024, 512, 16)
    prefix = list(range(64))
    assert paged.admit(1, [*prefix, 100], end=100) and paged.admit(2, [*prefix, 200], end=100)
    usage = paged.usage()
    assert (usage.live, usage.in_use) == (66, 6 * 16)
    paged.release(1)
    paged.release(2)
    assert paged.in_use() == 0


def test_paging_wastes_at_most_a_part_of_a_block_a_branch_at_every_step_and_nothing_lies_useless():
    for block_size in (1, 16, 64):
        run = run_trace(Paged(SMALL.budget, SMALL.longest, block_size), make_trace(SMALL))
        assert run.most_waste_a_branch <= block_size - 1
        assert run.external == 0
        assert max(run.held) > 4


@needs_smaps
def test_the_virtual_allocator_holds_the_pages_that_it_counts_and_gives_them_back():
    virtual = Virtual(4096, 1024, row_bytes=384, seats=16)
    assert virtual.in_memory() == 0
    for key, length in enumerate((1, 10, 11, 300)):
        assert virtual.admit(key, [7] * length, end=400)
    assert virtual.in_memory() == virtual.pages * virtual.page_bytes
    for _ in range(40):
        assert virtual.append(1, 7)
    assert virtual.in_memory() == virtual.pages * virtual.page_bytes
    virtual.release(3)
    virtual.release(1)
    assert virtual.in_memory() == virtual.pages * virtual.page_bytes > 0


@needs_smaps
def test_the_virtual_allocator_keeps_to_its_budget():
    virtual = Virtual(1024, 1024, row_bytes=384, seats=16)
    assert virtual.admit(0, [7] * 1000, end=1024)
    assert not virtual.admit(1, [7] * 100, end=120)
    assert virtual.in_memory() <= 1024 * 384


def test_where_smaps_is_missing_a_sentence_says_so_and_three_allocators_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(virtual_memory, "SMAPS", tmp_path / "smaps")
    with pytest.raises(NoSmapsError, match="this system has no"):
        Virtual(1024, 512)
    result = run_memory(SMALL)
    assert "virtual" not in result.figures and "this system has no" in result.tables[0].note
    assert [row[0] for row in result.tables[0].rows] == ["reserve", "doubling", "paged", "paged, nothing shared"]


def test_a_chat_load_is_held_with_at_least_95_percent_of_the_slots_in_use():
    result = run_memory(SMALL)
    assert result.passed
    paged, reserve = result.figures["paged"], result.figures["reserve"]
    assert paged["utilization"] >= 0.95 > reserve["utilization"]
    assert paged["held_mean"] > 1.5 * reserve["held_mean"]
    assert result.figures["median_tokens"] >= 256
    for name, one in result.figures.items():
        if isinstance(one, dict):
            assert one["reserved"] + one["internal"] <= 1, name


def test_every_chat_of_a_trace_comes_to_its_end_in_every_allocator():
    trace = make_trace(SMALL)
    for allocator in (Reserve(4096, 2048), Doubling(4096, 2048), Paged(4096, 2048, 16)):
        run = run_trace(allocator, trace)
        assert not allocator.lengths and max(run.held) >= 1
        assert allocator.in_use() == 0


def test_a_folder_that_cannot_be_written_is_told_before_the_bench_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "run_memory", lambda load: pytest.fail("the bench ran"))
    (tmp_path / "file").write_text("")
    done = pagedchat("bench", "memory", "--output", str(tmp_path / "file" / "reports"))
    assert done.returncode == 1 and done.stdout == ""
    assert "report folder" in done.stderr and "--output" in done.stderr
