"""Files of chats for the library service: reads and writes them beside the event loop, and tells of what came."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..service_core import ServiceCore
    from ..views import View
    from .formats import Exported
    from .report import Report

_TOLD_AT_ONCE = 50


async def export_chats(core: ServiceCore, ids: Iterable[str] | None, name: str, branches: bool) -> Exported:
    """The file of chats in a format.

    Args:
        ids: of sessions, those in the trash too; None: all that are not in the trash, with all folders and presets.
        branches: all branches, or only the ones that are shown.

    Raises:
        ExchangeError: no such format, or no chats.
        SessionError: there is no such chat.
    """
    from .formats import check_format, export

    check_format(name)
    wanted = [one.id for one in await core.read(core.store.sessions)] if ids is None else list(dict.fromkeys(ids))
    trees = [await core.read(core.store.exchange.read_tree, one) for one in wanted]
    shelf = await core.read(core.store.exchange.shelf) if ids is None else None
    return await asyncio.to_thread(export, trees, name, branches=branches, shelf=shelf)


async def import_chats(core: ServiceCore, name: str, data: bytes, skip_seen: bool) -> View:
    """Bring the chats of a file in and tell of each; returns the report. See ``ExchangeStore.write_trees``.

    Raises:
        ExchangeError: the file is too large, of a newer pagedchat or no export of chats.
        StoreError: the database cannot be written; nothing was imported.
    """
    from .reading import read_file

    reading = await asyncio.to_thread(read_file, name, data)

    async def store() -> Report:
        report = await core.write(lambda: core.store.exchange.write_trees(reading, skip_seen=skip_seen))
        core.take_in()
        await _tell(core, report)
        return report

    return (await core.whole(store())).to_view()


async def _tell(core: ServiceCore, report: Report) -> None:
    if report.folders:
        await core.tell_folders()
    if report.new_presets:
        await core.tell_presets()
    ids = [one.id for one in report.chats]
    for start in range(0, len(ids), _TOLD_AT_ONCE):
        for session in await core.read(core.store.exchange.sessions, ids[start : start + _TOLD_AT_ONCE]):
            core.tell_session(session)
        await asyncio.sleep(0)
