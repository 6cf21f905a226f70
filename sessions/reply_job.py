"""One reply while it is written: from the queue to its last token, saved as it grows.

::

    queued ──engine ready──> prompt ──RequestStarted──> deltas … ──last output──> saved
      └── stop ──┴──────────────┴── the request is cancelled ──┘                   (retried while the disk refuses)

The job belongs to the server: followers come and go, only ``stop`` or ``interrupt`` end it early. A delta costs the
same however long the reply or the chat is; the text is joined only when it is saved or looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from array import array
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

from ..engine.errors import EngineError, PagedChatError, RequestError
from ..engine.generate_request import RequestStarted
from ..engine.types import RequestMetrics, RequestOutput
from .errors import StoreError
from .fingerprints import prompt_hash
from .given import Given
from .ids import now
from .job_host import JobHost
from .prompts import Prompt, build_prompt
from .reply_text import ReplyText
from .rows import GENERATION_FIELDS, Generation, Message, ReplyTokens, Status, pack
from .turns import REFUSED

SAVE_INTERVAL_S = 0.21
STOP_GRACE_S = 1.0
LAST_WORD_S = 0.05
"""How long a stopped reply waits for what the engine measured; in the middle of a step the engine hears nothing."""
RETRY_S = 1.0
_ATTEMPTS = 3
_CLOSED = "pagedchat was closed while this reply was being written."
_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_MEASURED = [name for name in GENERATION_FIELDS if name in RequestMetrics.__dataclass_fields__]
"""What the engine measures and the store keeps; it may measure more."""


@dataclasses.dataclass(slots=True)
class _End:
    status: Status
    error: str | None = None
    reason: str | None = None


class ReplyJob:
    """Runs, follows and saves one reply.

    Args:
        own: sampling chosen for this reply alone; see ``build_prompt``.
        given: what it begins with; see ``build_prompt``.

    Attributes:
        message: the reply's row as last stored.
        prompt_tokens: ids of the prompt before the reply's header, once the engine has told them.
        generated: set when no more text will come, though it may not be saved yet.
        done: set when the end is saved, or given up because the program closes.
    """

    def __init__(
        self, host: JobHost, message: Message, own: dict[str, Any] | None = None, given: Given | None = None
    ) -> None:
        self._host = host
        self.message = message
        self._own, self._given = own, given
        self.prompt_tokens: list[int] = []
        self.generated = asyncio.Event()
        self.done = asyncio.Event()
        self._text = ReplyText(message.reasoning or "", message.content)
        self._token_ids = array("i")
        self._ids_before = 0
        self._tokens: ReplyTokens | None = None
        self._generation: Generation | None = None
        self._started = False
        self._num_given = 0
        self._wish: Status | None = None
        self._closing = False
        self._measured_at = 0.0
        self._trouble: str | None = None
        self._unsaved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"reply {self.message.id}")

    # -- what others see --------------------------------------------------------------------------------------------

    @property
    def content(self) -> str:
        """All of the answer so far."""
        return str(self._text.content)

    @property
    def reasoning(self) -> str | None:
        """All of the thinking so far; None where there is none."""
        return str(self._text.reasoning) or None

    @property
    def reply_tokens(self) -> list[int]:
        """The reply's ids so far: its header, then the generated ones."""
        return self._token_ids.tolist()

    @property
    def num_generated(self) -> int:
        """Tokens that this run has generated so far."""
        return len(self._token_ids) - self._ids_before

    @property
    def trouble(self) -> str | None:
        """Why what it has cannot be saved now, in a sentence; None while all is well."""
        return self._trouble

    def seen(self) -> Message:
        """The row with what has not been saved yet."""
        return self.overlay(self.message)

    def overlay(self, stored: Message) -> Message:
        """``stored``, a fresher reading of the row, with what has not been saved yet."""
        return dataclasses.replace(
            stored,
            content=self.content,
            reasoning=self.reasoning,
            status=self.message.status,
            error=self._trouble or self.message.error,
            generation=self._generation or self.message.generation,
        )

    # -- ending early -----------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End it for the user, whatever it and the engine are doing: from now on no text is taken."""
        await self._end_early("stopped", LAST_WORD_S)

    async def interrupt(self) -> None:
        """End it because the program closes; returns when it is saved, or cannot be."""
        self._closing = True
        await self._end_early("interrupted", STOP_GRACE_S)
        if self._task is not None and not self.done.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.done.wait(), STOP_GRACE_S)

    async def _end_early(self, wish: Status, grace_s: float) -> None:
        if self.generated.is_set():
            return
        self._wish = self._wish or wish
        await asyncio.sleep(0)  # a task that is cancelled before its first step would never run its end
        if self._started and self._generation is not None:
            request_id = f"{self.message.id}-{self._generation.run}"
            with contextlib.suppress(TimeoutError, PagedChatError):
                async with asyncio.timeout(grace_s):
                    await self._host.engine.cancel(request_id)
                    await self.generated.wait()
        if not self.generated.is_set() and self._task is not None:
            self._cut_short(measured=False)
            self._task.cancel()
            await self.generated.wait()

    # -- the run ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        saver = asyncio.get_running_loop().create_task(self._keep_saving())
        try:
            end = await self._generate_guarded()
        finally:
            self.generated.set()
        saver.cancel()
        for fault in await asyncio.gather(saver, return_exceptions=True):
            if not isinstance(fault, asyncio.CancelledError):
                _log.error("Saving the reply %s while it was written failed.", self.message.id, exc_info=fault)
        await self._save_end(end)

    async def _generate_guarded(self) -> _End:
        try:
            return await self._generate()
        except asyncio.CancelledError:
            return self._early_end()
        except RequestError as error:
            return _End("error", str(error), "error" if self._started else REFUSED)
        except EngineError as error:
            return _End("interrupted" if self._started else "error", str(error), "error")
        except PagedChatError as error:
            return _End("error", str(error), "error")
        except Exception as error:
            _log.exception("The reply %s failed.", self.message.id)
            return _End("error", f"The reply failed because of a fault in pagedchat: {error!r}.", "error")

    async def _generate(self) -> _End:
        for attempt in range(_ATTEMPTS):
            await self._engine_ready()
            prompt = await self._prompt()
            try:
                return await self._follow(prompt)
            except EngineError:
                # It went away before it took the prompt: nothing is lost, so ask the next one.
                if self._started or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _engine_ready(self) -> None:
        """Wait while the model is fetched or loaded.

        Raises:
            EngineError: it cannot be loaded.
        """
        changed = asyncio.Event()
        unwatch = self._host.engine.watch_status(lambda status: changed.set())
        try:
            while (status := self._host.engine.status).state != "ready":
                if status.state == "failed":
                    raise EngineError(status.message or "The engine could not start; see the settings for its model.")
                changed.clear()
                await changed.wait()
        finally:
            unwatch()

    async def _prompt(self) -> Prompt:
        continues = not self._text.empty
        last_id = self.message.id if continues else self.message.parent_id
        assert last_id is not None
        path = await self._host.prompt_path(last_id)
        info, salt = self._host.engine.status.info, self._host.salt(self.message.session_id)
        prompt = build_prompt(path, self.message, info, self._host.fingerprint(), salt, self._own, self._given)
        self._generation = prompt.generation
        return prompt

    async def _follow(self, prompt: Prompt) -> _End:
        async with contextlib.aclosing(self._host.engine.generate(prompt.request)) as items:
            async for item in items:
                if isinstance(item, RequestStarted):
                    self._begin(prompt, item)
                    continue
                self._take(cast(RequestOutput, item))
                if item.finish_reason is not None:
                    return self._end_of(item)
        raise EngineError("The engine ended the reply without a word; regenerate it.")

    def _begin(self, prompt: Prompt, started: RequestStarted) -> None:
        assert self._generation is not None
        self._started = True
        self._generation.note = started.note
        self._generation.prompt_hash = prompt_hash(started.prompt_token_ids)
        self._text.begin(started)
        prompt.note_left_out(started)
        self._token_ids = array("i", prompt.reply_begins(started))
        if self._token_ids or not prompt.continues:
            self._tokens = prompt.new_tokens(self._host.fingerprint(), started)
        self._num_given = len(self._token_ids)
        # The header, or the part that is continued, ends the prompt and begins the reply: it counts as the reply's.
        question = len(started.prompt_token_ids) - len(self._token_ids)
        self._token_ids.extend(prompt.request.begins_with[:-1])  # the last of them comes as if it had been sampled
        self._ids_before = len(self._token_ids)
        self.prompt_tokens = started.prompt_token_ids[:question]
        self._unsaved.set()

    def _take(self, output: RequestOutput) -> None:
        if output.metrics is not None:
            self._measured(output.metrics)
        if self._wish == "stopped":
            return self._cut_short(measured=True) if output.finish_reason is not None else None
        self._token_ids.extend(output.token_ids)
        parts = self._text.split(output.text, ended=output.finish_reason == "stop")
        if parts.reasoning:
            self._host.delta(self, "reasoning", parts.reasoning, self._text.reasoning.add(parts.reasoning))
        if parts.answer:
            self._host.delta(self, "content", parts.answer, self._text.content.add(parts.answer))
        if output.text or output.token_ids:
            self._unsaved.set()

    def _measured(self, metrics: RequestMetrics) -> None:
        assert self._generation is not None
        for name in _MEASURED:
            setattr(self._generation, name, getattr(metrics, name))
        self._measured_at = asyncio.get_running_loop().time()

    def _cut_short(self, measured: bool) -> None:
        """What is kept of a stopped reply counts, whatever the engine made meanwhile.

        Args:
            measured: the engine has told its last figures; else they are reckoned from its first ones.
        """
        made = self._generation
        if made is None or not self.num_generated:
            return
        made.completion_tokens = self.num_generated
        if not measured:
            made.decode_s = (made.decode_s or 0.0) + asyncio.get_running_loop().time() - self._measured_at

    def _end_of(self, output: RequestOutput) -> _End:
        if self._wish == "stopped":
            return self._early_end()
        if output.finish_reason in ("stop", "length"):
            if output.history_ids is not None:  # a stop string cut the text
                self._token_ids = self._token_ids[: self._num_given] + array("i", output.history_ids)
            return _End("done", None, output.finish_reason)
        if output.finish_reason == "abort":
            return self._early_end()
        sentence = output.error or "The engine could not finish this reply; regenerate it."
        gone = self._host.engine.status.state != "ready"
        return _End("interrupted" if gone else "error", sentence, "error")

    def _early_end(self) -> _End:
        stopped = self._wish == "stopped"
        return _End("stopped" if stopped else "interrupted", None if stopped else _CLOSED, "abort")

    # -- saving -----------------------------------------------------------------------------------------------------

    def _to_save(self) -> tuple[str, Generation | None, ReplyTokens | None, str | None]:
        generation = dataclasses.replace(self._generation) if self._generation is not None else None
        tokens = None
        if self._tokens is not None:
            tokens = dataclasses.replace(self._tokens, token_ids=pack(self._token_ids))
        return self.content, generation, tokens, self.reasoning

    async def _keep_saving(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._unsaved.wait()
            begun = loop.time()
            self._unsaved.clear()
            try:
                content, generation, tokens, reasoning = self._to_save()
                await _unbroken(self._host.save_partial(self.message.id, content, generation, tokens, reasoning))
                self._in_trouble(None)
                if tokens is not None and self._tokens is not None:
                    self._tokens.segments, self._tokens.system_ids = {}, None
            except StoreError as error:
                self._unsaved.set()
                self._in_trouble(error)
            await asyncio.sleep(max(0.0, begun + SAVE_INTERVAL_S - loop.time()))

    async def _save_end(self, end: _End) -> None:
        if self._generation is None and self._text.empty:
            self._generation = Generation(self.message.id, started_at=now())
        if self._generation is not None:
            self._generation.finished_at, self._generation.finish_reason = now(), end.reason
        head_id = None
        while True:
            try:
                self.message, head_id = await _unbroken(
                    self._host.finish_reply(self.message.id, self.content, end.status, end.error, *self._to_save()[1:])
                )
                self._trouble = None
                break
            except StoreError as error:
                ended = dataclasses.replace(self.message, status=end.status, error=end.error)
                news, self.message = ended != self.message, ended
                self._in_trouble(error, tell=news)
                if self._closing:
                    break
                await asyncio.sleep(RETRY_S)
        self.done.set()
        self._host.finished(self, head_id)

    def _in_trouble(self, error: StoreError | None, *, tell: bool = False) -> None:
        sentence = f"Not saved yet: {error} pagedchat goes on trying." if error else None
        if tell or sentence != self._trouble:
            self._trouble = sentence
            self._host.changed(self)


async def _unbroken(work: Awaitable[_T]) -> _T:
    """Let ``work`` end even if the caller is cancelled meanwhile; the cancellation follows."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            with contextlib.suppress(Exception):
                await task
        raise
