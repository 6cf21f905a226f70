"""What is known about one message: every run that made it, and the exact text and tokens it is sent as."""

from __future__ import annotations

from .prompts import prompt_messages
from .rows import Message
from .service_core import ServiceCore
from .stored_facts import StoredFacts
from .views import View, message_view, run_view


class MessageFacts:
    """Looks at messages; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def details(self, message_id: str) -> View:
        """{"message", "runs", "tokens", "loaded"}: a message, every run of a model for it, and its tokens in a prompt.

        A run has all columns of ``generations``, its ``params`` as they acted, ``own`` those chosen for it alone,
        ``engine`` what computed it, and ``tokens_per_second``. ``tokens`` is None where the loaded model has not been
        sent the message; ``loaded`` is the fingerprint of that model.

        Raises:
            SessionError: there is no such message.
        """
        facts = await self._facts(message_id)
        view = message_view(facts.message)
        return {
            "message": {name: view[name] for name in ("id", "role", "status", "created_at", "siblings", "copied_from")},
            "runs": [run_view(run) for run in facts.runs],
            "tokens": None if facts.token_ids is None else len(facts.token_ids),
            "loaded": self._core.fingerprint(),
        }

    async def raw(self, message_id: str) -> View:
        """{"content", "reasoning", "pieces", "tokens", "sent"}: a message as it is stored and as a prompt has it.

        ``pieces`` are [text, whether it is a control token] of its ids, ``tokens`` counts those; both are None while
        no model is loaded. ``sent`` says whether these ids were sent or generated, not only worked out now.

        Raises:
            SessionError: there is no such message.
        """
        facts = await self._facts(message_id)
        job = self._core.jobs.get(message_id)
        message = facts.message if job is None else job.overlay(facts.message)
        told: View = {"content": message.content, "reasoning": message.reasoning, "pieces": None, "tokens": None}
        if self._core.engine.status.state != "ready":
            return {**told, "sent": False}
        ids = facts.token_ids if job is None else job.reply_tokens
        sent = bool(ids)
        if not ids:
            ids = await self._worked_out(message)
        pieces = await self._core.engine.spell(ids) if ids else []
        return {**told, "pieces": [list(one) for one in pieces], "tokens": len(ids), "sent": sent}

    async def _facts(self, message_id: str) -> StoredFacts:
        return await self._core.read(self._core.store.facts, message_id, self._core.fingerprint())

    async def _worked_out(self, message: Message) -> list[int]:
        """The ids that a message would be sent as, at the end of its branch."""
        path = await self._core.prompt_path(message.id)
        messages, message_ids = prompt_messages(path)
        if not message_ids or message_ids[-1] != message.id:
            return []  # an empty reply is in no prompt
        is_reply = message.role == "assistant"
        built = await self._core.engine.build_prompt(messages, not is_reply, path.session.prompt_date)
        return built.segments[-1] if built.segments else []
