"""What a message would send, and whether there is room for it."""

from __future__ import annotations

from typing import Any

from .checks import clean_text
from .prompt_room import check_room
from .prompts import prompt_messages, question_after
from .sampling import effective_params
from .sent_files import Sent, around
from .service_core import ServiceCore


class PromptService:
    """Looks at prompts; changes nothing."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

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
