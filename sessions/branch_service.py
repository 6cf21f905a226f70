"""What a page may do with branches: take them away and back, copy them into new chats."""

from __future__ import annotations

from .forks import ForkMode
from .service_core import ServiceCore
from .trash import Deletion
from .views import View


class BranchService:
    """Branches of chats. Every method that changes something returns once it is on disk."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core
        self._store = core.store

    async def delete(self, message_id: str) -> View:
        """{"undo", "session_id", "head_id", "messages"}: put a message and all below it into the trash.

        Replies in it are stopped first. ``undo`` is what ``restore`` takes.

        Raises:
            SessionError: there is no such message, or it is in the trash already.
        """
        await self._core.stop_all(await self._core.read(self._store.trash.running_below, message_id))
        return self._tell(await self._core.write(self._store.trash.delete_branch, message_id), deleted=True)

    async def restore(self, deletion: str) -> View:
        """{"session_id", "head_id", "messages"}: bring back what a deletion took away, and show it.

        Raises:
            SessionError: there is no such deletion, or what is above is in the trash too.
        """
        return self._tell(await self._core.write(self._store.trash.restore_branch, deletion), deleted=False)

    async def fork(self, message_id: str, mode: ForkMode) -> View:
        """Copy a chat up to a message into a new one: its view. See ``forks.fork``."""
        made = await self._core.write(self._store.fork, message_id, mode)
        self._core.take_in()
        return self._core.tell_session(made)

    async def leaf(self, message_id: str) -> str:
        """See ``TreeStore.leaf``."""
        return await self._core.read(self._store.leaf, message_id)

    def _tell(self, done: Deletion, *, deleted: bool) -> View:
        root = done.root
        view: View = {"session_id": root.session_id, "head_id": done.head_id, "messages": done.messages}
        self._core.tell(
            {
                "type": "branch",
                "session_id": root.session_id,
                "message_id": root.id,
                "parent_id": root.parent_id,
                "deleted": deleted,
                "messages": done.messages,
            }
        )
        self._core.tell_draft(done.draft)
        self._core.tell_head(root.session_id, done.head_id)  # siblings are counted anew where the head stays, too
        return {"undo": root.id, **view} if deleted else view
