"""The tokens of a branch as the engine's cache may hold them, and which message each of them is of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from .branch_parts import BranchPart, parts_of
from .branch_tree import BranchTree
from .errors import SessionError
from .prompts import prompt_messages, sent_from
from .reply_job import ReplyJob
from .rows import Message, PromptPath
from .service_core import ServiceCore
from .summaries import SUMMARY

KEPT = 120
"""Branches of trees that are remembered because only the prompt builder knows their tokens."""

_Sent = tuple[str, dict[str, Any]]
"""A message's id ("" for the system turn), and the message as the prompt builder takes it."""


@dataclass(slots=True)
class ReadBranch:
    """A branch with its tokens.

    Attributes:
        token_ids: up to the first message whose ids nobody knows.
        parts: whose they are, in order, as far as it is known.
        messages: the rows of those messages by id; none of a branch of a tree.
    """

    token_ids: list[int]
    parts: list[BranchPart]
    messages: dict[str, Message] = field(default_factory=dict)


class BranchReader:
    """Looks at branches; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core
        self._built: OrderedDict[tuple[Any, ...], ReadBranch] = OrderedDict()

    async def tokens(self, session_id: str, message_id: str | None = None) -> list[int]:
        """Token ids of a branch; see ``branch``."""
        end = await self._end(session_id, message_id)
        job = self._job(session_id, end)
        return _tokens(job) if job is not None else (await self._stored(session_id, end)).token_ids

    async def branch(self, session_id: str, message_id: str | None = None) -> ReadBranch:
        """The branch that ends with a message (None: the shown one).

        Raises:
            SessionError: there is no such chat or message.
            EngineError: a part of the branch is left out of its prompts, and the engine is not there to build them.
        """
        end = await self._end(session_id, message_id)
        job = self._job(session_id, end)
        return await self._running(job) if job is not None else await self._stored(session_id, end)

    async def of_tree(self, tree: BranchTree, end: str) -> ReadBranch:
        """The branch of a tree that ends with a message: what ``branch`` says, hardly ever with a look at the store.

        Raises:
            SessionError, EngineError: see ``branch``.
        """
        session = tree.session
        if self._job(session.id, end) is not None:
            return await self.branch(session.id, end)
        if tree.cut.isdisjoint(node.id for node in tree.path(end)):
            return _known(_messages_of(tree, end))
        key = (end, self._core.fingerprint(), session.system_prompt, len(tree.token_ids.get(end, ())))
        if key not in self._built:
            self._built[key] = replace(await self.branch(session.id, end), messages={})
            if len(self._built) > KEPT:
                self._built.popitem(last=False)
        return self._built[key]

    async def _end(self, session_id: str, message_id: str | None) -> str | None:
        return message_id or (await self._core.session(session_id)).head_id

    def _job(self, session_id: str, end: str | None) -> ReplyJob | None:
        """What writes the last message of a branch, once its prompt is known."""
        job = self._core.jobs.get(end or "")
        return job if job is not None and job.prompt_tokens and job.message.session_id == session_id else None

    async def _running(self, job: ReplyJob) -> ReadBranch:
        asked, reply = job.message.parent_id, job.seen()
        path = await self._core.prompt_path(asked) if asked is not None else None
        kept = reply.generation
        messages = _sent(path, kept.kept_from if kept else None) if path else []
        parts = parts_of(job.prompt_tokens, messages)
        parts.append(BranchPart(reply.id, "assistant", len(job.prompt_tokens), job.reply_tokens))
        above = path.messages if path else []
        return ReadBranch(_tokens(job), parts, {one.id: one for one in [*above, reply]})

    async def _stored(self, session_id: str, end: str | None) -> ReadBranch:
        """A branch that nobody writes to. Where its beginning was left out, only the prompt builder knows its ids."""
        if end is None:
            return ReadBranch([], [])
        path = await self._core.prompt_path(end)
        if path.session.id != session_id:
            raise SessionError("This message is not in this chat.")
        messages = _sent(path, None)
        is_cut = len(messages) < len(prompt_messages(path)[0])
        branch = await self._build(messages, path.session.prompt_date) if is_cut else _known(messages)
        return replace(branch, messages={one.id: one for one in path.messages})

    async def _build(self, messages: list[_Sent], begun_at: str) -> ReadBranch:
        turns = [message for _, message in messages]
        built = await self._core.engine.build_prompt(turns, turns[-1]["role"] != "assistant", begun_at)
        tokens = built.prompt_token_ids[: len(built.prompt_token_ids) - len(built.generation_ids)]
        if len(built.segments) == len(turns):
            pairs = zip(messages, built.segments, strict=True)
            messages = [(one, {**turn, "token_ids": list(segment)}) for (one, turn), segment in pairs]
        return ReadBranch(tokens, parts_of(tokens, messages))


def _tokens(job: ReplyJob) -> list[int]:
    return job.prompt_tokens + job.reply_tokens


def _known(messages: Iterable[_Sent]) -> ReadBranch:
    """What is known of a branch by the ids of its messages."""
    known = list(takewhile(lambda one: one[1]["token_ids"] is not None, messages))
    tokens = [token for _, message in known for token in message["token_ids"]]
    return ReadBranch(tokens, parts_of(tokens, known))


def _sent(path: PromptPath, kept_from: str | None) -> list[_Sent]:
    """The messages that the last prompt of a branch had.

    Args:
        kept_from: the first one of them; None looks at what the branch's last reply was given.
    """
    messages, ids = prompt_messages(path)
    known = {**path.token_ids, "": path.system_ids}
    for message_id, message in zip(ids, messages, strict=True):
        if known.get(message_id) == []:
            message["token_ids"] = []  # the template does not show it apart
    start = int(path.session.system_prompt is not None)
    cuts = [one["kept_from"] for one in messages if "kept_from" in one]
    cut = ids.index(kept_from) if kept_from in ids else cuts[-1] if cuts and kept_from is None else start
    if cut <= start:
        return list(zip(ids, messages, strict=True))
    return list(zip([*ids[:start], *ids[cut:]], sent_from(messages, start, cut), strict=True))


def _messages_of(tree: BranchTree, end: str) -> list[_Sent]:
    """The messages of a branch that prompts have, all of them: those behind its last summary."""
    session, path = tree.session, tree.path(end)
    sums = [place for place, node in enumerate(path) if node.kind == SUMMARY and node.status != "streaming"]
    shown = [node for node in path[sums[-1] + 1 if sums else 0 :] if node.role != "assistant" or not node.empty]
    found = [("", {"role": "system", "token_ids": tree.system_ids})] if session.system_prompt is not None else []
    return found + [(node.id, {"role": node.role, "token_ids": tree.token_ids.get(node.id)}) for node in shown]
