"""Replies: the messages that ask for one, and what reply jobs need to run.

The host of ``ReplyJob``: jobs are keyed by message id in ``ServiceCore.jobs``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .checks import clean_params, clean_text
from .document_service import DocumentService
from .drafts import UNBEGUN
from .errors import SessionError
from .given import Given
from .job_host import TextPart
from .prompt_service import PromptService
from .prompts import check_continuable
from .queued import Queued
from .reply_job import ReplyJob
from .rows import Generation, Message, PromptPath, ReplyTokens, Session, Status, json_object
from .sampling import effective_params, sibling_seeds
from .service_core import ServiceCore
from .title_job import TitleJobs
from .views import View

MOST_AT_ONCE = 8
"""Replies that one question gets in one go."""


class ReplyService:
    """Asks and answers.

    Args:
        begin: makes a new chat, for a message that names none.
    """

    def __init__(
        self,
        core: ServiceCore,
        prompts: PromptService,
        titles: TitleJobs,
        documents: DocumentService,
        begin: Callable[[], Awaitable[View]],
    ) -> None:
        self.core = core
        self._documents = documents
        self._prompts = prompts
        self._titles = titles
        self._begin = begin

    @property
    def engine(self) -> Any:
        """The engine client."""
        return self.core.engine

    # -- messages ---------------------------------------------------------------------------------------------------

    async def send(
        self, session_id: str | None, parent_id: str | None, text: str, attachment_ids: Sequence[str] = ()
    ) -> View:
        """{"user", "reply"}: a message under ``parent_id`` (None: a first one) and the reply that begins.

        Without a session a new one begins. A message that has no room in the context is refused before anything is
        stored. While the engine is not ready nobody can tell: such a message is stored, and if it turns out to be too
        long its reply has the status "error" and says so.

        Raises:
            RequestError: the prompt is too long; both numbers are in the sentence.
            SessionError: there is no such parent here, or it is still being written.
        """
        text = clean_text(text, needed=True)
        return await self.core.whole(self._send(session_id, parent_id, text, attachment_ids))

    async def send_queued(self, one: Queued, parent_id: str) -> View:
        """As ``send``, of a message that waited. In the same step it stops to wait.

        Raises:
            SessionError: it does not wait any more, or for another reply than ``one.after_id``.
        """
        return await self.core.whole(self._send(one.session_id, parent_id, one.text, one.files, one))

    async def regenerate(self, message_id: str, n: int = 1, params: dict[str, Any] | None = None) -> View:
        """Another reply, or ``n`` of them at once: beside a reply, or under a question. The first one is shown.

        They share the blocks of their prompt, which is computed once. Each gets a seed of its own; where the seed is
        fixed, the first gets it and the others get what follows from it (see ``sibling_seeds``).

        Args:
            params: sampling for these replies alone, over the chat's; None for a name is the model's own.

        Returns:
            The first one's view; the others are the last of its ``siblings``.

        Raises:
            SessionError: there is no question to answer, ``n`` is not from 1 to 8, or a parameter has no such name.
            RequestError: a parameter has no meaning.
        """
        return await self.core.whole(self._regenerate(message_id, n, params or {}))

    async def continue_reply(self, message_id: str) -> View:
        """Write a reply further that was stopped, cut off or met its limit, or that a person edited.

        What was chosen for this reply alone acts again.
        """
        return await self.core.whole(self._continue(message_id))

    async def edit(self, message_id: str, text: str) -> View:
        """{"message", "user", "reply"}: a sibling with another text, and for a question the reply that begins.

        A message of any other role is done with its new text; ``continue_reply`` writes an edited reply further.

        A question that has no room is refused as in ``send``.
        """
        text = clean_text(text, needed=True)
        return await self.core.whole(self._edit(message_id, text))

    # -- what reply jobs ask for ------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """See ``ServiceCore.fingerprint``."""
        return self.core.fingerprint()

    async def prompt_path(self, message_id: str) -> PromptPath:
        """See ``SessionStore.prompt_path``."""
        return await self.core.prompt_path(message_id)

    async def save_partial(
        self,
        reply_id: str,
        content: str,
        generation: Generation | None,
        tokens: ReplyTokens | None,
        reasoning: str | None,
    ) -> None:
        """See ``SessionStore.save_partial``."""
        await self.core.write(self.core.store.save_partial, reply_id, content, generation, tokens, reasoning)

    async def finish_reply(
        self,
        reply_id: str,
        content: str,
        status: Status,
        error: str | None,
        generation: Generation | None,
        tokens: ReplyTokens | None,
        reasoning: str | None,
    ) -> tuple[Message, str | None]:
        """See ``SessionStore.finish_reply``."""
        return await self.core.write(
            self.core.store.finish_reply, reply_id, content, status, error, generation, tokens, reasoning
        )

    def delta(self, job: ReplyJob, part: TextPart, text: str, offset: int) -> None:
        """Pass on new text of a reply."""
        message = job.message
        self.core.tell(
            {
                "type": "delta" if part == "content" else "reasoning",
                "session_id": message.session_id,
                "message_id": message.id,
                "text": text,
                "offset": offset,
                "tokens": job.num_generated,
            }
        )

    def changed(self, job: ReplyJob) -> None:
        """Pass on what else changed about a running reply."""
        self.core.tell_message(job.seen())

    def finished(self, job: ReplyJob, head_id: str | None) -> None:
        """Let go of a reply that has ended."""
        self.core.jobs.pop(job.message.id, None)
        self._titles.after(job.message)
        self.core.tell_message(job.seen())
        if head_id is not None:
            self.core.tell_head(job.message.session_id, head_id)
        self.core.background(self.core.retell_session(job.message.session_id))

    def salt(self, session_id: str) -> str:
        """See ``ServiceCore.salt``."""
        return self.core.salt(session_id)

    # -- inside -----------------------------------------------------------------------------------------------------

    async def _send(
        self,
        session_id: str | None,
        parent_id: str | None,
        text: str,
        attachment_ids: Sequence[str],
        waited: Queued | None = None,
    ) -> View:
        above = self.core.jobs.get(parent_id or "")
        if above is not None and above.generated.is_set() and above.trouble is not None:
            raise SessionError(f"Nothing can follow the reply above before it is stored. {above.trouble}")
        files = await self._documents.plan(session_id, text, attachment_ids, parent_id)
        await self._prompts.check_room(session_id, parent_id, text, files)
        place = session_id or UNBEGUN
        if session_id is None:
            session_id = (await self._begin())["id"]
        queued_id, waited_for = (waited.id, waited.after_id) if waited else (None, None)
        message = (session_id, parent_id, text, attachment_ids, queued_id, files, waited_for)
        session, user, reply, draft = await self.core.write(self.core.store.send_draft, place, *message)
        self.core.tell_draft(draft)
        if attachment_ids:
            self.core.tell({"type": "attachments", "session_id": session_id})
        user_view = self.core.tell_message(user)
        return {"user": user_view, "reply": self.start(session, reply)}

    async def _regenerate(self, message_id: str, n: int, own: dict[str, Any]) -> View:
        if not 1 <= n <= MOST_AT_ONCE:
            raise SessionError(f"From 1 to {MOST_AT_ONCE} replies can be written at once, not {n}.")
        target = await self.core.read(self.core.store.message, message_id)
        chosen = (await self.core.session(target.session_id)).params
        usual = self.engine.status.info.get("sampling_defaults") or {}
        seed = effective_params(clean_params(chosen, own), usual).get("seed")
        own = {name: value for name, value in own.items() if value != chosen.get(name)}
        session, replies = await self.core.write(self.core.store.add_replies, message_id, n)
        seeds = sibling_seeds(seed, n) if seed is not None else [None] * n
        first, *others = [
            (reply, own if one in (None, seed) else {**own, "seed": one})
            for reply, one in zip(replies, seeds, strict=True)
        ]
        view = self.start(session, *first)
        for reply, its_own in others:
            self._run(reply, its_own)
        return view

    async def _continue(self, message_id: str) -> View:
        if self.engine.status.state == "ready":
            path, reply = await self.prompt_path(message_id), await self.core.read(self.core.store.message, message_id)
            if not reply.empty:
                check_continuable(path, reply, self.fingerprint())
        session, reply = await self.core.write(self.core.store.resume_reply, message_id)
        return self.start(session, reply, json_object(reply.generation.own) if reply.generation else None)

    async def _edit(self, message_id: str, text: str) -> View:
        old = await self.core.read(self.core.store.message, message_id)
        files = None
        if old.role == "user" and old.deleted_at is None:
            files = await self._documents.edited(old, text)
            await self._prompts.check_room(old.session_id, old.parent_id, text, files)
        session, edited, reply, draft = await self.core.write(self.core.store.add_edit, message_id, text, files)
        self.core.tell_draft(draft)
        view = self.core.tell_message(edited)
        if reply is not None:
            return {"message": view, "user": view, "reply": self.start(session, reply)}
        self.core.tell_head(session.id, edited.id)
        self.core.tell_session(session)
        return {"message": view, "user": None, "reply": None}

    def start(
        self, session: Session, reply: Message, own: dict[str, Any] | None = None, given: Given | None = None
    ) -> View:
        """Begin a reply whose row is there; its view. It is shown, unless its question waited in another branch.

        Args:
            own, given: see ``build_prompt``.
        """
        self._titles.cancel(session.id)
        view = self._run(reply, own, given)
        self.core.tell_head(session.id, session.head_id)  # another branch may be shown
        self.core.tell_session(session)
        return view

    def _run(self, reply: Message, own: dict[str, Any] | None = None, given: Given | None = None) -> View:
        """Begin a reply.

        Args:
            own, given: see ``build_prompt``.
        """
        job = self.core.jobs[reply.id] = ReplyJob(self, reply, own, given)
        view = self.core.tell_message(reply)
        job.start()
        return view
