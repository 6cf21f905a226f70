"""Break the configuration in each way, go back, and compare the greedy ids. Engines are real ones on tiny models."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pagedchat.app.engine_start import EngineStart
from pagedchat.app.model_store import ModelStore
from pagedchat.app.operate.known_good import KnownGood, KnownGoodStore
from pagedchat.app.operate.recovery import Recovery, Target
from pagedchat.app.settings import load_configuration
from pagedchat.engine.errors import ContextLengthError, EngineError, PagedChatError, RequestError
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.sampling_params import SamplingParams
from pagedchat.engine.types import RequestOutput
from support.fake_client import FakeEngineClient
from support.known_good import LONG_AGO
from support.local_engine import LocalEngineClient
from support.tiny_gguf import TINY, random_weights, write_gguf
from support.tiny_tokenizers import byte_level_metadata, byte_level_tokenizer

PROMPT = [65, 66, 67, 68, 69, 70]
FLAGS = {"dtype": "float32", "device": "cpu", "threads": 1}


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    spec = replace(TINY, vocab_size=byte_level_tokenizer().num_tokens)
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    return write_gguf(path, spec, random_weights(spec, 3), byte_level_metadata()).read_bytes()


@pytest.fixture
def model(tmp_path: Path, model_bytes: bytes) -> Path:
    (tmp_path / "models").mkdir()
    path = tmp_path / "models" / "tiny.gguf"
    path.write_bytes(model_bytes)
    return path


class Launch:
    """What a server does with its engine, without the page."""

    def __init__(self, model: Path, flags: dict[str, Any], client: Any = None, url: str | None = None) -> None:
        self.configuration = load_configuration({"model": str(model), "data_dir": model.parents[1] / "data", **flags})
        self.models = ModelStore(model.parent)
        self.client = client or LocalEngineClient()
        target = Target(self.configuration.settings, None if url else model, url)
        self.recovery = Recovery(self.client, self.configuration, self.models, target, self.start)
        self.store = KnownGoodStore(self.configuration.folders.state)

    async def start(self, target: Target) -> None:
        """Start, and wait for what comes of it; failures are told, as the page would."""
        await EngineStart(self.client, target.settings, self.models, target.model, self.told).run()

    def told(self, error: PagedChatError) -> str:
        return self.recovery.start_failed(error) or str(error)

    async def ids(self) -> list[int]:
        """Greedy ids after the prompt."""
        params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
        found: list[int] = []
        async for item in self.client.generate(GenerateRequest(params, prompt_token_ids=PROMPT)):
            if not isinstance(item, RequestStarted):
                found += item.token_ids
        return found


@asynccontextmanager
async def launched(model: Path, **flags: Any) -> AsyncIterator[Launch]:
    launch = Launch(model, {**FLAGS, **flags})
    await launch.start(launch.recovery.target)
    try:
        yield launch
    finally:
        await launch.client.close()


async def kept(launch: Launch) -> None:
    """Wait until the configuration is kept as known good."""
    for _ in range(200):
        if launch.store.load() is not None:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("nothing was kept")


async def answered(model: Path, **flags: Any) -> list[int]:
    """The ids of a configuration that works, kept as known good."""
    async with launched(model, **flags) as launch:
        found = await launch.ids()
        await kept(launch)
    return found


def test_from_settings_that_cannot_start_rollback_gives_the_same_ids(model: Path, capsys) -> None:
    async def scene() -> None:
        before = await answered(model, num_blocks=32)
        async with launched(model, kv_cache_memory=900 << 30, num_blocks=None) as launch:
            status, view = launch.client.status, launch.recovery.view()
            assert status.state == "failed"
            assert "`pagedchat rollback` returns to the configuration that answered on" in status.message
            assert "num_blocks (32, now unset)" in status.message and view["problem"] == status.message
            assert view["way_back"] and not view["rolled_back"]

            await launch.recovery.rollback()

            assert launch.client.status.info["num_blocks"] == 32
            assert launch.recovery.view()["problem"] is None and launch.recovery.view()["rolled_back"]
            assert await launch.ids() == before
        assert "`pagedchat rollback`" in capsys.readouterr().err

    asyncio.run(scene())


@pytest.mark.parametrize("broken", ["damaged", "of another kind"])
def test_from_a_model_file_that_was_replaced_rollback_gives_the_same_ids(model: Path, broken: str) -> None:
    async def scene() -> None:
        before = await answered(model)
        other = model.with_name("other.part")
        if broken == "damaged":
            other.write_bytes(model.read_bytes()[:-5000])
        else:
            spec = replace(TINY, architecture="llama")
            write_gguf(other, spec, metadata=byte_level_metadata(), architecture="mamba")
        os.replace(other, model)
        async with launched(model) as launch:
            assert launch.client.status.state == "failed"
            assert "model file (as it was, now changed)" in launch.client.status.message

            first, second = await asyncio.gather(launch.recovery.rollback(), launch.recovery.rollback())

            assert "the engine is starting with it" in first and "nothing to go back from" in second
            assert await launch.ids() == before
            assert launch.client.status.info["model"] == "tiny"

    asyncio.run(scene())


class RemoteEngine:
    """The client of a remote engine: at one address nobody answers; elsewhere ids depend on the address."""

    def __init__(self) -> None:
        self.url: str | None = None
        self._inner = FakeEngineClient()
        self._watchers: list[Callable[[Any], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def watch_ends(self, callback: Callable[[Any], None]) -> None:
        self._watchers.append(callback)

    async def generate(self, request: GenerateRequest) -> AsyncIterator[RequestOutput]:
        end: Any = RequestOutput(request.request_id, [len(self.url or "")], "x", finish_reason="stop")
        if self.url and "unreachable" in self.url:
            end = EngineError(f"Nobody answers at {self.url}.")
        for watcher in self._watchers:
            watcher(end)
        if isinstance(end, Exception):
            raise end
        yield end


def test_from_an_engine_url_that_nobody_answers_at_rollback_gives_the_same_ids(model: Path, capsys) -> None:
    class RemoteLaunch(Launch):
        async def start(self, target: Target) -> None:
            self.client.url = target.engine_url

    async def scene() -> None:
        good = RemoteLaunch(model, {}, RemoteEngine(), "http://127.0.0.1:8000")
        await good.start(good.recovery.target)
        before = await good.ids()
        await kept(good)
        record = good.store.require()
        assert (record.engine_url, record.model) == ("http://127.0.0.1:8000", None)
        bad = RemoteLaunch(model, {}, RemoteEngine(), "http://unreachable.example:1")
        await bad.start(bad.recovery.target)
        with pytest.raises(EngineError):
            await bad.ids()
        problem = bad.recovery.view()["problem"]
        assert problem.startswith("The first reply with this configuration failed. Nobody answers at")
        assert "engine URL (http://127.0.0.1:8000, now http://unreachable.example:1)" in problem
        assert problem in capsys.readouterr().err

        await bad.recovery.rollback()

        assert bad.recovery.target.engine_url == "http://127.0.0.1:8000"
        assert await bad.ids() == before

    asyncio.run(scene())


def test_only_the_first_reply_judges_a_configuration_and_refusals_and_stops_do_not(model: Path) -> None:
    launch = Launch(model, {}, RemoteEngine())
    launch.store.save(replace_settings(launch, num_blocks=7))
    recovery = Launch(model, {}, RemoteEngine()).recovery
    tell = recovery._reply_ended
    tell(RequestError("too long"))
    tell(RequestOutput("r", finish_reason="abort"))
    assert recovery.view()["problem"] is None and recovery.way_back() is not None

    async def scene() -> None:
        tell(RequestOutput("r", finish_reason="error", error="The step failed."))
        assert "The step failed." in recovery.view()["problem"]
        tell(RequestOutput("r", [1], finish_reason="length"))
        assert recovery.view()["problem"] is None and recovery.way_back() is None
        await asyncio.sleep(0.2)
        tell(RequestOutput("r", finish_reason="error", error="Much later."))
        assert recovery.view()["problem"] is None

    asyncio.run(scene())
    assert launch.store.require().settings["num_blocks"] is None, "it answered, so it is the known good one now"


def replace_settings(launch: Launch, **changes: Any) -> Any:
    return KnownGood({**launch.configuration.kept(), **changes}, None, None, LONG_AGO)


@pytest.mark.parametrize(("blocks", "told"), [(4, True), (4096, False)])
def test_a_first_reply_refused_for_want_of_room_counts_where_there_was_more(
    model: Path, blocks: int, told: bool
) -> None:
    launch = Launch(model, {}, RemoteEngine())
    engine = {"max_model_len": 1024, "num_blocks": 64, "block_size": 16}
    launch.store.save(replace(replace_settings(launch, num_blocks=64), snapshot={"engine": engine}))
    recovery = Launch(model, {"num_blocks": blocks}, RemoteEngine()).recovery
    recovery._client._inner._info |= {**engine, "num_blocks": blocks}
    recovery._client._inner.set_status("ready")

    recovery._reply_ended(ContextLengthError("The prompt has 90 tokens, and the pool holds 64."))

    assert ("the pool holds 64" in (recovery.view()["problem"] or "")) is told


def test_two_pages_that_go_back_at_once_start_the_engine_once(model: Path) -> None:
    launch = Launch(model, {}, RemoteEngine())
    launch.store.save(replace_settings(launch, num_blocks=7))
    starts: list[Target] = []

    async def begins(target: Target) -> None:
        starts.append(target)
        launch.client._inner.set_status("loading")

    async def scene() -> tuple[str, str]:
        recovery = Recovery(launch.client, launch.configuration, launch.models, launch.recovery.target, begins)
        return await asyncio.gather(recovery.rollback(), recovery.rollback())

    first, second = asyncio.run(scene())
    assert len(starts) == 1 and starts[0].settings.num_blocks == 7
    assert "goes back to" in first and "is starting with" in second


def test_the_log_tells_of_an_engine_that_stopped(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    launch = Launch(model, {}, RemoteEngine())
    launch.client._inner.set_status("ready")
    launch.client._inner.set_status("restarting", None, "The engine stopped: it was killed.")
    assert [record.getMessage() for record in caplog.records] == [
        "engine restarting: The engine stopped: it was killed."
    ]


def test_the_terminal_tells_that_the_engine_went_away_and_that_it_is_back(model: Path, capsys) -> None:
    launch = Launch(model, {}, RemoteEngine())
    for state, message in (("restarting", "It was killed."), ("ready", ""), ("loading", ""), ("ready", "")):
        launch.client._inner.set_status(state, None, message)
    assert capsys.readouterr().err == "pagedchat: It was killed.\npagedchat: The engine runs again.\n"


def test_without_a_known_good_configuration_there_is_no_way_back(model: Path) -> None:
    launch = Launch(model, {}, RemoteEngine())

    assert launch.recovery.start_failed(EngineError("It cannot start.")) == ""
    with pytest.raises(PagedChatError, match="no configuration to go back to yet"):
        asyncio.run(launch.recovery.rollback())
    assert launch.recovery.view() == {"problem": None, "way_back": None, "rolled_back": None}
