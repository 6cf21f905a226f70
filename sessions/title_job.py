"""Names a chat by its model, in the background, after its first reply; if that fails, its first words stay its name.

    system │ question │ reply │ "Give this chat a title…"  ──> thoughts, one line
    '------- cached -------'   '------- never stored, nor kept in the cache -------'

The prompt extends what is cached of the chat by one turn, or there is none: nothing is left out to make room. It runs
at background priority, ends after some seconds, and at once when anything is asked in its chat.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import aclosing
from typing import Any, Literal

from ..engine.errors import PagedChatError
from ..engine.generate_request import OWN_WORK, GenerateRequest, RequestStarted
from ..engine.reasoning import ReasoningSplitter
from ..engine.sampling_params import SamplingParams
from ..engine.types import BACKGROUND_PRIORITY
from .errors import SessionError
from .prompts import prompt_messages, question_after
from .rows import Message, PromptPath
from .service_core import ServiceCore
from .summaries import SUMMARY
from .titles import holds_title, title_of_answer

TitleSource = Literal["words", "model"]
INSTRUCTION = (
    "Write a title for this conversation: three to six words, in its language, on one line. "
    "Answer with the title alone, without quotation marks."
)
LIMIT_S = 30.0
MAX_TOKENS = 400
"""Enough for a model that thinks first; of an answer only the line with the title is awaited."""
LONGEST_ANSWER = 200
TURNS = 3
"""A title that was cut short by the next message is tried again after the replies to so many messages."""
_log = logging.getLogger(__name__)


class TitleJobs:
    """The titles that are being written, one a chat.

    Args:
        core: the service's store, engine and followers.
        enabled: whether the model names chats at all.
    """

    def __init__(self, core: ServiceCore, enabled: bool) -> None:
        self._core = core
        self._enabled = enabled
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._tried: set[str] = set()

    def after(self, reply: Message) -> None:
        """A reply has ended and is stored: perhaps its chat needs a title. Returns at once."""
        session_id = reply.session_id
        if not self._enabled or self._core.closing or session_id in self._tried:
            return
        if reply.status != "done" or reply.kind == SUMMARY:
            return
        self.cancel(session_id)
        task = asyncio.get_running_loop().create_task(self._run(reply), name=f"title {session_id}")
        self._tasks[session_id] = task
        task.add_done_callback(lambda done: self._ended(session_id, done))

    def cancel(self, session_id: str) -> None:
        """The chat goes on, or away: nobody waits for its title."""
        task = self._tasks.pop(session_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """No title is written any more."""
        for session_id in list(self._tasks):
            self.cancel(session_id)

    def _ended(self, session_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(session_id) is task:
            del self._tasks[session_id]
        if not task.cancelled():
            self._tried.add(session_id)
            error = task.exception()
            if error is not None and not isinstance(error, PagedChatError | TimeoutError):
                _log.error("A chat got no title from its model.", exc_info=error)

    async def _run(self, reply: Message) -> None:
        path = await self._core.prompt_path(reply.id)
        if path.session.title_by != "words" or path.summary is not None or len(path.messages) > 2 * TURNS:
            return
        async with asyncio.timeout(LIMIT_S):
            title = await self._ask(path)
        if title is None:
            _log.info("A model's answer was no title; the chat keeps its first words.")
            return
        with contextlib.suppress(SessionError):
            session = await self._core.write(self._core.store.title_by_model, reply.session_id, title)
            if session is not None:
                self._core.tell_session(session)

    async def _ask(self, path: PromptPath) -> str | None:
        """The title in the model's answer; None if it is none, or only says again what was asked for."""
        text, splitter = "", None
        async with aclosing(self._core.engine.generate(_request(path, self._core.salt(path.session.id)))) as items:
            async for item in items:
                if isinstance(item, RequestStarted):
                    splitter = _splitter_of(item)
                    continue
                text += splitter.feed(item.text).answer if splitter else item.text
                if item.finish_reason == "stop" and splitter:
                    text += splitter.end().answer
                if item.finish_reason not in (None, "stop", "length"):
                    return None
                if item.finish_reason or holds_title(text) or len(text) > LONGEST_ANSWER:
                    break
        title = title_of_answer(text)
        echoes = title is not None and title.rstrip("…").casefold() in INSTRUCTION.casefold()
        return None if echoes else title


def _request(path: PromptPath, salt: str) -> GenerateRequest:
    session_id = path.session.id
    messages: list[dict[str, Any]] = [
        *prompt_messages(path)[0],
        question_after(path, INSTRUCTION),
    ]
    return GenerateRequest(
        params=SamplingParams(temperature=0, max_tokens=MAX_TOKENS),
        request_id=f"{OWN_WORK}title-{session_id}",
        messages=messages,
        begun_at=path.session.prompt_date,
        labels={"session": session_id},
        salt=salt,
        priority=BACKGROUND_PRIORITY,
        keep=False,
    )


def _splitter_of(started: RequestStarted) -> ReasoningSplitter | None:
    if started.reasoning_state is None:
        return None
    return ReasoningSplitter(state=started.reasoning_state, held=started.reasoning_held)
