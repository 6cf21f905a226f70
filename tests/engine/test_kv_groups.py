"""KV groups: windowed and mixed models over one pool, blocks behind a window given back, hits that all groups serve."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pagedchat.engine.kv_layout import kv_layout
from pagedchat.engine.sampling_params import SamplingParams
from support.paged_model import cold, drain, make_engine, prompt_of, run

B = 4
LAYOUTS = [(None, 6), (None, None), (5,), (None, 3, 3), (9, 2), (None, 4, 17)]


def test_layers_of_one_kind_share_groups_without_a_wasted_slot():
    layout = kv_layout([None, 8, 8, None, 8, 8])
    assert layout.windows == (None, 8, 8) and layout.num_slots == 2
    assert layout.places == ((0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (2, 1))
    plain = kv_layout([None] * 5)
    assert plain.windows == (None,) and plain.num_slots == 5
    assert plain.places == tuple((0, index) for index in range(5))
    for windows in ([4, 4, 4], [None] * 3 + [4] * 15, [4, None, 9, None, 9, 4]):
        layout = kv_layout(windows)
        assert len(set(layout.places)) == len(windows) == len(layout.windows) * layout.num_slots
        assert [layout.windows[group] for group, _ in layout.places] == list(windows)


@pytest.mark.parametrize("windows", LAYOUTS)
def test_chunks_company_shortage_and_reuse_leave_the_reply_as_it_is(windows):
    prompts = {str(index): prompt_of(5 + 7 * index, index) for index in range(5)}
    expected = {name: cold(prompt, 20, windows=windows) for name, prompt in prompts.items()}
    for settings in ({}, {"max_num_batched_tokens": 8, "max_num_seqs": 8}, {"num_blocks": 14 * len(windows)}):
        engine = make_engine(**{"num_blocks": 400, "windows": windows, **settings})
        assert run(engine, prompts, 20) == expected
        assert run(engine, prompts, 20) == expected, "warm"
        if settings.get("num_blocks") and windows == (None, 6):
            assert engine.stats()["preemptions"] > 0


@pytest.mark.parametrize("windows", LAYOUTS)
def test_a_second_turn_finds_all_but_its_last_token(windows):
    engine, prompt = make_engine(400, windows=windows), prompt_of(21, 7)
    reply = run(engine, {"first": prompt}, 10)["first"]
    for cut in (0, 1, 2, 3):
        again = [*prompt, *reply[: 9 - cut], (reply[9 - cut] + 1 + cut) % 95, 2, 3]
        before = engine.stats()["cached_tokens"]
        assert run(engine, {f"again{cut}": again}, 5)[f"again{cut}"] == cold(again, 5, windows=windows)
        found = engine.stats()["cached_tokens"] - before
        if cut == 0 or not any(windows):
            assert found == len(prompt) + 9 - cut
        assert found <= len(prompt) + 9 - cut


def test_blocks_behind_the_window_are_given_back_while_the_request_runs():
    engine = make_engine(400, windows=(None, 6))
    engine.add_request("a", prompt_of(60, 1), SamplingParams(temperature=0, max_tokens=30))
    for _ in range(10):
        engine.step()
    full, windowed = engine.snapshot()["tables"]
    assert (full["kv_group"], windowed["kv_group"]) == (0, 1)
    assert None not in full["blocks"] and len(full["blocks"]) == len(windowed["blocks"])
    held = [block for block in windowed["blocks"] if block is not None]
    assert len(held) <= 3 and windowed["blocks"][-1] is not None
    drain(engine)
    assert engine.snapshot()["active"] == 0


def test_a_windowed_model_serves_a_sequence_far_longer_than_its_pool():
    engine = make_engine(12, windows=(8,), max_num_batched_tokens=16, max_num_seqs=4)
    prompt = prompt_of(300, 4)
    assert len(prompt) > 12 * B
    assert run(engine, {"long": prompt}, 40)["long"] == cold(prompt, 40, windows=(8,))


@pytest.mark.parametrize("windows", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_random_mixed_work_equals_cold_runs(windows, seed):
    rng = random.Random(seed)
    roots = [prompt_of(rng.randint(1, 30), 100 * seed + index) for index in range(3)]
    engine = make_engine(30 * len(windows), windows=windows, max_num_batched_tokens=16, max_num_seqs=6)
    wanted, got = {}, {}
    for index in range(25):
        root = rng.choice(roots)
        wanted[str(index)] = root[: rng.randint(1, len(root))] + prompt_of(rng.randint(0, 9), rng.randint(0, 5))
        engine.add_request(str(index), wanted[str(index)], SamplingParams(temperature=0, max_tokens=6))
        for _ in range(rng.randint(0, 4)):
            for output in engine.step():
                got.setdefault(output.request_id, []).extend(output.token_ids)
    for name, ids in drain(engine)[0].items():
        got.setdefault(name, []).extend(ids)
    assert engine.snapshot()["active"] == 0
    expected = {name: cold(prompt, 6, windows=windows) for name, prompt in wanted.items()}
    assert got == expected
    again = {name: run(engine, {f"again {name}": prompt}, 6)[f"again {name}"] for name, prompt in wanted.items()}
    assert again == expected, "what is cached after all that is right, too"


def test_reference_attention_never_reads_what_lies_behind_the_window():
    torch = pytest.importorskip("torch")
    from pagedchat.kernels.interface import AttentionBatch
    from pagedchat.kernels.reference import ReferenceKernels

    generator = torch.Generator().manual_seed(3)
    length, window, dim = 13, 5, 8
    keys, values = (torch.randn(4, 2, B, dim, generator=generator) for _ in range(2))
    query = torch.randn(2, 4, dim, generator=generator)
    batch = AttentionBatch(
        np.array([0, 2], np.int32),
        np.array([length], np.int32),
        np.array([[0, 1, 2, 3]], np.int32),
        np.array([11, 12], np.int32),
        np.array([11, 12], np.int64),
        B,
        window=window,
    )
    expected = []
    for row, position in enumerate((11, 12)):
        seen = slice(position - window + 1, position + 1)
        flat_keys, flat_values = (one.transpose(1, 2).reshape(-1, 2, dim)[seen] for one in (keys, values))
        scores = torch.einsum("hd,shd->hs", query[row], flat_keys.repeat_interleave(2, dim=1)) * dim**-0.5
        expected.append(torch.einsum("hs,shd->hd", torch.softmax(scores, -1), flat_values.repeat_interleave(2, dim=1)))
    keys[0], values[0] = float("nan"), float("nan")
    out = ReferenceKernels().attention(query, keys, values, batch, dim**-0.5)
    torch.testing.assert_close(out, torch.stack(expected))
