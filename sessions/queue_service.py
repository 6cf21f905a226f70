"""Messages that wait for the end of a reply, and what sends them.

The first one is sent when its reply has come to a good end, and the others wait for its reply then. One whose reply was
stopped, failed, was cut off or met its limit is held until its reader sends it, as is everything that waited when the
program ended. A reply that is continued and then ends well sends what waited for it. Where the first one cannot be sent
it is held, and so are those behind it, for they were written to follow it; when it is removed or moved they go on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict

from ..engine.errors import PagedChatError
from .checks import clean_text
from .errors import SessionError
from .queued import Queued
from .reply_service import ReplyService
from .service_core import ServiceCore
from .views import View

_log = logging.getLogger(__name__)
_HELD = {
    "stopped": "The reply above was stopped.",
    "error": "The reply above failed.",
    "interrupted": "The reply above was interrupted.",
    "done": "The reply above ended before this could be sent.",
}
_LIMIT = "The reply above met its limit."
_NO_TEXT = "The reply above has no text."
_BEHIND = "A message before this one is held."


class QueueService:
    """The queues of all chats. Every method that changes something returns once it is on disk."""

    def __init__(self, core: ServiceCore, replies: ReplyService) -> None:
        """Hold what an earlier process left waiting.

        Raises:
            StoreError: the database cannot be read.
        """
        self._core = core
        self._queue = core.store.queue
        self._replies = replies
        self._sessions = set(self._queue.sessions())  # in which something waits, or has since the start
        self._problems: dict[str, str] = {}
        self._sending: set[str] = set()  # replies whose messages are being sent
        self._due: set[str] = set()  # replies to look at, again if they are being looked at
        self._stalled: dict[str, str] = {}  # replies whose first message could not be sent, and their chats
        core.followers.subscribe(self._hear)

    async def view(self, session_id: str) -> list[View]:
        """What waits in a chat: {"id", "after_id", "under_id", "text", "files", "held"}, in the order of sending.

        ``held`` is a sentence that says why it is not sent by itself; None while its reply is being written.
        """
        if session_id not in self._sessions:
            return []
        found = await self._core.read(self._queue.of_session, session_id)
        return [self._view(one, self._held(one, found)) for one in found]

    async def add(
        self,
        session_id: str,
        after_id: str,
        text: str,
        files: Sequence[str] = (),
        place: int | None = None,
        *,
        typed: bool = False,
    ) -> View:
        """Let a message wait for a reply; if that has come to a good end meanwhile, it is sent.

        Args:
            place, typed: see ``Queue.add``.

        Returns:
            Its view.

        Raises:
            SessionError: there is no such reply in this chat, or too much waits in it.
        """
        text = clean_text(text, needed=True)
        return await self._core.whole(self._add(session_id, after_id, text, files, place, typed))

    async def remove(self, session_id: str, queued_id: str) -> View:
        """Take a message out of the queue, with its files; returns what ``add`` takes to bring it back."""
        return await self._core.whole(self._remove(session_id, queued_id))

    async def take_back(self, session_id: str, queued_id: str) -> View:
        """{"text", "files", "draft"}: make a message that waits the beginning of the chat's draft."""
        return await self._core.whole(self._take_back(session_id, queued_id))

    async def order(self, session_id: str, ids: Sequence[str]) -> None:
        """Give messages their turns. See ``Queue.order``."""
        await self._core.whole(self._order(session_id, ids))

    async def bring(self, session_id: str, queued_id: str, after_id: str) -> None:
        """Let a message wait for another reply, or send it if that has come to a good end."""
        await self._core.whole(self._bring(session_id, queued_id, after_id))

    async def send(self, session_id: str, queued_id: str, parent_id: str | None = None) -> View | None:
        """Send a message that is held: {"user", "reply"}; where a reply is being written, it waits for that instead.

        Args:
            parent_id: the last message that its reader sees. It counts if the place it was written for is above that.

        Raises:
            RequestError: see ``ReplyService.send``.
            SessionError: it does not wait any more.
        """
        return await self._core.whole(self._send_now(session_id, queued_id, parent_id))

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _add(
        self, session_id: str, after_id: str, text: str, files: Sequence[str], place: int | None, typed: bool
    ) -> View:
        added = await self._core.write(self._queue.add, session_id, after_id, text, files, place, typed)
        self._sessions.add(session_id)
        if typed:
            self._core.tell_draft(await self._core.read(self._core.store.drafts.draft, session_id))
        if files:
            self._core.tell({"type": "attachments", "session_id": session_id})
        if added.after_id not in self._core.jobs:
            await self._ended(session_id, added.after_id)
        views = await self._tell(session_id)
        return next((one for one in views if one["id"] == added.id), self._view(added, None))

    async def _remove(self, session_id: str, queued_id: str) -> View:
        removed = await self._core.write(self._queue.remove, session_id, queued_id)
        self._problems.pop(queued_id, None)
        await self._go_on(session_id)
        await self._tell(session_id)
        return {"after": removed.after_id, "text": removed.text, "files": removed.files}

    async def _take_back(self, session_id: str, queued_id: str) -> View:
        taken, draft = await self._core.write(self._queue.take_back, session_id, queued_id)
        self._problems.pop(queued_id, None)
        self._stalled.pop(taken.after_id, None)  # it is about to be sent anew: what was behind it goes not before it
        self._core.tell_draft(draft)
        await self._tell(session_id)
        return {"text": taken.text, "files": taken.files, "draft": asdict(draft)}

    async def _order(self, session_id: str, ids: Sequence[str]) -> None:
        await self._core.write(self._queue.order, session_id, ids)
        await self._go_on(session_id)
        await self._tell(session_id)

    async def _bring(self, session_id: str, queued_id: str, after_id: str) -> None:
        brought = await self._core.write(self._queue.bring, session_id, queued_id, after_id)
        self._problems.pop(queued_id, None)
        await self._go_on(session_id)
        if brought.after_id not in self._core.jobs:
            await self._ended(session_id, brought.after_id)
        await self._tell(session_id)

    async def _send_now(self, session_id: str, queued_id: str, parent_id: str | None) -> View | None:
        found = await self._core.read(self._queue.find, session_id, queued_id)
        if parent_id is None or not await self._core.read(self._queue.is_above, found.under_id, parent_id):
            parent_id = found.after_id
        if parent_id in self._core.jobs and parent_id != found.after_id:
            await self._bring(session_id, queued_id, parent_id)
            return None
        if found.status == "streaming":
            raise SessionError("The reply above this message is still being written; it is sent when that has ended.")
        try:
            return await self._send(found, parent_id)
        finally:
            await self._tell(session_id)

    async def _send(self, one: Queued, parent_id: str) -> View:
        sent = await self._replies.send_queued(one, parent_id)
        self._problems.pop(one.id, None)
        return sent

    def _hear(self, event: View) -> None:
        if event["type"] == "message" and event["message"]["session_id"] in self._sessions:
            message = event["message"]
            if message["role"] == "assistant":
                self._core.background(self._reply_changed(message["session_id"], message["id"], message["status"]))
        elif event["type"] == "branch" and event["session_id"] in self._sessions:
            self._core.background(self._tell(event["session_id"]))
        elif event["type"] == "purged":
            self._sessions.difference_update(event["ids"])

    async def _reply_changed(self, session_id: str, reply_id: str, status: str) -> None:
        if self._core.closing:
            return
        if status != "streaming":
            await self._ended(session_id, reply_id)
        await self._tell(session_id)

    async def _ended(self, session_id: str, reply_id: str) -> None:
        """Send the first message that waits for a reply, if that has come to a good end.

        Where that is being done already, it is looked again after it: another message may have come meanwhile.
        """
        self._due.add(reply_id)
        if reply_id in self._sending:
            return
        self._sending.add(reply_id)
        try:
            while reply_id in self._due:
                self._due.discard(reply_id)
                await self._send_first(session_id, reply_id)
        finally:
            self._sending.discard(reply_id)
            self._due.discard(reply_id)

    async def _go_on(self, session_id: str) -> None:
        """Look again at those replies of a chat whose first message could not be sent: another one may be first now."""
        for reply_id in [one for one, chat in self._stalled.items() if chat == session_id]:
            await self._ended(session_id, reply_id)

    async def _send_first(self, session_id: str, reply_id: str) -> None:
        """One step of ``_ended``; where the first message has gone meanwhile, the next one is the first."""
        self._stalled.pop(reply_id, None)
        first, problem = await self._first(session_id, reply_id), ""
        while first is not None:
            try:
                await self._send(first, reply_id)
                return  # what waited behind it waits for its reply now
            except PagedChatError as error:
                problem = str(error)
            tried, first = first, await self._first(session_id, reply_id)
            if first is not None and first.id == tried.id:
                self._problems[first.id], self._stalled[reply_id] = problem, session_id
                _log.info("A message that waited could not be sent; it is held.")
                return

    async def _first(self, session_id: str, reply_id: str) -> Queued | None:
        waiting = await self._core.read(self._queue.of_session, session_id)
        return next((one for one in waiting if one.after_id == reply_id and one.ready), None)

    async def _tell(self, session_id: str) -> list[View]:
        """Tell what waits in a chat. It is read in one go, so that the last one who reads is the last one who tells."""
        views = await self.view(session_id)
        self._core.tell({"type": "queue", "session_id": session_id, "queue": views})
        return views

    def _view(self, one: Queued, held: str | None) -> View:
        shown = ("id", "after_id", "under_id", "text")
        files = [{"id": file.id, "name": file.name, "size": file.size} for file in one.shown_files]
        return {**{name: getattr(one, name) for name in shown}, "files": files, "held": held}

    def _held(self, one: Queued, waiting: Sequence[Queued]) -> str | None:
        """Why a message is not sent by itself.

        Args:
            waiting: all of its chat, in their order.
        """
        if one.status == "streaming" or one.after_id in self._sending:
            return None
        if one.ready:
            before = waiting[: next(place for place, other in enumerate(waiting) if other.id == one.id)]
            behind = any(other.after_id == one.after_id and other.id in self._problems for other in before)
            return self._problems.get(one.id) or (_BEHIND if behind else _HELD["done"])
        if one.status == "done":
            return _NO_TEXT if one.hidden else _LIMIT
        return _HELD[one.status]
