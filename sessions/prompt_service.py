"""What the prompts of chats are: the ids that the cache may hold of a branch, and what a message would send."""

from __future__ import annotations

from typing import Any

from .checks import clean_text
from .prompt_room import check_room
from .prompts import prompt_messages, question_after, sent_messages
from .sampling import effective_params
from .sent_files import Sent, around
from .service_core import ServiceCore


class PromptService:
    """Looks at prompts; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def branch_tokens(self, session_id: str, message_id: str | None) -> list[int]:
        """Token ids of a branch (the shown one when ``message_id`` is None) as the engine's cache may hold them."""
        core = self._core
        last_id = message_id or (await core.session(session_id)).head_id
        job = core.jobs.get(last_id or "")
        if job is not None and job.prompt_tokens and job.message.session_id == session_id:
            return job.prompt_tokens + job.reply_tokens
        if last_id is not None and core.engine.status.state == "ready":
            path = await core.prompt_path(last_id)
            sent = sent_messages(path)
            if sent is not None:
                return await self._built(sent, path.session.prompt_date)
        return await core.read(core.store.branch_tokens, session_id, last_id, core.fingerprint())

    async def question(
        self, session_id: str | None, parent_id: str | None, text: str, sent: Sent | None = None
    ) -> dict[str, Any]:
        """The prompt of a message that is not sent yet, as arguments of ``EngineClient.probe``.

        Args:
            sent: what it has of files.
        """
        core, text = self._core, clean_text(text)
        messages, own, begun_at = [], {}, None
        text = around(text, sent.before, sent.after) if sent else text
        asked: dict[str, Any] = {"role": "user", "content": text, "token_ids": None}
        if session_id is not None:
            path = await core.read(core.store.question_path, session_id, parent_id, core.fingerprint(), core.room())
            messages, own, begun_at = prompt_messages(path)[0], path.session.params, path.session.prompt_date
            asked = question_after(path, text)
        params = effective_params(own, core.engine.status.info.get("sampling_defaults") or {})
        messages = [*messages, asked]
        more = {"begun_at": begun_at, "trim": True, "max_tokens": params["max_tokens"]}
        return {"messages": messages, "salt": core.salt(session_id or ""), **more}

    async def check_room(
        self, session_id: str | None, parent_id: str | None, text: str, sent: Sent | None = None
    ) -> None:
        """Refuse a message that has no room; see ``prompt_room``."""
        if self._core.engine.status.state == "ready":
            question = await self.question(session_id, parent_id, text, sent)
            await check_room(self._core.engine, question["messages"], question["max_tokens"])

    async def check_system_prompt(self, text: str | None) -> None:
        """Say at once that a system prompt leaves no room for any message."""
        if text and self._core.engine.status.state == "ready":
            messages = [{"role": "system", "content": text}, {"role": "user", "content": ""}]
            await check_room(self._core.engine, messages)

    async def _built(self, messages: list[dict[str, Any]], begun_at: str) -> list[int]:
        """Token ids of a part of a branch; where its beginning was left out, only the prompt builder can tell them."""
        ends_in_reply = messages[-1]["role"] == "assistant"
        built = await self._core.engine.build_prompt(messages, not ends_in_reply, begun_at)
        return built.prompt_token_ids[: len(built.prompt_token_ids) - len(built.generation_ids)]
