"""Files on their way into prompts: read when they are attached, placed when a message is probed or sent.

::

    room of a prompt      half of it: whole files      a fifth, at most 1,600 tokens: passages of larger ones
                                                       at most 600 of them: more passages of those of messages above

A probe and a send of the same message come to the same result: it follows from the files, the text, the model and its
room alone. Where nobody can count tokens now, they are estimated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from math import ceil
from typing import Any

from ..engine.errors import EngineError, PagedChatError
from .attachments import Attachment, not_with_this
from .document_text import extract
from .documents import Document
from .errors import SessionError
from .passage_search import PassageSearch
from .passages import TARGET, Passage, estimate, split
from .quoted_before import QuotedBefore, quoted_before
from .rows import Message
from .sent_files import MORE, PASSAGES, Sent, SentPassage, Source, file_section, passages_section, read_sources
from .service_core import ServiceCore
from .views import View

MOST_QUOTED = 1_600
"""Tokens of passages in one turn, at most."""
MOST_MORE = 600
"""Tokens of passages that a later question gets of the documents of messages above it, at most."""
WINDOW = 20_000
"""Characters of a document that are shown at once."""
MOST_FILES = 20
"""Files of one message."""

_WHOLE_SHARE, _QUOTED_SHARE = 2, 5
_USUAL_ROOM = 4_096
_FRAME = 32  # tokens of a file's name and fences
_LONGEST_TOKEN = 8  # characters: what is longer than its room by so much is not counted
_PIECE = 1 << 15
_ANSWER_S = 2.0
_REMEMBERED = 2_000


class DocumentService:
    """Files of drafts and messages, as models and people read them."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core
        self._store = core.store
        self._search = PassageSearch()
        self._counts: OrderedDict[tuple[str, ...], int] = OrderedDict()
        self._room: int | None = None
        self._extracting = asyncio.Semaphore(2)

    # -- files of a draft -------------------------------------------------------------------------------------------

    async def add(self, session_id: str, name: str, data: bytes, media_type: str = "") -> View:
        """Keep a file for a message that is not sent yet; see ``draft_view``. Reading a PDF takes up to 30 s.

        A file that a model cannot read is kept, too: ``problem`` says why.

        Raises:
            SessionError: it is too large, too many files wait, or there is no such chat.
        """
        await self._core.session(session_id)
        found = await self._core.write(self._store.attachments.add, session_id, name, data, media_type, MOST_FILES)
        view = await self.draft_view(found)
        self._tell(found)
        return view

    async def waiting(self, session_id: str) -> list[View]:
        """The files of a chat's draft, in the order they were attached; see ``draft_view``."""
        found = await self._core.read(self._store.attachments.waiting, session_id)
        return [await self.draft_view(one) for one in found]

    async def set_removed(self, file_id: str, removed: bool) -> View:
        """Take a file away from the draft, or bring it back; see ``draft_view``.

        Raises:
            SessionError: there is no such file, or it was sent.
        """
        found = await self._core.read(self._store.attachments.find, file_id)
        if found.message_id is not None:
            raise SessionError(f'"{found.name}" was sent with a message, so it stays with it.')
        found = await self._core.write(self._store.attachments.set_deleted, file_id, removed)
        self._tell(found)
        return await self.draft_view(found)

    async def draft_view(self, file: Attachment) -> View:
        """A file of a draft: ``problem`` if it cannot be read, ``tokens`` if it may be sent whole and is counted."""
        document = await self._document(file)
        tokens = None
        if document.text is not None and self._core.engine.status.state == "ready":
            tokens = await self._tokens(document, self._share(_WHOLE_SHARE))
        names = ("id", "name", "media_type", "size", "session_id")
        view: View = {name: getattr(file, name) for name in names}
        return {**view, "problem": document.problem, "tokens": tokens, "how": None}

    # -- placing ----------------------------------------------------------------------------------------------------

    async def plan(
        self, session_id: str | None, text: str, file_ids: Sequence[str], parent_id: str | None = None
    ) -> Sent:
        """What a message with these files would send around its text, as a question under ``parent_id``.

        Of large documents that messages above it sent it quotes more passages, those that share words with it.

        Raises:
            SessionError: one of the files is not there, or belongs to another chat or message; or there can be no
                question under ``parent_id``.
        """
        before = await self._before(session_id, parent_id)
        if not file_ids:
            return await self._place(session_id or "", text, [], before) if before.names else Sent()
        there = {one.id: one for one in await self._core.read(self._store.attachments.of_session, session_id or "")}
        files = []
        for file_id in dict.fromkeys(file_ids):
            found = there.get(file_id)
            if found is None or found.message_id is not None:
                raise SessionError(not_with_this(found))
            files.append(found)
        return await self._place(session_id or "", text, files, before)

    async def edited(self, message: Message, text: str) -> Sent:
        """What a question sends when its text is another one: its whole files as they were, and passages anew."""
        before = await self._before(message.session_id, message.parent_id)
        if not message.files and not message.sources and not before.names:
            return Sent()
        sources = [one for one in read_sources(message.sources) if one.how != MORE]
        if message.files and not sources:  # of a time when files stayed out of prompts
            there = await self._core.read(self._store.attachments.of_session, message.session_id)
            files = [one for one in there if one.message_id == message.id]
            return await self._place(message.session_id, text, files, before)
        large = [one for one in sources if one.how == PASSAGES]
        documents = {one.sha256: await self._kept(message.session_id, one.sha256) for one in large}
        if any(document is None or document.text is None for document in documents.values()):
            return Sent(message.sent_before or "", message.sent_after or "", read_sources(message.sources))
        quoted = [(one, document) for one in large if (document := documents[one.sha256])]
        sent = Sent(message.sent_before or "", "", sources)
        await self._quote(sent, message.session_id, text, quoted, before)
        return sent

    async def _before(self, session_id: str | None, parent_id: str | None) -> QuotedBefore:
        """What a question under ``parent_id`` has above it."""
        if not session_id or parent_id is None:
            return QuotedBefore()
        return quoted_before(await self._core.read(self._store.sources_above, session_id, parent_id))

    async def _place(self, session_id: str, text: str, files: Sequence[Attachment], before: QuotedBefore) -> Sent:
        sent, left = Sent(), self._share(_WHOLE_SHARE)
        large: list[tuple[Source, Document]] = []
        for file in files:
            document = await self._document(file)
            source = Source(file.sha256, file.name, "none")
            sent.sources.append(source)
            if document.text is None:
                continue
            tokens = await self._tokens(document, left)
            if tokens is not None and tokens + _FRAME <= left:
                source.how, source.tokens = "whole", tokens
                sent.before += file_section(file.name, document.text)
                left -= tokens + _FRAME
            else:
                source.how = PASSAGES
                large.append((source, document))
        await self._quote(sent, session_id, text, large, before)
        return sent

    async def _quote(
        self, sent: Sent, session_id: str, text: str, large: Sequence[tuple[Source, Document]], before: QuotedBefore
    ) -> None:
        """Put the passages that fit a question best into what is sent with it, and note them in its sources.

        Args:
            large: documents of the question itself.
        """
        own = {source.sha256 for source, _ in large}
        more = [(Source(one, name, MORE), await self._kept(session_id, one)) for one, name in before.names.items()]
        later = [(source, found) for source, found in more if found and found.text and source.sha256 not in own]
        share = self._share(_QUOTED_SHARE)
        quoted: list[tuple[int, str, str]] = []
        for source, document in [*large, *later]:
            most, documents = (MOST_MORE, later) if source.how == MORE else (MOST_QUOTED, large)
            known = before.places.get(source.sha256)
            budget = min(most, share) // len(documents)
            for place, passage in await self._best(source, session_id, document, text, budget, known):
                number = before.last + len(quoted) + 1
                source.passages.append(SentPassage(number, place + 1, *passage))
                quoted.append((number, source.name, (document.text or "")[slice(*passage)]))
        sent.sources += [source for source, _ in later if source.passages]
        if quoted:
            sent.after = passages_section(quoted, await self._template(session_id))

    async def _best(
        self, source: Source, session_id: str, document: Document, question: str, budget: int, known: set[int] | None
    ) -> list[tuple[int, Passage]]:
        """The passages that fit a question best and into a budget of tokens, with their places, in order.

        Args:
            source: gets their tokens, and how many passages there are.
            known: places of those that the branch has already; None for a document that is new in it.
        """
        sha256, text = document.sha256, document.text or ""
        passages = await self._core.read(self._store.documents.passages, session_id, sha256)
        source.of, source.passages, source.tokens = len(passages), [], 0
        limit = max(1, budget // TARGET)
        found = await asyncio.to_thread(self._search.best, sha256, text, passages, question, limit, known)
        counts = [self._count((sha256, str(place)), text[slice(*passages[place])]) for place in found]
        kept: list[int] = []
        for place, tokens in zip(found, await asyncio.gather(*counts), strict=True):
            if kept and source.tokens + tokens > budget:
                break
            kept.append(place)
            source.tokens += tokens
        return [(place, passages[place]) for place in sorted(kept)]

    async def _template(self, session_id: str) -> str:
        session = await self._core.session(session_id)
        if session.preset_id is None:
            return ""
        try:
            return (await self._core.read(self._store.presets.preset, session.preset_id)).retrieval
        except SessionError:  # deleted since
            return ""

    # -- reading ----------------------------------------------------------------------------------------------------

    async def window(self, file_id: str, offset: int = 0) -> View:
        """A part of a file's text: {"file", "name", "text", "offset", "total", "problem"}, sizes in characters.

        Raises:
            SessionError: there is no such file.
        """
        file = await self._core.read(self._store.attachments.find, file_id)
        document = await self._document(file)
        return {"file": file.id, "name": file.name, "problem": document.problem, **_part(document.text or "", offset)}

    async def cited(self, message_id: str, n: int) -> View:
        """The passage that a question quotes as ``[n]``, in its surroundings: what ``window`` tells, and "passage":
        {"n", "number", "of", "start", "end"}.

        Raises:
            SessionError: the question quotes no such passage, or its file is gone.
        """
        message = await self._core.read(self._store.message, message_id)
        for source in read_sources(message.sources):
            for one in source.passages:
                if one.n != n:
                    continue
                document = await self._kept(message.session_id, source.sha256)
                if document is None or document.text is None:
                    raise SessionError(f'The text of "{source.name}" is gone, so passage {n} cannot be shown.')
                middle = (one.start + one.end) // 2
                passage = {"n": n, "number": one.number, "of": source.of, "start": one.start, "end": one.end}
                there = await self._core.read(self._store.attachments.of_session, message.session_id)
                files = [*message.files, *there]  # another message may have it
                file = next((file.id for file in files if file.sha256 == source.sha256), None)
                view = {"file": file, "name": source.name, "problem": None, "passage": passage}
                return {**view, **_part(document.text, middle - WINDOW // 2)}
        raise SessionError(f"The question above quotes no passage {n}.")

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _document(self, file: Attachment) -> Document:
        """What a file says; read from its bytes if nobody has done that yet.

        Raises:
            SessionError: its content is missing or damaged.
        """
        found = await self._core.read(self._store.documents.document, file.session_id, file.sha256)
        if found is not None:
            return found
        async with self._extracting:
            _, data = await self._core.read(self._store.attachments.read, file.id)
            made = await extract(data, file.name)
            passages = await asyncio.to_thread(split, made.text or "")
        document = Document(file.sha256, made.text, made.problem)
        return await self._core.write(self._store.documents.keep, file.session_id, document, passages)

    async def _kept(self, session_id: str, sha256: str) -> Document | None:
        """A document by its content; read anew from any attachment that has it."""
        found = await self._core.read(self._store.documents.document, session_id, sha256)
        if found is not None:
            return found
        there = await self._core.read(self._store.attachments.of_session, session_id)
        file = next((one for one in there if one.sha256 == sha256), None)
        try:
            return await self._document(file) if file else None
        except PagedChatError:
            return None

    def _share(self, share: int) -> int:
        """Tokens of a part of a prompt's room: as it is, or as it was when an engine last told it."""
        self._room = self._core.room() or self._room
        return (self._room or _USUAL_ROOM) // share

    async def _tokens(self, document: Document, most: int) -> int | None:
        """Tokens of a document; None if that are more than ``most`` by far, too many to be worth counting."""
        text = document.text or ""
        return await self._count((document.sha256,), text) if len(text) <= most * _LONGEST_TOKEN else None

    async def _count(self, name: tuple[str, ...], text: str) -> int:
        """Tokens of a text: counted once for each model, or estimated while there is none that could count."""
        key = (self._core.fingerprint(), *name)
        known = self._counts.get(key)
        if known is None:
            try:
                known = sum([await self._counted(piece) for piece in _pieces(text)])
            except (EngineError, TimeoutError):
                return ceil(estimate(text))
            self._counts[key] = known
            while len(self._counts) > _REMEMBERED:
                self._counts.popitem(last=False)
        self._counts.move_to_end(key)
        return known

    async def _counted(self, piece: str) -> int:
        if self._core.engine.status.state != "ready":
            raise EngineError("The engine is not ready.")
        return len(await asyncio.wait_for(self._core.engine.tokenize(piece), _ANSWER_S))

    def _tell(self, found: Attachment) -> None:
        self._core.tell({"type": "attachments", "session_id": found.session_id})


def _part(text: str, offset: int) -> dict[str, Any]:
    begin = max(0, min(offset, len(text) - 1))
    return {"text": text[begin : begin + WINDOW], "offset": begin, "total": len(text)}


def _pieces(text: str) -> list[str]:
    """A text in pieces that the engine counts between two of its steps, cut at ends of lines where there are any."""
    pieces, start = [], 0
    while len(text) - start > _PIECE:
        end = text.rfind("\n", start + _PIECE // 2, start + _PIECE) + 1 or start + _PIECE
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]
