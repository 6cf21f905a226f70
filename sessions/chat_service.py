"""The chat service: everything a page may ask of chats, and the replies that run for them.

Lives in the event loop of the server. Replies are jobs keyed by message id; any number of followers may come and go
(see ``events``). What concerns whole chats and not their messages is in ``library_service``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .block_words import BlockWords
from .branch_reader import BranchReader
from .branch_service import BranchService
from .checks import UNSET, clean_params, clean_text, clean_title
from .compaction_service import CompactionService
from .comparison import ComparisonService
from .document_service import DocumentService
from .errors import SessionError, StoreError
from .forks import ForkMode
from .ids import now
from .library_service import LibraryService
from .message_facts import MessageFacts
from .outline_service import OutlineService
from .prefix_service import PrefixService
from .preset_service import PresetService
from .prompt_service import PromptService
from .queue_service import QueueService
from .reply_service import ReplyService
from .reproduction import Reproduction
from .rows import PromptPath
from .sent_files import Sent
from .service_core import ServiceCore
from .storage import StorageService
from .store import SessionStore
from .title_job import TitleJobs, TitleSource
from .token_branches import TokenBranches
from .views import View

_CLOSE_WAIT_S = 1.0
_READS = 5
"""How often ``open`` reads again when something changed meanwhile: followers must not get a state older than events."""


class ChatService:
    """Chats over one store and one engine client.

    Every method that changes something returns once it is on disk. User errors are PagedChatError.
    """

    def __init__(self, store: SessionStore, engine: Any, titles: TitleSource = "words") -> None:
        """Take over ``store`` and close what an earlier process left running.

        Args:
            engine: an ``EngineClient`` or what behaves like one.
            titles: "model" has the model name a chat after its first reply.

        Raises:
            StoreError: the database cannot be written.
        """
        self.core = ServiceCore(store, engine)
        self.library = LibraryService(self.core)
        self.presets = PresetService(self.core)
        self.storage = StorageService(self.core, self.library)
        self.facts = MessageFacts(self.core)
        self.documents = DocumentService(self.core)
        self.outline = OutlineService(self.core)
        self.comparison = ComparisonService(self.core)
        self._reader = BranchReader(self.core)
        self.blocks = BlockWords(self.core, self._reader)
        self._branches = BranchService(self.core)
        self._prompts = PromptService(self.core)
        self.prefixes = PrefixService(self.core, self._reader, self.presets)
        self._again = Reproduction(self.core)
        self._titles = TitleJobs(self.core, titles == "model")
        self.replies = ReplyService(self.core, self._prompts, self._titles, self.documents, self.create_session)
        self.compaction = CompactionService(self.core, self.replies)
        self.tokens = TokenBranches(self.core, self.replies, self._again)
        store.interrupt_running()
        self.queue = QueueService(self.core, self.replies)
        with contextlib.suppress(StoreError):  # files are not worth a failed start
            store.attachments.sweep()

    @property
    def store(self) -> SessionStore:
        """The rows on disk."""
        return self.core.store

    @property
    def engine(self) -> Any:
        """The engine client."""
        return self.core.engine

    def subscribe(self, callback: Callable[[View], None]) -> Callable[[], None]:
        """Get every event from now on, called in the event loop; the returned function ends it."""
        return self.core.followers.subscribe(callback)

    async def close(self) -> None:
        """Save running replies as interrupted and close the store."""
        if self.core.closing:
            return
        self.core.closing = True
        self._titles.close()
        if (
            self.core.tasks
        ):  # what was asked before is done first; a reply that it begins is interrupted with the others
            await asyncio.wait(self.core.tasks, timeout=_CLOSE_WAIT_S)
        await asyncio.gather(*(job.interrupt() for job in list(self.core.jobs.values())))
        await self.core.close()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def list_sessions(self) -> list[View]:
        """All chats that are not deleted: temporary ones, pinned ones, then the latest."""
        return await self.core.session_views()

    async def last_session(self) -> View | None:
        """The chat to open when none is named: the one shown last, else the latest."""
        session_id = await self.core.read(self.store.last_session_id)
        return self.core.session_view(await self.core.session(session_id)) if session_id else None

    async def create_session(
        self,
        system_prompt: str | None = None,
        params: dict[str, Any] | None = None,
        *,
        preset_id: str | None = None,
        folder_id: str | None = None,
        temporary: bool = False,
    ) -> View:
        """A new chat; ``system_prompt`` None is the preset's or the template's own, "" an empty turn.

        A temporary one is on no disk, shares no cached blocks with other chats, and ends with the server or before.
        """
        prompt = None if system_prompt is None else clean_text(system_prompt)
        preset = None if preset_id is None else await self.core.read(self.store.presets.preset, preset_id)
        if prompt is None and preset is not None:
            prompt = preset.system_turn
        await self._prompts.check_system_prompt(prompt)
        model, own = self.engine.status.info.get("model"), clean_params({}, params or {})
        if temporary and folder_id is not None:
            raise SessionError("A temporary chat can be in no folder; make a chat that is kept.")
        store = self.core.temporary if temporary else self.store
        made = await self.core.write(store.create_session, prompt, own, model, preset_id, folder_id, preset)
        return self.core.tell_session(made)

    async def rename(self, session_id: str, title: str, version: int | None = None) -> View:
        """Give a chat a name that stays."""
        return await self.core.change(session_id, version, title=clean_title(title), title_by="user")

    async def delete(self, session_id: str, version: int | None = None) -> View:
        """Put a chat in the trash, after stopping its replies; the engine forgets what only it has computed.

        A temporary chat does not go into the trash: see ``end_temporary``.
        """
        if self.core.is_temporary(session_id):
            return await self.end_temporary(session_id)
        await self._quiet(session_id)
        view = await self.core.change(session_id, version, deleted_at=now())
        await self.core.cache.forget([session_id])
        return view

    async def end_temporary(self, session_id: str) -> View:
        """Forget a temporary chat for good, after stopping its replies: its view as it was.

        Raises:
            SessionError: there is no such temporary chat.
        """
        if not self.core.is_temporary(session_id):
            raise SessionError("This chat is not a temporary one, or it has ended.")
        await self._quiet(session_id)
        view = await self.core.change(session_id, deleted_at=now())
        await self.library.purge([session_id])
        return view

    async def undelete(self, session_id: str, version: int | None = None) -> View:
        """Take a chat out of the trash."""
        return await self.core.change(session_id, version, deleted_at=None)

    async def update_settings(
        self, session_id: str, *, system_prompt: Any = UNSET, params: Any = UNSET, version: int | None = None
    ) -> View:
        """Change a chat's system prompt, or some of its sampling; a parameter set to None follows the model again.

        Parameters that are not named stay as they are, whoever changes them meanwhile.

        Raises:
            SessionError: the chat has changed since ``version``, or a parameter has no meaning.
        """
        changes: dict[str, Any] = {}
        if system_prompt is not UNSET:
            changes["system_prompt"] = None if system_prompt is None else clean_text(system_prompt)
            await self._prompts.check_system_prompt(changes["system_prompt"])
        if params is not UNSET:
            changes["params"] = partial(clean_params, changes=params or {})
        if not changes:
            return self.core.session_view(await self.core.session(session_id))
        return await self.core.change(session_id, version, **changes)

    async def open(self, session_id: str, begin: Callable[[list[str]], int] = lambda ids: 0) -> View:
        """{"session", "earlier", "messages", "quoted_above"}: a chat and its shown branch, running replies with all
        their text so far; and what messages before the first one quote, see ``passages_above``.

        Args:
            begin: is given the ids of the branch and says how many ``earlier`` messages are left out. It is called in
                another thread, and may be called again.
        """
        for _ in range(_READS):
            changes = self.core.changes
            session, messages, earlier = await self.core.read(self.store.shown_branch, session_id, begin)
            if changes == self.core.changes:
                break
        self.core.background(self.core.write(self.store.remember_last, session_id))
        shown = [self.core.seen(one) for one in messages]
        above = messages[0].parent_id if messages else None
        quoted = await self.core.read(self.store.passages_above, session_id, above) if above is not None else []
        view = self.core.session_view(session)
        return {"session": view, "earlier": earlier, "messages": shown, "quoted_above": quoted}

    # -- messages ---------------------------------------------------------------------------------------------------

    async def send(
        self, session_id: str | None, parent_id: str | None, text: str, attachment_ids: Sequence[str] = ()
    ) -> View:
        """See ``ReplyService.send``."""
        return await self.replies.send(session_id, parent_id, text, attachment_ids)

    async def regenerate(self, message_id: str, n: int = 1, params: dict[str, Any] | None = None) -> View:
        """See ``ReplyService.regenerate``."""
        return await self.replies.regenerate(message_id, n, params)

    async def continue_reply(self, message_id: str) -> View:
        """See ``ReplyService.continue_reply``."""
        return await self.replies.continue_reply(message_id)

    async def edit(self, message_id: str, text: str) -> View:
        """See ``ReplyService.edit``."""
        return await self.replies.edit(message_id, text)

    async def select(self, message_id: str, session_id: str | None = None) -> None:
        """Show the branch through a message, down to the leaf that was used last; ``session_id``: if it is in there."""
        session_id, head_id = await self.core.write(self.store.select, message_id, session_id)
        self.core.tell_head(session_id, head_id)

    async def stop(self, message_id: str) -> None:
        """End a reply, whatever state it is in; what it has so far is kept. Nothing happens if it has ended."""
        await self.core.stop(message_id)

    async def delete_branch(self, message_id: str) -> View:
        """See ``BranchService.delete``."""
        return await self.core.whole(self._branches.delete(message_id))

    async def restore_branch(self, deletion: str) -> View:
        """See ``BranchService.restore``."""
        return await self.core.whole(self._branches.restore(deletion))

    async def fork(self, message_id: str, mode: ForkMode = "branch") -> View:
        """See ``BranchService.fork``."""
        return await self.core.whole(self._branches.fork(message_id, mode))

    async def leaf(self, message_id: str) -> str:
        """See ``BranchService.leaf``."""
        return await self._branches.leaf(message_id)

    async def branch_tokens(self, session_id: str, message_id: str | None = None) -> list[int]:
        """See ``BranchReader.tokens``."""
        return await self._reader.tokens(session_id, message_id)

    async def question(
        self, session_id: str | None, parent_id: str | None, text: str, sent: Sent | None = None
    ) -> dict[str, Any]:
        """See ``PromptService.question``."""
        return await self._prompts.question(session_id, parent_id, text, sent)

    async def reproduction(self, message_id: str, run: int | None = None) -> View:
        """See ``Reproduction.reproduction``."""
        return await self._again.reproduction(message_id, run)

    async def reproduce(
        self, message_id: str, run: int | None = None, progress: Callable[[int], None] | None = None
    ) -> View:
        """See ``Reproduction.reproduce``."""
        return await self._again.reproduce(message_id, run, progress)

    async def prompt_path(self, message_id: str) -> PromptPath:
        """See ``ServiceCore.prompt_path``."""
        return await self.core.prompt_path(message_id)

    def salt(self, session_id: str) -> str:
        """See ``ServiceCore.salt``."""
        return self.core.salt(session_id)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _quiet(self, session_id: str) -> None:
        """Nothing of a chat runs any more."""
        self._titles.cancel(session_id)
        await self.core.stop_all(job.message.id for job in self.core.running(session_id))
