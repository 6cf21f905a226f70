"""What blocks hold of a chat: which messages lie in a branch's tokens, and which of their words in one block."""

from __future__ import annotations

from .branch_parts import BranchPart, TextSpan, part_name, spans_of, split_beginning
from .branch_reader import BranchReader, ReadBranch
from .errors import SessionError
from .service_core import ServiceCore
from .views import View


class BlockWords:
    """Looks at branches; changes nothing."""

    def __init__(self, core: ServiceCore, reader: BranchReader) -> None:
        self._core = core
        self._reader = reader

    async def holds(self, session_id: str) -> bool:
        """Whether there is such a chat, and not in the trash."""
        try:
            await self._core.session(session_id)
        except SessionError:
            return False
        return True

    async def parts(self, session_id: str, message_id: str | None = None) -> list[View]:
        """Whose the tokens of a branch are: {"message", "name", "first", "end"} in order; see ``part_name``.

        Args:
            message_id: where the branch ends; None for the shown one.

        Raises:
            SessionError: there is no such chat or message.
            EngineError: the engine is not ready.
        """
        branch = await self._branch(session_id, message_id)
        names = await self._names(branch)
        return [
            {"message": one.message_id, "name": names[one.message_id], "first": one.first, "end": one.end}
            for one in branch.parts
        ]

    async def words(self, session_id: str, message_id: str | None, first: int, end: int) -> list[View]:
        """The messages whose tokens lie in a part of a branch, and the characters of their texts that it spells.

        Returns:
            For each message {"message", "name", "tokens", "spans", "text"}; "tokens" counts its tokens there, a span is
            {"field", "start", "end"} in UTF-16 units, and "text" are the words of the first one. A reply that is being
            written has "written", all its text by field.

        Raises:
            SessionError, EngineError: see ``parts``.
        """
        branch = await self._branch(session_id, message_id)
        names = await self._names(branch)
        found: list[View] = []
        for part in branch.parts:
            low, high = max(first, part.first) - part.first, min(end, part.end) - part.first
            if low < high:
                view = {"message": part.message_id, "name": names[part.message_id], "tokens": high - low}
                found.append({**view, **await self._spelled(branch, part, low, high)})
        return found

    async def _spelled(self, branch: ReadBranch, part: BranchPart, low: int, high: int) -> View:
        message = branch.messages.get(part.message_id)
        if message is None:
            return {"spans": [], "text": await self._control_free(part.token_ids[low:high])}
        spelled = await self._core.engine.pieces(part.token_ids)
        spans = spans_of(message, spelled, low, high)
        texts = {"content": message.content, "reasoning": message.reasoning or ""}
        text = texts[spans[0].field][spans[0].start : spans[0].end] if spans else ""
        view: View = {"spans": [_view(one, texts[one.field]) for one in spans], "text": text}
        if spans and message.status == "streaming":
            view["written"] = texts
        return view

    async def _control_free(self, token_ids: list[int]) -> str:
        spelled = await self._core.engine.spell(token_ids)
        return "".join(text for text, control in spelled if not control)

    async def _names(self, branch: ReadBranch) -> dict[str, str]:
        ends = [one.message_id for one in branch.parts if one.message_id]
        if not ends:
            return {"": "system"}
        numbers = await self._core.read(self._core.store.question_numbers, ends[-1])
        names = {"": "system"}
        for part in branch.parts:
            message = branch.messages.get(part.message_id)
            kind = message.kind if message else None
            names[part.message_id] = part_name(part.role, numbers.get(part.message_id, 0), kind)
        return names

    async def _branch(self, session_id: str, message_id: str | None) -> ReadBranch:
        branch = await self._reader.branch(session_id, message_id)
        usual = self._core.engine.status.info.get("default_system_prompt")
        if usual and branch.parts and branch.parts[0].role == "user":
            first, *rest = branch.parts
            spelled = await self._core.engine.pieces(first.token_ids)
            branch.parts = [*split_beginning(first, branch.messages[first.message_id], spelled), *rest]
        return branch


def _units(text: str) -> int:
    """The length of a text as browsers count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _view(span: TextSpan, text: str) -> View:
    return {"field": span.field, "start": _units(text[: span.start]), "end": _units(text[: span.end])}
