"""What a page may ask about the whole tree of a chat."""

from __future__ import annotations

from .checks import clean_text
from .outline import beginning
from .service_core import ServiceCore
from .views import View


class OutlineService:
    """Trees in outline, with the replies that run."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def outline(self, session_id: str) -> View:
        """See ``Outlines.outline``; replies that are being written with the words they have so far."""
        view = await self._core.read(self._core.store.outlines.outline, session_id)
        places = {one: place for place, one in enumerate(view["ids"])}
        for job in self._core.running(session_id):
            if (place := places.get(job.message.id)) is not None:
                view["texts"][place] = beginning(job.content or job.reasoning or "")
        return view

    async def find(self, session_id: str, words: str) -> list[str]:
        """Ids of all messages of a chat that have these words; see ``Outlines.find``.

        However long the chat is, what else is read meanwhile waits for a part of it only.
        """
        find, words = self._core.store.outlines.find, clean_text(words)
        found, end = await self._core.read(find, session_id, words)
        while end is not None:
            more, end = await self._core.read(find, session_id, words, end)
            found += more
        return found
