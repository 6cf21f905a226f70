"""From a model's name to an engine that runs: fetch what is missing, start the engine process, say what it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..engine.client import EngineClient
from ..engine.errors import PagedChatError
from ..engine.sizes import size_in_words
from .background import in_thread
from .model_fetch import FetchCancelled, FetchProgress, ModelFetch
from .model_store import ModelStore
from .settings import Settings
from .terminal import fetch_display, say

PROGRESS_STEP = 0.005
FETCH_END_S = 2.0
KERNELS_PAUSE_S = 1.0


class EngineStart:
    """One start of the engine. A model that was here from the start and cannot run fails it; one that cannot be
    fetched leaves the page up, which says so.

    Attributes:
        begun: set once the engine process exists, or it is known that there is none for now.
    """

    def __init__(
        self,
        client: EngineClient,
        settings: Settings,
        models: ModelStore,
        model: Path | None,
        stays_up: Callable[[PagedChatError], str] = lambda error: "",
        trouble: PagedChatError | None = None,
    ) -> None:
        """
        Args:
            model: path of the model; None when the default one of ``models`` has to be fetched.
            stays_up: what to tell of a model that was here and cannot run, if the page is to stay up all the same.
            trouble: why the model cannot be used, if that is known already.
        """
        self.begun = asyncio.Event()
        self._stays_up = stays_up
        self._trouble = trouble
        self._client = client
        self._settings = settings
        self._model = model
        self._fetch = None if model or trouble else ModelFetch(models, self._fetched)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shown = -1.0
        self._awaited = False
        self._show: Callable[[FetchProgress], None] = lambda progress: None

    async def run(self) -> None:
        """Bring the engine up.

        Raises:
            PagedChatError: if the model was here from the start and cannot run.
        """
        try:
            if self._trouble is not None:
                raise self._trouble
            path = self._model or await self._fetch_model()
            await self._client.start(self._settings.engine_config(path))
            self.begun.set()
            self._say_loading()
            await self._client.wait_ready()
        except FetchCancelled:
            return
        except PagedChatError as error:
            sentence = self._stays_up(error) or (str(error) if self._model is None else "")
            if not sentence:
                raise
            self._client.set_failed(sentence)
            say(f"pagedchat: {sentence}", sys.stderr)
        else:
            self._say_engine()
            await self._follow_kernels()
        finally:
            self.begun.set()

    def page_is_up(self) -> None:
        """The page answers: if the model is not there yet, say so as soon as it is being loaded."""
        self._awaited = True
        self._say_loading()

    async def cancel(self, running: asyncio.Task[None]) -> None:
        """End ``running``, the task of ``run``; a fetch clears away what it has so far."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait({running}, timeout=FETCH_END_S)
        running.cancel()

    async def _fetch_model(self) -> Path:
        assert self._fetch is not None
        self._loop = asyncio.get_running_loop()
        self.begun.set()
        with fetch_display() as self._show:
            return await in_thread(self._fetch.run)

    def _fetched(self, progress: FetchProgress) -> None:
        """Called in the fetching thread, several times a second."""
        assert self._loop is not None
        self._show(progress)
        share = progress.share
        if share is None or share == 1 or abs(share - self._shown) >= PROGRESS_STEP:
            self._shown = share or 0.0
            self._loop.call_soon_threadsafe(self._client.set_fetching, share, f"{progress.message}.")

    async def _follow_kernels(self) -> None:
        """Say when the compiled kernels take over; an engine without work would not tell by itself."""
        info = self._client.status.info
        if not info.get("compiling"):
            return
        while info.get("compiling"):
            await asyncio.sleep(KERNELS_PAUSE_S)
            with suppress(PagedChatError):  # it starts again: there will be news
                info = await self._client.refresh_info()
            if self._client.status.state == "failed":
                return
        if info["kernels"] == "reference":
            say(f"pagedchat: {info['reason']}", sys.stderr)
        else:
            say("The compiled kernels are ready.", sys.stdout)

    def _say_loading(self) -> None:
        if self._awaited and self._client.status.state == "loading":
            self._awaited = False
            say("The model is being loaded.", sys.stdout)

    def _say_engine(self) -> None:
        info = self._client.status.info
        tokens = info["num_blocks"] * info["block_size"]
        size = size_in_words(info.get("kv_bytes", 0))
        say(
            f"{info['model']} on {info['device']} ({info['dtype']}, {info['kernels']} kernels); KV cache of "
            f"{info['num_blocks']:,} blocks x {info['block_size']} = {tokens:,} tokens, {size}",
            sys.stdout,
        )
        if info.get("compiling"):
            say("Compiled kernels are being made; until they are ready, replies are slow.", sys.stdout)
        for warning in [*info.get("warnings", []), *self._settings.warnings(info)]:
            say(f"pagedchat: {warning}", sys.stderr)
