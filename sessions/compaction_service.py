"""Makes room in a chat: has the model sum up what was said, and later turns go on from that. See ``summaries``."""

from __future__ import annotations

from .reply_service import ReplyService
from .service_core import ServiceCore
from .views import View


class CompactionService:
    """Summaries of chats. They are written like replies: stopped, edited, regenerated and followed in the same ways."""

    def __init__(self, core: ServiceCore, replies: ReplyService) -> None:
        self._core = core
        self._replies = replies

    async def compact(self, session_id: str, message_id: str | None = None) -> View:
        """The view of a summary that begins, under the shown branch or under ``message_id``.

        What is above it stays in the chat and is sent no more. If it is stopped, or fails, it is gone and the chat is
        as it was.

        Raises:
            SessionError: there is nothing to sum up, or a reply is being written there.
        """
        return await self._core.whole(self._compact(session_id, message_id))

    async def _compact(self, session_id: str, message_id: str | None) -> View:
        session, made = await self._core.write(self._core.store.add_summary, session_id, message_id)
        return self._replies.start(session, made)
