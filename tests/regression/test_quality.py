"""`bench quality` on a tiny random model: float32 is float32 along every route, and what is worse is seen to be."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from pagedchat.app.bench import quality
from pagedchat.app.bench.models import DEFAULT_MODE, EXACT_MODES
from pagedchat.app.bench.quality import ONE_ROW, ROUTES, TEXT, WHOLE, Route, run_quality, step_of
from pagedchat.app.bench.quality_command import quality_lines
from pagedchat.app.bench.transformers_peer import cache_flip_rate
from regression.tiny_set import ids, tiny_model


@pytest.fixture(scope="module")
def tiny():
    model, plain = tiny_model()
    draw = random.Random(3)
    return model, plain, [ids(draw, 37) for _ in range(8)]


@pytest.fixture(scope="module")
def report(tiny):
    model, _, passages = tiny
    return run_quality(model, (DEFAULT_MODE, EXACT_MODES[0]), passages, lambda texts: cache_flip_rate(model, texts))


def test_every_route_takes_every_token_once_and_in_order():
    for route in (*ROUTES, Route("odd", 3, 5)):
        cuts = list(route.cuts(37))
        assert [place for begin, end in cuts for place in range(begin, end)] == list(range(37))
    assert list(ROUTES[-1].cuts(8)) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 8)]


def test_float32_has_no_divergence_and_its_perplexity_is_that_of_transformers(tiny, report):
    _, plain, passages = tiny
    nats, count = 0.0, 0
    for passage in passages:
        with torch.inference_mode():
            rows = plain(torch.tensor([passage])).logits[0].log_softmax(-1)
        nats -= float(rows[torch.arange(36), torch.tensor(passage[1:])].sum())
        count += 36
    assert report.truth_perplexity == pytest.approx(np.exp(nats / count), rel=1e-4)
    routes = report.measures[str(EXACT_MODES[0])]
    assert set(routes) == {route.name for route in ROUTES}
    for one in routes.values():
        assert one.positions == 8 * 37 and one.targets == 8 * 36
        assert one.flips == one.flips_whole == 0 and one.kl / one.positions < 1e-7
        assert one.perplexity == pytest.approx(report.truth_perplexity, rel=1e-4)


def test_bfloat16_diverges_a_little_and_the_report_says_how_much(report):
    routes = report.measures[str(DEFAULT_MODE)]
    assert 1e-7 < routes[WHOLE.name].to_dict()["kl"] < 0.05
    assert routes[WHOLE.name].kl_whole == 0 and routes[ONE_ROW.name].kl_whole >= 0
    assert report.peer_flip_rate is not None and not report.peer_note
    text = "\n".join(quality_lines(report))
    assert "cpu bfloat16: KL between routes" in text and "cpu float32: perplexity against float32" in text
    assert report.to_dict()["goals"][0].keys() == {"text", "goal", "got", "met"}


def test_a_route_that_computes_something_else_misses_its_goals(tiny, monkeypatch):
    model, _, passages = tiny

    def shifted(texts, begin, end):
        batch = step_of(texts, begin, end)
        if end - begin == 1:
            batch.token_ids = (batch.token_ids + (batch.attention.positions == 9)) % 97
        return batch

    monkeypatch.setattr(quality, "step_of", shifted)
    goals = run_quality(model, (EXACT_MODES[0],), passages).goals
    assert not goals[0].met and "KL between routes" in goals[0].text
    assert any("MISSED" in line for line in quality_lines(run_quality(model, (EXACT_MODES[0],), passages)))


def test_what_transformers_cannot_do_is_a_note(tiny):
    model, _, passages = tiny

    def refuse(texts):
        raise ValueError("another family")

    found = run_quality(model, (), passages[:1], refuse)
    assert found.peer_flip_rate is None and "another family" in found.peer_note
    assert any("another family" in line for line in quality_lines(found))


def test_the_corpus_comes_with_the_package_and_is_long_enough():
    passages = TEXT.read_text("utf-8").split("====\n")
    assert len(passages) == 8 and all(len(passage) > 1300 for passage in passages)
