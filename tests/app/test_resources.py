"""What a server takes of the machine: threads and memory, how both are set, and where they are shown."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from support.running_app import RunningApp
from support.tiny_gguf import TINY, write_gguf
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    spec = replace(TINY, vocab_size=byte_level_tokenizer().num_tokens)
    return str(write_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf", spec, metadata=byte_level_metadata()))


@pytest.fixture
def one_processor() -> Iterator[None]:
    """The test, and what it starts, may use one processor only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_a_server_tied_to_one_processor_computes_with_one_thread_and_says_so(
    start_app: Callable[..., RunningApp], tiny: str, one_processor: None
) -> None:
    app = start_app("--model", tiny)
    assert app.get_json("/health")[1]["threads"] == 1


def test_threads_and_the_pools_size_are_settings_and_are_shown(start_app: Callable[..., RunningApp], tiny: str) -> None:
    app = start_app("--model", tiny, "--num-blocks", "50", env={"PAGEDCHAT_THREADS": "3"})
    health = app.get_json("/health")[1]
    assert health["threads"] == 3
    assert (health["num_blocks"], health["block_size"]) == (50, 16) and health["kv_bytes"] > 0
    assert re.search(r"KV cache of 50 blocks x 16 = 800 tokens, [\d.]+ [KM]i?B", app.output), app.output


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--threads", "0"), r"--threads must (lie|be) .* not 0"),
        (("--threads", "100000"), r"--threads must lie between 1 and 256, not 100000"),
        (
            ("--kv-cache-memory", "100"),
            r"leaves the KV pool no blocks, .* 1 block \(.* MiB\)\. The smallest setting that works is "
            r"--kv-cache-memory \d+KiB; a whole context of 256 tokens takes 16 blocks",
        ),
    ],
)
def test_a_setting_that_cannot_work_is_one_sentence(
    start_app: Callable[..., RunningApp], tiny: str, flags: tuple[str, ...], sentence: str
) -> None:
    app = start_app("--model", tiny, *flags, wait="")
    assert app.wait_end(60) == 1
    assert re.search(sentence, app.errors), app.errors
    assert "Traceback" not in app.errors
