"""What the doctor finds, in good and in bad surroundings, and what it advises."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagedchat.app.instance import RunningServer
from pagedchat.app.operate import doctor, speed
from pagedchat.app.operate.advice import advice, problems
from pagedchat.app.operate.doctor import Findings, examine, kernels_here, look_at_folders
from pagedchat.app.operate.speed import Speed, speed_from, words
from pagedchat.app.settings import load_configuration
from pagedchat.engine.errors import EngineError
from support.command import pagedchat
from support.tiny_gguf import TINY, random_weights, write_gguf
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer

INFO = {
    "model": "tiny",
    "fingerprint": "f1",
    "device": "cpu",
    "dtype": "bfloat16",
    "kernels": "numba",
    "threads": 2,
    "reason": "compiled for this processor",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    spec = replace(TINY, vocab_size=byte_level_tokenizer().num_tokens)
    return write_gguf(tmp_path / "models" / "tiny.gguf", spec, random_weights(spec), byte_level_metadata())


def configured(tmp_path: Path, **flags: Any) -> Any:
    flags = {"data_dir": tmp_path / "data", "models_dir": tmp_path / "models", **flags}
    return load_configuration(flags)


async def quick(config: Any, log: Path, tell: Any) -> tuple[dict[str, Any], Speed]:
    return INFO, speed_from(496, 64, 0.5, 0.63)


async def fails(config: Any, log: Path, tell: Any) -> Any:
    raise EngineError("The KV pool would have no block.")


def found(**changes: Any) -> Findings:
    """Findings of a machine where all is well."""
    gib = 1 << 30
    folder = {"name": "data", "path": "/data", "writable": True, "trouble": "", "size": 1, "free": 50 * gib}
    well: dict[str, Any] = {
        "configuration": {"machine": {"usable_cores": 4}},
        "kernels": {"kernels": "numba", "device": "cpu", "threads": 4, "reason": "compiled"},
        "folders": [folder],
        "model": {"state": "ok", "size": gib, "said": ""},
        "speed": {"prefill": 900.0, "decode": 90.0},
        "surroundings": {"memory_free": 20 * gib, "memory_total": 24 * gib, "load": 0.2, "swap_used": 0},
    }
    return Findings(**{**well, **changes})


def test_where_all_is_well_nothing_is_advised():
    assert problems(found()) == [] and advice(found()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"surroundings": {"memory_free": 1 << 29, "memory_total": 8 << 30}}, "--profile low-memory"),
        ({"surroundings": {"load": 9.0}}, "The processor is busy (load 9.0 on 4 cores)"),
        ({"surroundings": {"debugger": "process 7 (strace or a debugger)"}}, "watched by process 7"),
        ({"surroundings": {"governor": "powersave"}}, "saves power"),
        ({"surroundings": {"battery": True}}, "saves power"),
        ({"configuration": {"machine": {"usable_cores": 1}}}, "Only one core"),
        ({"kernels": {"kernels": "numba", "threads": 16}}, "16 threads share 4 cores"),
        ({"kernels": {"kernels": "reference", "reason": "Numba cannot be used"}}, "Numba cannot be used"),
        ({"kernels": {"kernels": "reference", "reason": "x", "compiling": True}}, "x"),
        ({"kernels": {"kernels": "numba", "compiling": True}}, "still being compiled"),
        ({"speed": {"prefill": 9.0, "decode": 3.0}}, "slower than reading"),
        ({"model": {"state": "missing", "said": "It is not here yet."}}, "models pull"),
        ({"warnings": ["PAGEDCHAT_X is set."]}, "PAGEDCHAT_X is set."),
        ({"known_good": {"rolled_back": "2026-01-02"}}, "rollback --undo"),
    ],
)
def test_each_finding_has_its_advice(changes, expected):
    told = advice(found(**changes))

    assert any(expected in sentence for sentence in told), told
    assert problems(found(**changes)) == []


@pytest.mark.parametrize("name", ["data", "models", "cache", "state", "logs", "config"])
def test_a_folder_that_cannot_be_written_is_named_and_a_full_disk_too(name):
    row = {"name": name, "path": f"/{name}", "writable": False, "trouble": f"The {name} folder /{name} …", "free": None}
    told = [*problems(found(folders=[row])), *advice(found(folders=[row]))]
    assert len(told) == 1 and f"/{name}" in told[0]

    full = {"name": "data", "path": "/data", "writable": True, "trouble": "", "free": 200 << 20}
    assert "Only 200 MiB are free on the disk of /data" in advice(found(folders=[full]))[0]


def test_a_model_that_works_is_measured_with_the_configuration_in_force(tmp_path, model):
    asked = []

    async def watch(config: Any, log: Path, tell: Any) -> Any:
        asked.append(config)
        return await quick(config, log, tell)

    seen = examine(configured(tmp_path, model=str(model), max_num_seqs=3), try_it=watch)

    assert asked[0].model == str(model) and asked[0].max_num_seqs == 3
    assert seen.speed is not None and (round(seen.speed["prefill"]), round(seen.speed["decode"])) == (992, 100)
    assert seen.kernels["reason"] == INFO["reason"] and seen.model["fingerprint"] == "f1"
    assert seen.configuration["model"] == {"name": "tiny", "fingerprint": "f1"}
    assert problems(seen) == []
    assert {row["name"] for row in seen.folders} == {"data", "config", "state", "logs", "cache", "models"}


def test_without_a_model_kernels_are_still_chosen_and_told_why(tmp_path):
    seen = examine(configured(tmp_path), try_it=fails)

    assert seen.model["state"] == "missing" and seen.speed is None
    assert seen.kernels["device"] and seen.kernels["reason"]
    assert problems(seen) == [] and any("models pull" in one for one in advice(seen))
    assert not any("slow kernels" in one for one in advice(seen))


@pytest.mark.parametrize(
    ("content", "expected"), [(b"GGUF", "no block"), (b"PK\x03\x04", "is not a GGUF file"), (None, "There is no model")]
)
def test_a_model_that_cannot_answer_is_a_problem(tmp_path, content, expected):
    (tmp_path / "models").mkdir()
    if content is not None:
        (tmp_path / "models" / "tiny.gguf").write_bytes(content)

    seen = examine(configured(tmp_path, model="tiny"), try_it=fails)

    assert seen.model["state"] in ("damaged", "fails")
    assert len(problems(seen)) == 1 and expected in problems(seen)[0]


@pytest.mark.parametrize("ends", [True, False])
def test_a_server_that_compiles_its_kernels_is_waited_for_and_no_problem(tmp_path, monkeypatch, ends):
    server, healths, told = RunningServer(1, 2, "http://127.0.0.1:2"), iter([True, True, not ends]), []

    def ask(*_: Any) -> tuple[int, dict[str, Any]]:
        return 200, {**INFO, "compiling": next(healths, not ends)}

    for name, value in (("ask_json", ask), ("KERNELS_S", 0.2), ("ASK_AGAIN_S", 0.01)):
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(doctor, "ask_json", ask)
    monkeypatch.setattr(doctor, "running_server", lambda data: server)
    monkeypatch.setattr(doctor, "configuration_in_force", lambda configuration, server: configuration)
    monkeypatch.setattr(doctor, "ask_server", lambda *_: Speed(900.0, 90.0, 400, 64))

    seen = examine(configured(tmp_path), told.append)

    assert any("compiles its kernels" in line for line in told)
    assert problems(seen) == []
    assert (seen.speed is not None) is ends
    assert any("ask again in a minute" in sentence for sentence in advice(seen)) is not ends


def test_a_server_that_does_not_answer_is_told_once():
    note = "pagedchat at http://127.0.0.1:2 did not answer (TimeoutError)."
    assert problems(found(server="http://127.0.0.1:2", speed=None, speed_note=note)) == [note]


def test_a_default_model_with_other_content_is_found_by_its_hash(tmp_path, monkeypatch):
    from pagedchat.app.model_store import DEFAULT_MODEL

    (tmp_path / "models").mkdir()
    with (tmp_path / "models" / DEFAULT_MODEL.file_name).open("wb") as file:
        file.write(b"GGUF")
        file.truncate(DEFAULT_MODEL.size)

    seen = examine(configured(tmp_path), try_it=quick)

    assert seen.model["sha256"] is False and "SHA-256 differs" in problems(seen)[0]


def test_folders_that_cannot_be_made_are_looked_at_all_the_same(tmp_path):
    (tmp_path / "data").write_text("a file in the way")

    rows = {row["name"]: row for row in look_at_folders(configured(tmp_path).folders)}

    assert not rows["data"]["writable"] and "cannot be written" in rows["data"]["trouble"]
    assert rows["data"]["free"] > 0


def test_kernels_that_cannot_be_loaded_are_a_finding_not_a_crash(monkeypatch):
    import pagedchat.kernels.choose as choose

    monkeypatch.setattr(choose, "choose_kernels", lambda *_: 1 / 0)

    assert kernels_here("cpu", "auto") == {"error": "ZeroDivisionError: division by zero"}


def test_a_debugger_is_noticed(monkeypatch):
    monkeypatch.setattr(doctor, "_text_of", lambda path: "Name:\tx\nTracerPid:\t42\n")
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    assert "process 42" in doctor.debugger()
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert "debugger" in doctor.debugger()


def test_words_are_new_each_time():
    assert words(40) != words(40) and len(words(40).split()) == 40


def test_the_command_tries_a_real_engine_prints_json_and_keeps_its_result(tmp_path, model):
    data = tmp_path / "data"
    flags = ("--data-dir", str(data), "--model", str(model), "--dtype", "float32")
    result = pagedchat("doctor", "--json", *flags, OMP_NUM_THREADS="1")

    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["figures"]["speed"]["decode"] > 0 and told["figures"]["speed"]["prefill"] > 0
    assert told["figures"]["kernels"]["dtype"] == "float32"
    (kept,) = (data / "state" / "bench").glob("doctor-*.json")
    assert json.loads(kept.read_text())["configuration"]["model"]["name"] == "tiny"
