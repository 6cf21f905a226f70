"""The pool's size: a desktop's share by default, out of what is free; wishes in their order; refusals with numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pagedchat.engine import memory as memory_module
from pagedchat.engine.config import EngineConfig
from pagedchat.engine.errors import ConfigError
from pagedchat.engine.headroom import Headroom
from pagedchat.engine.memory import DeviceMemory, device_memory, group_limits
from pagedchat.engine.pool_size import fewest_blocks, num_blocks, slack_of
from support.paged_model import cold, make_engine, prompt_of, run

GIB, MIB = 2**30, 2**20
BLOCK = 16 * 23_040  # bytes of 16 tokens of the default model in bfloat16


def blocks(free=16 * GIB, total=24 * GIB, length=8192, beside=0, windows=(None,), **settings):
    config = EngineConfig(model="m", **settings)
    return num_blocks(config, BLOCK, length, DeviceMemory(free, total), windows, Headroom(beside))


def test_the_default_is_the_smallest_of_all_sequences_half_the_free_memory_and_the_cap():
    assert blocks() == 2 * GIB // BLOCK
    assert blocks(free=2 * GIB) == GIB // BLOCK
    assert blocks(max_num_seqs=1) == 512
    assert blocks(length=100, max_num_seqs=4) == 28


def test_the_default_leaves_room_for_the_weights_the_largest_step_and_the_slack():
    free, beside = 2 * GIB, int(1.5 * GIB)
    assert slack_of(free) == int(0.05 * free) and slack_of(100 * MIB) == 64 * MIB
    assert blocks(free=free, beside=beside) == (free - beside - slack_of(free)) // BLOCK


def test_the_default_holds_one_whole_context_even_where_half_the_memory_does_not():
    assert blocks(free=512 * BLOCK + 64 * MIB) == 512
    with pytest.raises(ConfigError, match=r"context of 8,192 tokens needs .* Try --num-blocks \d+ and a smaller"):
        blocks(free=512 * BLOCK + 64 * MIB - 1)


def test_blocks_beat_bytes_which_beat_a_share_of_the_memory():
    assert blocks(num_blocks=7, kv_cache_memory=GIB, gpu_memory_utilization=0.5) == 7
    assert blocks(kv_cache_memory=GIB, gpu_memory_utilization=0.5) == GIB // BLOCK
    assert blocks(gpu_memory_utilization=0.5) == (4 * GIB - slack_of(16 * GIB)) // BLOCK


@pytest.mark.parametrize("share", [0.8, 0.9, 0.95])
@pytest.mark.parametrize("by_default", [True, False])
def test_a_gpu_that_another_program_fills_to_70_percent_gives_what_is_free(monkeypatch, share, by_default):
    import torch

    total = 24 * GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (total - total * 7 // 10, total))
    found, beside = device_memory("cuda:0"), GIB
    assert found == DeviceMemory(total - total * 7 // 10, total)
    config = EngineConfig(model="m", gpu_memory_utilization=None if by_default else share)
    count = num_blocks(config, BLOCK, 8192, found, (None,), Headroom(beside))
    assert count >= 512 and count * BLOCK + beside + slack_of(found.free) <= found.free
    if not by_default:
        assert count * BLOCK <= total * share - total * 0.7 - beside


@pytest.mark.parametrize(
    "settings", [{"num_blocks": 10**6}, {"kv_cache_memory": 20 * GIB}, {"free": 400 * BLOCK, "num_blocks": None}]
)
def test_a_pool_that_does_not_fit_is_refused_with_both_numbers_and_a_way_out_that_works(settings):
    with pytest.raises(ConfigError, match=r"MiB.*MiB.*Try --num-blocks \d+") as refusal:
        blocks(**settings)
    offered = int(re.search(r"--num-blocks (\d+)(?!.*--num-blocks)", str(refusal.value))[1])
    assert blocks(free=settings.get("free", 16 * GIB), num_blocks=offered) == offered


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"kv_cache_memory": 100}, "kv_cache_memory"),
        ({"free": 8 * GIB, "gpu_memory_utilization": 0.5}, "gpu_memory_utilization"),
        ({"free": GIB, "gpu_memory_utilization": 0.9}, "gpu_memory_utilization"),
        ({"num_blocks": 1, "windows": (None, 64)}, "num_blocks"),
    ],
)
def test_less_than_one_block_is_refused_with_the_smallest_setting_that_works(settings, option):
    with pytest.raises(ConfigError, match=r"no block|1 block,") as refusal:
        blocks(**settings)
    text = str(refusal.value)
    found = re.search(rf"smallest setting that works is --{option.replace('_', '-')} ([\d.]+)(KiB)?;", text)
    value = float(found[1]) * (1024 if found[2] else 1)
    value = value if option == "gpu_memory_utilization" else int(value)
    least = fewest_blocks(EngineConfig(model="m"), settings.get("windows", (None,)))
    assert blocks(**{**settings, option: value}) >= least
    smaller = value - 0.01 if option == "gpu_memory_utilization" else value - 1024 if found[2] else value - 1
    with pytest.raises(ConfigError):
        blocks(**{**settings, option: smaller})
    assert "a whole context of 8,192 tokens takes" in text


@pytest.mark.parametrize("settings", [{}, {"num_blocks": 1}, {"kv_cache_memory": BLOCK}])
def test_memory_without_room_for_a_single_block_says_what_needs_it(settings):
    with pytest.raises(ConfigError, match=r"no room .* 0\.4 MiB.* 600\.0 MiB .* free 664\.0 MiB .* Close other"):
        blocks(free=600 * MIB, beside=600 * MIB, **settings)


@pytest.mark.parametrize("windows", [(None,), (None, 8), (8,), (None, 8, 8)])
def test_a_request_runs_in_the_smallest_pool_and_none_in_a_smaller_one(windows):
    config = EngineConfig("m", block_size=4, max_num_batched_tokens=8, max_num_seqs=2)
    least = fewest_blocks(config, windows)
    engine = make_engine(least, windows=windows, max_num_batched_tokens=8, max_num_seqs=2)
    prompt = prompt_of(2, 5)
    assert run(engine, {"a": prompt}, 2)["a"] == cold(prompt, 2, windows=windows)
    if least > len(windows):
        assert make_engine(least - 1, windows=windows, max_num_batched_tokens=8).kv.demand.capacity == 0


@pytest.mark.parametrize("share", [0, 1, 1.0, 1.5, -0.1])
def test_all_of_the_memory_is_refused_with_the_reason(share):
    with pytest.raises(ConfigError, match="weights, activations"):
        EngineConfig(model="m", gpu_memory_utilization=share)


# -- what is free ------------------------------------------------------------------------------------------------------

V2 = {"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 400\ninactive_file 250\n"}
V1 = {
    "memory.limit_in_bytes": "900\n",
    "memory.usage_in_bytes": "500\n",
    "memory.stat": "cache 1\ntotal_inactive_file 100\n",
}
UNLIMITED = {"memory.max": "max\n", "memory.current": "1\n"}


@pytest.mark.parametrize(
    ("own", "folders", "expected"),
    [
        ("0::/a/b\n", {"a/b": UNLIMITED, "a": V2}, [(1000, 450)]),
        ("0::/\n", {"": V2}, [(1000, 450)]),
        ("4:memory:/docker/x\n", {"memory": V1}, [(900, 400)]),
        ("4:memory:/x\n0::/\n", {"memory/x": V1, "unified": V2}, [(900, 400), (1000, 450)]),
        ("4:cpu:/x\n", {"memory/x": V1}, []),
    ],
)
def test_memory_of_a_container_is_its_control_groups_without_pages_the_kernel_can_drop(
    tmp_path: Path, own: str, folders: dict[str, dict[str, str]], expected: list[tuple[int, int]]
) -> None:
    root = tmp_path / "root"
    for folder, files in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / folder / name).write_text(text)
    (tmp_path / "own").write_text(own)
    assert group_limits(root, tmp_path / "own") == expected


def test_the_tightest_limit_is_what_is_free(monkeypatch) -> None:
    monkeypatch.setattr(memory_module, "group_limits", lambda: [(3 * MIB, MIB), (8 * MIB, MIB)])
    monkeypatch.setattr(memory_module, "_process_limits", lambda: [(4 * MIB, 3 * MIB)])
    assert device_memory("cpu") == DeviceMemory(MIB, 3 * MIB)
    monkeypatch.setattr(memory_module, "_process_limits", lambda: [(4 * MIB, 5 * MIB)])
    assert device_memory("cpu").free == 0
