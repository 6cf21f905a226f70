"""Everything a page may ask of whole chats: pins, folders, archive, trash, presets, drafts, search, files.

Replies and messages are the chat service's; both share one core.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from .attachments import Attachment
from .checks import clean_text, clean_title
from .errors import SessionError
from .exchange.exchange_service import export_chats, import_chats
from .service_core import ServiceCore
from .views import View, deleted_branch_view, found_view, preset_view


class LibraryService:
    """Chats as things on a shelf. Every method that changes something returns once it is on disk."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core
        self._store = core.store

    async def begin_unused(self, besides: Iterable[str] = ()) -> View | None:
        """A chat that was never used, as if it were new, but none of ``besides``; None if there is none."""
        model = self._core.engine.status.info.get("model")
        found = await self._core.write(self._store.begin_unused_session, model, set(besides))
        return self._core.tell_session(found) if found is not None else None

    async def pin(self, session_id: str, on: bool, version: int | None = None) -> View:
        """Keep a chat at the top of the list, or no longer."""
        return await self._core.change(session_id, version, pinned=int(on))

    async def archive(self, session_id: str, on: bool, version: int | None = None) -> View:
        """Take a chat out of the list without deleting it, or put it back."""
        return await self._core.change(session_id, version, archived=int(on))

    async def move(self, session_id: str, folder_id: str | None, version: int | None = None) -> View:
        """Put a chat into a folder; None takes it out of its folder."""
        return await self._core.change(session_id, version, folder_id=folder_id)

    # -- folders ----------------------------------------------------------------------------------------------------

    async def folders(self) -> list[View]:
        """{"id", "name", "created_at", "sessions"} of each folder, by name; ``sessions`` counts chats."""
        return [asdict(one) for one in await self._core.read(self._store.library.folders)]

    async def add_folder(self, name: str) -> View:
        """A new folder."""
        folder_id = await self._core.write(self._store.library.add_folder, clean_title(name, "folder"))
        return next(one for one in await self._core.tell_folders() if one["id"] == folder_id)

    async def rename_folder(self, folder_id: str, name: str) -> None:
        """Give a folder another name."""
        await self._core.write(self._store.library.rename_folder, folder_id, clean_title(name, "folder"))
        await self._core.tell_folders()

    async def delete_folder(self, folder_id: str) -> None:
        """Take a folder away; its chats stay, and are in no folder until ``undelete_folder``."""
        await self._core.write(self._store.library.delete_folder, folder_id)
        await self._core.tell_folders()

    async def undelete_folder(self, folder_id: str) -> None:
        """Bring a folder back with its chats."""
        await self._core.write(self._store.library.undelete_folder, folder_id)
        await self._core.tell_folders()

    # -- presets ----------------------------------------------------------------------------------------------------

    async def presets(self) -> list[View]:
        """All presets, by name. See ``Preset``; ``system_turn`` is the system prompt of a chat that begins with it."""
        return [preset_view(one) for one in await self._core.read(self._store.presets.presets)]

    async def save_preset(self, preset: View, version: int | None = None) -> View:
        """Make a preset, or change those parts of the one with ``preset["id"]`` that are named."""
        changes = {name: value for name, value in preset.items() if name != "id"}
        saved = await self._core.write(self._store.presets.save, preset.get("id"), changes, version)
        await self._core.tell_presets()
        return preset_view(saved)

    async def delete_preset(self, preset_id: str) -> None:
        """Take a preset away; chats that began with it do not change."""
        await self._core.write(self._store.presets.set_deleted, preset_id, True)
        await self._core.tell_presets()

    async def undelete_preset(self, preset_id: str) -> None:
        """Bring a preset back."""
        await self._core.write(self._store.presets.set_deleted, preset_id, False)
        await self._core.tell_presets()

    # -- drafts -----------------------------------------------------------------------------------------------------

    async def draft(self, session_id: str) -> View:
        """What was typed in a chat and not sent ("" is the chat that has not begun). See ``Draft``."""
        return asdict(await self._core.read(self._store.drafts.draft, session_id))

    async def save_draft(
        self,
        session_id: str,
        text: str,
        parent_id: str | None = None,
        edits_id: str | None = None,
        version: int | None = None,
    ) -> View:
        """Keep what was typed; an empty text takes the draft away. See ``Drafts.save``."""
        draft = await self._core.write(
            self._store.drafts.save, session_id, clean_text(text), parent_id, edits_id, version
        )
        if draft.version != version:
            self._core.tell_draft(draft)
        return asdict(draft)

    # -- attachments ------------------------------------------------------------------------------------------------

    async def attachments(self, session_id: str) -> list[View]:
        """Files of a chat; those with ``message_id`` None wait to be sent. See ``Attachment``."""
        return [asdict(one) for one in await self._core.read(self._store.attachments.of_session, session_id)]

    async def attach(self, session_id: str, name: str, data: bytes, media_type: str = "") -> View:
        """Keep a file for a message that is not sent yet. See ``Attachments.add``."""
        found = await self._core.write(self._store.attachments.add, session_id, name, data, media_type)
        return self._tell_attachments(found)

    async def attachment(self, attachment_id: str) -> tuple[View, bytes]:
        """A file and its content. See ``Attachments.read``."""
        found, data = await self._core.read(self._store.attachments.read, attachment_id)
        return asdict(found), data

    async def detach(self, attachment_id: str, on: bool = False) -> View:
        """Take a file away; with ``on`` it comes back."""
        return self._tell_attachments(
            await self._core.write(self._store.attachments.set_deleted, attachment_id, not on)
        )

    # -- trash ------------------------------------------------------------------------------------------------------

    async def trash(self) -> View:
        """{"sessions", "branches"}: what was deleted and may come back, the latest first."""
        trash = self._store.trash
        sessions, branches = await self._core.read(trash.sessions), await self._core.read(trash.branches)
        return {
            "sessions": [self._core.session_view(one) for one in sessions],
            "branches": [deleted_branch_view(one) for one in branches],
        }

    async def purge(self, ids: Iterable[str]) -> int:
        """Delete chats and branches that are in the trash for ever; returns how many. See ``Trash.purge``."""
        wanted, after = list(ids), 0
        while after is not None:  # other writes go on between the steps
            after = await self._core.write(self._store.trash.forget_words, wanted, after)
        number = await self._core.write(self._store.trash.purge, wanted)
        self._core.take_in()
        self._core.tell({"type": "purged", "ids": wanted})
        await self._core.cache.forget(wanted)
        return number

    # -- search -----------------------------------------------------------------------------------------------------

    async def search(self, query: str, limit: int = 20, offset: int = 0) -> View:
        """{"hits", "total", "more", "note"}: messages and titles that fit what was typed. See ``Search.find``."""
        found = await self._core.read(self._store.search.find, clean_text(query), limit, offset)
        return found_view(found)

    # -- files ------------------------------------------------------------------------------------------------------

    async def export(
        self, ids: Iterable[str] | None, format_name: str, *, branches: bool = True
    ) -> tuple[str, str, bytes]:
        """(file name, media type, content) of chats, all that are not in the trash for None. See ``export_chats``."""
        ids = None if ids is None else list(ids)
        if any(self._core.is_temporary(one) for one in ids or ()):
            raise SessionError("A temporary chat is written to no file, so it cannot be exported.")
        file = await export_chats(self._core, ids, format_name, branches)
        return file.name, file.media_type, file.data

    async def import_file(self, name: str, data: bytes, *, skip_seen: bool = False) -> View:
        """Bring the chats of a file in, all or nothing; returns a report. See ``import_chats``."""
        return await import_chats(self._core, name, data, skip_seen)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _tell_attachments(self, found: Attachment) -> View:
        self._core.tell({"type": "attachments", "session_id": found.session_id})
        return asdict(found)
