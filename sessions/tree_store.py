"""What the store does with messages: branches read whole, and every way in which a tree grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import drafts, forks, queued, quoted_before, reply_rows, reply_starts, tree, turns
from .attachments import attach, copy_files, put_sent
from .connection import Connection
from .drafts import Draft
from .errors import SessionError
from .forks import ForkMode
from .generated import GeneratedReply, read_generated
from .passages_above import passages_above
from .recipe import Recipe, read_recipe
from .rows import Generation, Message, PromptPath, ReplyTokens, Session, Status
from .sent_files import Sent
from .stored_facts import StoredFacts, read_facts


class TreeStore:
    """The message trees of one database.

    Args:
        writer, reader: the two connections to it.
    """

    def __init__(self, writer: Connection, reader: Connection) -> None:
        self._writer = writer
        self._reader = reader

    # -- reading ---------------------------------------------------------------------------------------------------

    def message(self, message_id: str) -> Message:
        """One message, hidden ones too.

        Raises:
            SessionError: there is none.
        """
        with self._reader.reading() as connection:
            return turns.message(connection, message_id)

    def shown_branch(
        self, session_id: str, begin: Callable[[list[str]], int] = lambda ids: 0
    ) -> tuple[Session, list[Message], int]:
        """A session, its messages down to the head, and how many of the first ones are left out.

        A reply never comes without what it answers, which keeps the passages that the reply names: where one would be
        the first, one message less is left out.

        Args:
            begin: is given the ids of the branch and says how many to leave out. Their texts are not read, so that a
                long chat costs little more than what is shown of it.

        Raises:
            SessionError: there is no such session.
        """
        with self._reader.reading() as connection:
            found = turns.session(connection, session_id)
            ids = tree.path_ids(connection, found.head_id) if found.head_id else []
            earlier = begin(ids)
            shown = tree.part(connection, ids[earlier:])
            if earlier and shown and shown[0].role == "assistant":
                earlier -= 1
                shown = tree.part(connection, ids[earlier : earlier + 1]) + shown
            return found, shown, earlier

    def passages_above(self, session_id: str, message_id: str) -> list[dict[str, Any]]:
        """What the questions down to a message quote. See ``passages_above.passages_above``."""
        with self._reader.reading() as connection:
            return passages_above(connection, session_id, message_id)

    def paths(self, *message_ids: str) -> list[list[Message]]:
        """The branches that end at these messages, from the root down.

        Raises:
            SessionError: there is no such message.
        """
        with self._reader.reading() as connection:
            return [tree.path(connection, turns.message(connection, one).id) for one in message_ids]

    def leaf(self, message_id: str) -> str:
        """Id of the message that ends the branch through this one: the leaf below it that was shown last.

        Raises:
            SessionError: there is no such message.
        """
        with self._reader.reading() as connection:
            found = turns.message(connection, message_id)
            return tree.last_leaf(connection, found) if tree.is_visible(connection, message_id) else message_id

    def prompt_path(self, message_id: str, fingerprint: str, room: int | None = None) -> PromptPath:
        """The branch that ends at ``message_id``, with the ids its messages had. See ``tree.prompt_path``."""
        with self._reader.reading() as connection:
            last = turns.message(connection, message_id)
            session = turns.session(connection, last.session_id)
            return tree.prompt_path(connection, session, message_id, fingerprint, room)

    def question_numbers(self, message_id: str) -> dict[str, int]:
        """Of the branch that ends at a message: which question each message is, or belongs to, from 1."""
        with self._reader.reading() as connection:
            return tree.question_numbers(connection, message_id)

    def facts(self, message_id: str, fingerprint: str) -> StoredFacts:
        """All that is stored about a message. See ``stored_facts.read_facts``."""
        with self._reader.reading() as connection:
            return read_facts(connection, message_id, fingerprint)

    def generated(self, message_id: str, fingerprint: str) -> GeneratedReply:
        """The tokens of a reply. See ``generated.read_generated``."""
        with self._reader.reading() as connection:
            return read_generated(connection, message_id, fingerprint)

    def recipe(self, message_id: str, run: int | None = None) -> Recipe:
        """What a run of a reply takes to be made again. See ``recipe.read_recipe``."""
        with self._reader.reading() as connection:
            return read_recipe(connection, message_id, run)

    def question_path(
        self, session_id: str, parent_id: str | None, fingerprint: str, room: int | None = None
    ) -> PromptPath:
        """The branch that a question sent under ``parent_id`` would follow. See ``turns.add_question``.

        Raises:
            SessionError: there is no such session, or the parent cannot have a question under it.
        """
        with self._reader.reading() as connection:
            found = turns.session(connection, session_id)
            place = turns.question_place(connection, session_id, parent_id) if parent_id is not None else None
            return tree.prompt_path(connection, found, place, fingerprint, room)

    def sources_above(self, session_id: str, parent_id: str) -> list[str]:
        """What the questions above a new one sent of files. See ``quoted_before.sources_above``."""
        with self._reader.reading() as connection:
            return quoted_before.sources_above(connection, session_id, parent_id)

    # -- writing ---------------------------------------------------------------------------------------------------

    def add_question(self, session_id: str, parent_id: str | None, text: str) -> tuple[Session, Message, Message]:
        """A user message and the row of its reply: (session, question, reply). See ``turns.add_question``."""
        return self.send_draft(session_id, session_id, parent_id, text)[:3]

    def send_draft(
        self,
        draft: str,
        session_id: str,
        parent_id: str | None,
        text: str,
        attachment_ids: Sequence[str] = (),
        queued_id: str | None = None,
        sent: Sent | None = None,
        waited_for: str | None = None,
    ) -> tuple[Session, Message, Message, Draft | None]:
        """As ``add_question``, and the draft that this takes away, emptied; None if there was none.

        Args:
            draft: the chat whose draft this was; "" for the chat that had not begun.
            attachment_ids: files that go with the message.
            queued_id: the waiting message that this was, in place of a draft. What waited behind it waits for the new
                reply, and a branch beside its place that is shown stays shown.
            sent: what the prompt has of the files.
            waited_for: the reply that the waiting message was for; see ``queued.take``.
        """
        with self._writer.transaction(durable=True) as connection:
            head_id = queued.other_branch(connection, session_id, parent_id) if queued_id else None
            reply_id = turns.add_question(connection, session_id, parent_id, text)
            if queued_id is None:
                emptied = drafts.sent(connection, draft)
            else:
                emptied = None
                queued.follow(connection, queued.take(connection, session_id, queued_id, waited_for).after_id, reply_id)
            if head_id is not None:
                turns.move_head(connection, session_id, head_id)
            reply = turns.message(connection, reply_id)
            assert reply.parent_id is not None
            attach(connection, session_id, reply.parent_id, attachment_ids)
            put_sent(connection, reply.parent_id, sent)
            return turns.session(connection, session_id), turns.message(connection, reply.parent_id), reply, emptied

    def add_reply(self, message_id: str) -> tuple[Session, Message]:
        """The row of another reply. See ``turns.add_replies``."""
        session, replies = self.add_replies(message_id)
        return session, replies[0]

    def add_replies(self, message_id: str, count: int = 1) -> tuple[Session, list[Message]]:
        """The rows of several replies to one question. See ``turns.add_replies``."""
        with self._writer.transaction(durable=True) as connection:
            replies = [turns.message(connection, one) for one in turns.add_replies(connection, message_id, count)]
            return turns.session(connection, replies[0].session_id), replies

    def add_branch(self, message_id: str, content: str) -> tuple[Session, Message]:
        """The row of a reply that branches off another one within its text. See ``reply_starts.add_branch``."""
        return self._add(lambda connection, one: reply_starts.add_branch(connection, one, content), message_id)

    def add_summary(self, session_id: str, message_id: str | None) -> tuple[Session, Message]:
        """The row of a summary to come. See ``reply_starts.add_summary``."""
        with self._writer.transaction(durable=True) as connection:
            made = turns.message(connection, reply_starts.add_summary(connection, session_id, message_id))
            return turns.session(connection, session_id), made

    def resume_reply(self, message_id: str) -> tuple[Session, Message]:
        """Open a reply that was cut off. See ``turns.resume_reply``."""
        return self._add(turns.resume_reply, message_id)

    def add_edit(
        self, message_id: str, text: str, sent: Sent | None = None
    ) -> tuple[Session, Message, Message | None, Draft | None]:
        """A sibling with another text: (session, sibling, reply to come or None, draft that this takes away or None).

        It has the same files. See ``turns.add_edit``.

        Args:
            sent: what the prompt has of the files.
        """
        with self._writer.transaction(durable=True) as connection:
            edited_id, reply_id = turns.add_edit(connection, message_id, text)
            copy_files(connection, message_id, edited_id)
            put_sent(connection, edited_id, sent)
            edited = turns.message(connection, edited_id)
            emptied = drafts.sent(connection, edited.session_id, message_id)
            reply = turns.message(connection, reply_id) if reply_id else None
            return turns.session(connection, edited.session_id), edited, reply, emptied

    def select(self, message_id: str, session_id: str | None = None) -> tuple[str, str]:
        """Show the branch through a message, down to its last-used leaf: (session id, head id).

        Raises:
            SessionError: there is no such message (in ``session_id``, if that is named), or it is hidden.
        """
        with self._writer.transaction(durable=True) as connection:
            target = turns.kept_message(connection, message_id)
            if session_id not in (None, target.session_id):
                raise SessionError("This message is not in this chat.")
            if target.hidden:
                raise SessionError("This reply ended without any text, so there is nothing to show.")
            leaf = tree.last_leaf(connection, target)
            turns.move_head(connection, target.session_id, leaf)
            return target.session_id, leaf

    def fork(self, message_id: str, mode: ForkMode) -> Session:
        """A new chat with copies of messages. See ``forks.fork``."""
        with self._writer.transaction(durable=True) as connection:
            return turns.session(connection, forks.fork(connection, message_id, mode))

    def save_partial(
        self,
        reply_id: str,
        content: str,
        generation: Generation | None = None,
        tokens: ReplyTokens | None = None,
        reasoning: str | None = None,
    ) -> None:
        """What a running reply has so far; survives a killed process."""
        with self._writer.transaction(durable=False) as connection:
            reply_rows.write_reply(connection, reply_id, content, generation, tokens, reasoning)

    def finish_reply(
        self,
        reply_id: str,
        content: str,
        status: Status,
        error: str | None = None,
        generation: Generation | None = None,
        tokens: ReplyTokens | None = None,
        reasoning: str | None = None,
    ) -> tuple[Message, str | None]:
        """Store a reply's end: (reply, the session's new head if it moved back because there is no text)."""
        with self._writer.transaction(durable=True) as connection:
            reply_rows.write_reply(connection, reply_id, content, generation, tokens, reasoning)
            head_id = turns.end_reply(connection, reply_id, status, error)
            reply = tree.message(connection, reply_id)
            assert reply is not None
            return reply, head_id

    def interrupt_running(self) -> int:
        """Mark replies that an earlier process left running as interrupted; returns how many there were."""
        with self._reader.reading() as connection:
            if connection.execute("SELECT 1 FROM messages WHERE status = 'streaming'").fetchone() is None:
                return 0
        with self._writer.transaction(durable=True) as connection:
            return turns.interrupt_running(connection)

    def _add(self, write: Callable[..., str], message_id: str) -> tuple[Session, Message]:
        with self._writer.transaction(durable=True) as connection:
            reply = turns.message(connection, write(connection, message_id))
            return turns.session(connection, reply.session_id), reply
