"""What the services over chats share: the store's two threads, the running replies, and the followers.

Temporary chats live in a second store, in memory: a call goes to the store that has the chat or message it names first.
Blocking SQL goes through two threads, one that writes and one that reads, so that neither a locked database nor a long
list holds the event loop. Events carry views (see ``views``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

from ..engine.errors import PagedChatError
from .cache_forgetting import CacheForgetting
from .drafts import Draft
from .errors import SessionError
from .events import Followers
from .reply_job import ReplyJob
from .rows import Message, PromptPath, Session
from .sampling import effective_params
from .store import SessionStore
from .views import View, message_view, preset_view, session_view

_STOP_WAIT_S = 2.0
_CLOSING = "pagedchat is closing; start it again to go on."

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class ServiceCore:
    """One store, one engine client, and what runs over them.

    Attributes:
        jobs: replies that are being written, by message id.
        changes: grows with every event about a message or a head, so that readers notice that something changed.
        closing: nothing new may begin.
        cache: has the engine forget chats.
    """

    def __init__(self, store: SessionStore, engine: Any) -> None:
        self.store = store
        self.engine = engine
        self.jobs: dict[str, ReplyJob] = {}
        self.followers = Followers()
        self.cache = CacheForgetting(engine)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.changes = 0
        self.closing = self._closed = False
        self._in_memory: SessionStore | None = None
        self._writing = ThreadPoolExecutor(1, "chat-writer")
        self._reading = ThreadPoolExecutor(1, "chat-reader")

    async def close(self) -> None:
        """Close the store; nothing may be asked any more."""
        self._closed = True
        self.cache.close()
        self._reading.shutdown(wait=False)
        self._writing.shutdown(wait=False)
        await asyncio.to_thread(self.store.close)
        if self._in_memory is not None:
            self._in_memory.close()

    # -- temporary chats --------------------------------------------------------------------------------------------

    @property
    def temporary(self) -> SessionStore:
        """The store of temporary chats."""
        if self._in_memory is None:
            self._in_memory = SessionStore.temporary()
        return self._in_memory

    def is_temporary(self, thing_id: str | None) -> bool:
        """Whether a chat or message is, or belongs to, a temporary chat."""
        if self._in_memory is None or self._closed or not thing_id:
            return False
        return self._in_memory.has(str(thing_id))

    def salt(self, session_id: str) -> str:
        """What requests of a chat share blocks under: a temporary one shares them with no other chat."""
        return f"temporary:{session_id}" if self.is_temporary(session_id) else ""

    async def session_views(self) -> list[View]:
        """Temporary chats, then all others that are not deleted; see ``SessionStore.sessions``."""
        memory, kept = [], await self.read(self.store.sessions)
        if self._in_memory is not None:
            memory = await self.read(self._in_memory.sessions)
        usual, running = self._usual_params(), {job.message.session_id for job in self.jobs.values()}
        views = [session_view(one, usual, running=one.id in running, temporary=True) for one in memory]
        return views + [session_view(one, usual, running=one.id in running) for one in kept]

    # -- store and tasks --------------------------------------------------------------------------------------------

    async def write(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Call something of the store that writes."""
        return await self._in(self._writing, call, *arguments)

    async def read(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Call something of the store that only reads."""
        return await self._in(self._reading, call, *arguments)

    async def whole(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do all of ``work`` even if the one who asked for it goes away half-way."""
        if self.closing:
            work.close()
            raise SessionError(_CLOSING)
        return await asyncio.shield(self._keep(work))

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do ``work`` while nobody waits for it; what fails is logged."""
        self._keep(work).add_done_callback(_log_failure)

    def take_in(self) -> None:
        """Bring the search on to messages that came by the thousand, while other writes go on between its steps."""
        self.background(self._take_in())

    # -- prompts ----------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """Names the model whose token ids are stored and sent now; empty while none is loaded."""
        info = self.engine.status.info
        return str(info.get("fingerprint") or info.get("model") or "")

    async def prompt_path(self, message_id: str) -> PromptPath:
        """See ``SessionStore.prompt_path``; with the ids of the model that is loaded."""
        return await self.read(self.store.prompt_path, message_id, self.fingerprint(), self.room())

    def room(self) -> int | None:
        """Tokens of the longest prompt and reply that the engine can hold; None while nobody knows."""
        info = self.engine.status.info
        limits = [info.get("max_model_len"), info.get("capacity")]
        return min((one for one in limits if one), default=None)

    # -- sessions and news ------------------------------------------------------------------------------------------

    async def session(self, session_id: str) -> Session:
        """See ``SessionStore.session``."""
        return await self.read(self.store.session, session_id)

    async def change(self, session_id: str, version: int | None = None, **changes: Any) -> View:
        """Set columns of a session and tell it. See ``SessionStore.change_session``."""
        return self.tell_session(await self.write(self._changed, session_id, version, changes))

    def running(self, session_id: str) -> list[ReplyJob]:
        """The replies of a session that are being written."""
        return [job for job in self.jobs.values() if job.message.session_id == session_id]

    async def stop(self, message_id: str) -> None:
        """End a reply, whatever state it is in; what it has so far is kept. Nothing happens if it has ended."""
        job = self.jobs.get(message_id)
        if job is None:
            return
        await job.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.done.wait(), _STOP_WAIT_S)

    async def stop_all(self, message_ids: Iterable[str]) -> None:
        """End several replies at once."""
        await asyncio.gather(*(self.stop(one) for one in message_ids))

    def seen(self, message: Message) -> View:
        """A message as pages see it; a running reply with all its text so far."""
        job = self.jobs.get(message.id)
        return message_view(message if job is None else job.overlay(message))

    def session_view(self, session: Session, *, temporary: bool | None = None) -> View:
        """A session as pages see it; None looks whether it is a temporary one."""
        running = bool(self.running(session.id))
        temporary = self.is_temporary(session.id) if temporary is None else temporary
        return session_view(session, self._usual_params(), running=running, temporary=temporary)

    def _usual_params(self) -> dict[str, Any]:
        return effective_params({}, self.engine.status.info.get("sampling_defaults") or {})

    def tell(self, event: View) -> None:
        """Tell the followers."""
        self.followers.tell(event)

    def tell_session(self, session: Session) -> View:
        """Tell that a session is new or changed."""
        view = self.session_view(session)
        self.tell({"type": "session", "session": view})
        return view

    def tell_message(self, message: Message) -> View:
        """Tell that a message is new or changed."""
        view = message_view(message)
        self.changes += 1
        self.tell({"type": "message", "message": view})
        return view

    def tell_head(self, session_id: str, head_id: str | None) -> None:
        """Tell that another branch is shown."""
        self.changes += 1
        self.tell({"type": "head", "session_id": session_id, "head_id": head_id})

    def tell_draft(self, draft: Draft | None) -> View | None:
        """Tell that a draft is another one now."""
        if draft is None:
            return None
        view = asdict(draft)
        self.tell({"type": "draft", "draft": view})
        return view

    async def tell_folders(self) -> list[View]:
        """Tell which folders there are now."""
        folders = [asdict(one) for one in await self.read(self.store.library.folders)]
        self.tell({"type": "folders", "folders": folders})
        return folders

    async def tell_presets(self) -> None:
        """Tell which presets there are now."""
        presets = [preset_view(one) for one in await self.read(self.store.presets.presets)]
        self.tell({"type": "presets", "presets": presets})

    async def retell_session(self, session_id: str) -> None:
        """Tell a session as it is now, if it is still there."""
        with contextlib.suppress(SessionError):
            self.tell_session(await self.session(session_id))

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _take_in(self) -> None:
        while not self.closing and await self.write(self.store.search.take_in):
            pass

    def _changed(self, session_id: str, version: int | None, changes: dict[str, Any]) -> Session:
        store = self.temporary if self.is_temporary(session_id) else self.store
        return store.change_session(session_id, version, **changes)

    async def _in(self, pool: ThreadPoolExecutor, call: Callable[..., _T], *arguments: Any) -> _T:
        if self._closed:
            raise SessionError(_CLOSING)
        if arguments and self._in_memory is not None:
            call = self._placed(call, arguments[0], self._in_memory)
        return await asyncio.get_running_loop().run_in_executor(pool, call, *arguments)

    def _placed(self, call: Callable[..., _T], names: Any, memory: SessionStore) -> Callable[..., _T]:
        """The same call to the store in memory, if the chat or message (or the first of several) is there.

        Args:
            call: of the store on disk, or of one of its parts; any other is as it is.
        """
        first = next(iter(names), None) if isinstance(names, list) else names
        owner = getattr(call, "__self__", None)
        if owner is None or not isinstance(first, str) or not self.is_temporary(first):
            return call
        if owner is self.store:
            return getattr(memory, call.__name__)
        part = next((name for name, one in vars(self.store).items() if one is owner), None)
        return call if part is None else getattr(getattr(memory, part), call.__name__)

    def _keep(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, PagedChatError):
        _log.error("Work in the background failed.", exc_info=error)
