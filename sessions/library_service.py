"""Everything a page may ask of whole chats: pins, folders, archive, trash, presets, drafts, search, files.

Replies and messages are the chat service's; both share one core.
"""

from __future__ import annotations

from collections.abc import Iterable

from .checks import clean_text
from .exchange.exchange_service import export_chats, import_chats
from .service_core import ServiceCore
from .views import View, deleted_branch_view, found_view


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

    # -- trash ------------------------------------------------------------------------------------------------------

    async def trash(self) -> View:
        """{"sessions", "branches"}: what was deleted and may come back, the latest first."""
        trash = self._core.store.trash
        sessions, branches = await self._core.read(trash.sessions), await self._core.read(trash.branches)
        return {
            "sessions": [self._core.session_view(one) for one in sessions],
            "branches": [deleted_branch_view(one) for one in branches],
        }

    async def purge(self, ids: Iterable[str]) -> int:
        """Delete chats and branches that are in the trash for ever; returns how many. See ``Trash.purge``."""
        wanted = list(ids)
        number = await self._core.write(self._core.store.trash.purge, wanted)
        self._core.tell({"type": "purged", "ids": wanted})
        await self._core.cache.forget(wanted)
        return number

    # -- search -----------------------------------------------------------------------------------------------------

    async def search(self, query: str, limit: int = 20, offset: int = 0) -> View:
        """{"hits", "total", "more", "note"}: messages and titles that fit what was typed. See ``Search.find``."""
        found = await self._core.read(self._core.store.search.find, clean_text(query), limit, offset)
        return found_view(found)

    # -- files ------------------------------------------------------------------------------------------------------

    async def export(
        self, ids: Iterable[str] | None, format_name: str, *, branches: bool = True
    ) -> tuple[str, str, bytes]:
        """(file name, media type, content) of chats, all that are not in the trash for None. See ``export_chats``."""
        file = await export_chats(self._core, ids, format_name, branches)
        return file.name, file.media_type, file.data

    async def import_file(self, name: str, data: bytes, *, skip_seen: bool = False) -> View:
        """Bring the chats of a file in, all or nothing; returns a report. See ``import_chats``."""
        return await import_chats(self._core, name, data, skip_seen)
