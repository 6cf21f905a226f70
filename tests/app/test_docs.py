"""The page about other engines: every line has a source, every figure about pagedchat is the code's own."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pagedchat.engine import pins, pool_size
from pagedchat.engine.config import EngineConfig
from support.paged_model import cold, drain, greedy, make_engine, prompt_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how_others_do_it.md").read_text(encoding="utf-8")
SYSTEMS = (
    "vLLM",
    "TGI",
    "TensorRT-LLM",
    "DeepSpeed-FastGen",
    "SGLang",
    "vAttention",
    "FlashAttention and FlexAttention",
    "llama.cpp",
    "ExLlamaV3",
    "OpenVINO GenAI",
)
SOURCE = re.compile(
    r"https://github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{40}/[\w./-]+\.\w+|https://nvidia\.github\.io/TensorRT-LLM/\S+\.html"
)
CITED = re.compile(r"(?:\[(?:→|\d)\]\[[a-z0-9-]+\]\s*)+")
DEFINED = dict(re.findall(r"^\[([a-z0-9-]+)\]: (\S+)$", PAGE, re.MULTILINE))
EVERY = "a streaming reply gets a token at least every … steps"
DEFAULTS = {field.name: field.default for field in fields(EngineConfig)}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0].strip()


def rows(table: str) -> list[list[str]]:
    """Cells of a Markdown table, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"][2:]


def test_every_source_is_a_file_at_a_commit_or_a_page_of_documentation_and_is_cited():
    assert len(DEFINED) >= 30
    for name, address in DEFINED.items():
        assert SOURCE.fullmatch(address), (name, address)
    cited = set(re.findall(r"\]\[([a-z0-9-]+)\]", PAGE))
    assert cited == set(DEFINED)
    assert re.search(r"read on 20\d\d-\d\d-\d\d", PAGE)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_has_a_row_and_a_paragraph_whose_every_sentence_has_a_source(system: str):
    (row,) = (row for row in rows(section("At a glance")) if row[0] in (system, system.replace(" and ", ", ")))
    assert all(row) and CITED.fullmatch(row[-1])
    told, here = section(system).split("\n\n")
    assert here.startswith("**Here**: ")
    told = " ".join(told.split())
    assert CITED.search(told) and CITED.split(told)[-1] == "", "the last sentence has its source"
    for sentence in CITED.split(told)[:-1]:
        assert re.fullmatch(r"[A-Z].*\.", sentence.strip()), sentence
        assert not re.search(r"\.\s+[A-Z]", sentence.strip()), f"two sentences, one source: {sentence}"


def test_the_figures_about_pagedchat_are_its_own():
    told = {name: float(value) for name, value in rows(section("pagedchat, for comparison"))}
    assert told == {
        "block size, tokens": DEFAULTS["block_size"],
        "tokens a step": DEFAULTS["max_num_batched_tokens"],
        "requests at once": DEFAULTS["max_num_seqs"],
        "requests that may wait": DEFAULTS["max_queue"],
        "largest default pool, GiB": pool_size.DEFAULT_CAP / 2**30,
        "slack kept free, % of free memory": 100 * pool_size.SLACK_SHARE,
        "most of the pool that pins take, %": 100 * pins.MOST_PINNED,
        EVERY: told[EVERY],
    }
    assert f"blocks of {DEFAULTS['block_size']} tokens" in rows(section("At a glance"))[0][1]
    assert f"blocks of {DEFAULTS['block_size']}," in section("SGLang")
    assert f"{DEFAULTS['block_size']}-token blocks" in section("FlashAttention and FlexAttention")


def test_a_streaming_reply_waits_no_longer_than_the_page_says():
    told = {name: int(float(value)) for name, value in rows(section("pagedchat, for comparison"))}
    most = told[EVERY]
    engine = make_engine(1000, max_num_batched_tokens=8, max_num_seqs=8)
    for number in range(7):
        engine.add_request(f"stream{number}", prompt_of(2, number), greedy(100))
    for _ in range(7):
        engine.step()
    engine.add_request("long", prompt_of(64, 90), greedy(1))
    silent = dict.fromkeys((f"stream{number}" for number in range(7)), 0)
    longest = 0
    for _ in range(20):
        got = {output.request_id for output in engine.step() if output.token_ids}
        silent = {name: 0 if name in got else count + 1 for name, count in silent.items()}
        longest = max(longest, *silent.values())
    assert longest + 1 == most


def test_reuse_is_to_the_token_and_preemption_recomputes():
    engine, prompt = make_engine(), prompt_of(15, 1)
    for name, ids in (("first", prompt), ("second", [*prompt[:10], 95, 94])):
        engine.add_request(name, ids, greedy(2))
        _, last = drain(engine)
    assert last["second"].metrics.cached_tokens == 10, "two blocks of 4, and 2 tokens of the third"
    engine = make_engine(12, max_num_batched_tokens=16, max_num_seqs=4)
    for name, ids in (("old", prompt_of(12, 50)), ("new", prompt_of(9, 51))):
        engine.add_request(name, ids, greedy(24))
    got, last = drain(engine)
    assert last["old"].metrics.preemptions == 0 < last["new"].metrics.preemptions
    assert got["new"] == cold(prompt_of(9, 51), 24)


def test_the_readme_links_the_page_and_the_page_names_no_machine():
    assert "(docs/how_others_do_it.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(work|tmp|home|root|usr|mnt)/", PAGE)
    assert "not checked" not in PAGE, "what could not be checked is left out"
    for path in re.findall(r"`((?:tests|docs|engine|kernels|app)/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), path
