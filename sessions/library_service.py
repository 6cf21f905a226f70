"""Everything a page may ask of whole chats: pins, folders, archive, trash, presets, drafts, search, files.

Replies and messages are the chat service's; both share one core.
"""

from __future__ import annotations

from .service_core import ServiceCore
from .views import View


class LibraryService:
    """Chats as things on a shelf. Every method that changes something returns once it is on disk."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def pin(self, session_id: str, on: bool, version: int | None = None) -> View:
        """Keep a chat at the top of the list, or no longer."""
        return await self._core.change(session_id, version, pinned=int(on))

    async def archive(self, session_id: str, on: bool, version: int | None = None) -> View:
        """Take a chat out of the list without deleting it, or put it back."""
        return await self._core.change(session_id, version, archived=int(on))
