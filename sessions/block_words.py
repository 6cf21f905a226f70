"""What blocks hold of a chat: which messages lie in a branch's tokens, and which of their words in one block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from .branch_parts import BranchPart, TextSpan, part_name, parts_of, spans_of, split_beginning
from .errors import SessionError
from .prompts import prompt_messages, sent_from
from .rows import Message, PromptPath
from .service_core import ServiceCore
from .views import View

_Sent = tuple[str, dict[str, Any]]
"""A message's id ("" for the system turn), and the message as the prompt builder takes it."""


@dataclass(slots=True)
class _Branch:
    """A branch with its tokens.

    Attributes:
        messages: those that its tokens spell, by id.
    """

    session_id: str
    token_ids: list[int]
    parts: list[BranchPart]
    messages: dict[str, Message]


class BlockWords:
    """Looks at branches; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

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

    async def _spelled(self, branch: _Branch, part: BranchPart, low: int, high: int) -> View:
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

    async def _names(self, branch: _Branch) -> dict[str, str]:
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

    async def _branch(self, session_id: str, message_id: str | None) -> _Branch:
        branch = await self._whole(session_id, message_id)
        usual = self._core.engine.status.info.get("default_system_prompt")
        if usual and branch.parts and branch.parts[0].role == "user":
            first, *rest = branch.parts
            spelled = await self._core.engine.pieces(first.token_ids)
            branch.parts = [*split_beginning(first, branch.messages[first.message_id], spelled), *rest]
        return branch

    async def _whole(self, session_id: str, message_id: str | None) -> _Branch:
        core = self._core
        last_id = message_id or (await core.session(session_id)).head_id
        if last_id is None:
            return _Branch(session_id, [], [], {})
        job = core.jobs.get(last_id)
        running = job is not None and bool(job.prompt_tokens) and job.message.session_id == session_id
        if job is None or not running:
            path = await core.prompt_path(last_id)
            self._check(path, session_id)
            return await self._stored(path)
        asked = job.message.parent_id
        path = await core.prompt_path(asked) if asked is not None else None
        kept = job.seen().generation
        messages = _sent(path, kept.kept_from if kept else None) if path else []
        parts = parts_of(job.prompt_tokens, messages)
        parts.append(BranchPart(last_id, "assistant", len(job.prompt_tokens), job.reply_tokens))
        known = {one.id: one for one in path.messages} if path else {}
        return _Branch(session_id, [*job.prompt_tokens, *job.reply_tokens], parts, {**known, last_id: job.seen()})

    async def _stored(self, path: PromptPath) -> _Branch:
        """A branch that nobody writes to. Where its beginning was left out, only the prompt builder knows its ids."""
        messages = _sent(path, None)
        if len(messages) < len(prompt_messages(path)[0]):
            tokens, messages = await self._built(messages, path.session.prompt_date)
        else:
            tokens = [one for message in _known(messages) for one in message["token_ids"]]
        return _Branch(path.session.id, tokens, parts_of(tokens, messages), {one.id: one for one in path.messages})

    async def _built(self, messages: list[_Sent], begun_at: str) -> tuple[list[int], list[_Sent]]:
        """The ids of a prompt, and its messages with those that each has of them."""
        turns = [message for _, message in messages]
        built = await self._core.engine.build_prompt(turns, turns[-1]["role"] != "assistant", begun_at)
        tokens = built.prompt_token_ids[: len(built.prompt_token_ids) - len(built.generation_ids)]
        if len(built.segments) != len(turns):
            return tokens, messages
        pairs = zip(messages, built.segments, strict=True)
        return tokens, [(one, {**turn, "token_ids": list(segment)}) for (one, turn), segment in pairs]

    @staticmethod
    def _check(path: PromptPath, session_id: str) -> None:
        if path.session.id != session_id:
            raise SessionError("This message is not in this chat.")


def _sent(path: PromptPath, kept_from: str | None) -> list[_Sent]:
    """The messages that the last prompt of a branch had, with their ids.

    Args:
        kept_from: the first one of them; None looks at what the branch's last reply was given.
    """
    messages, ids = prompt_messages(path)
    for message_id, message in zip(ids, messages, strict=True):
        if path.token_ids.get(message_id) == []:
            message["token_ids"] = []  # the template does not show it apart
    start = int(path.session.system_prompt is not None)
    cuts = [one["kept_from"] for one in messages if "kept_from" in one]
    cut = ids.index(kept_from) if kept_from in ids else cuts[-1] if cuts and kept_from is None else start
    if cut <= start:
        return list(zip(ids, messages, strict=True))
    return list(zip([*ids[:start], *ids[cut:]], sent_from(messages, start, cut), strict=True))


def _known(messages: Sequence[_Sent]) -> Iterator[dict[str, Any]]:
    """The messages up to the first whose ids nobody knows."""
    return takewhile(lambda message: message["token_ids"] is not None, (message for _, message in messages))


def _units(text: str) -> int:
    """The length of a text as browsers count it."""
    return len(text) + sum(character > "\uffff" for character in text)


def _view(span: TextSpan, text: str) -> View:
    return {"field": span.field, "start": _units(text[: span.start]), "end": _units(text[: span.end])}
