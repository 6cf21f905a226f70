"""What the job of a reply asks of the services around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from .rows import Generation, Message, PromptPath, ReplyTokens, Status

if TYPE_CHECKING:
    from .reply_job import ReplyJob

TextPart = Literal["content", "reasoning"]


class JobHost(Protocol):
    """What a job asks of the chat service."""

    engine: Any

    async def prompt_path(self, message_id: str) -> PromptPath: ...
    async def save_partial(
        self,
        reply_id: str,
        content: str,
        generation: Generation | None,
        tokens: ReplyTokens | None,
        reasoning: str | None,
    ) -> None: ...
    async def finish_reply(
        self,
        reply_id: str,
        content: str,
        status: Status,
        error: str | None,
        generation: Generation | None,
        tokens: ReplyTokens | None,
        reasoning: str | None,
    ) -> tuple[Message, str | None]: ...
    def fingerprint(self) -> str: ...
    def salt(self, session_id: str) -> str: ...
    def delta(self, job: ReplyJob, part: TextPart, text: str, offset: int) -> None: ...
    def changed(self, job: ReplyJob) -> None: ...
    def finished(self, job: ReplyJob, head_id: str | None) -> None: ...
