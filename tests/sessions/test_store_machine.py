"""Random work on a store, compared after every step with a model in plain Python.

Whatever is done in whatever order: every message ever sent can be shown, or is in the trash, or is a reply that ended
without text; nothing else changes; and the file tells the same after it was closed and opened.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.forks import ForkMode
from pagedchat.sessions.rows import Generation
from pagedchat.sessions.store import SessionStore
from support.tree_model import Chat, Node, Refused, TreeModel

PLACE = st.integers(0, 1 << 16)
TEXT = st.sampled_from(["a", "ab", "weiß nicht", "\U0001f600 <b>", "\x00\u202e"])
END = st.sampled_from([("done", "stop"), ("done", "length"), ("stopped", "abort"), ("error", "error")])


class StoreMachine(RuleBasedStateMachine):
    """Everything that a store can be asked about messages, chats and folders, but for ``purge``."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.db"
        self.store = SessionStore(self.path)
        self.model = TreeModel()
        self.most = 0
        self.begin()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            with self.store._reader.reading() as connection:
                assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
                assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            self.store.close()
            self.folder.cleanup()

    # -- choosing ---------------------------------------------------------------------------------------------------

    def chat(self, place: int) -> Chat:
        chats = list(self.model.chats.values())
        return chats[place % len(chats)]

    def node(self, place: int) -> Node | None:
        """Any message that a page may know of: one in view, or one in the trash."""
        nodes = [one for one in self.model.nodes if not one.hidden]
        return nodes[-1 - place % len(nodes)] if nodes else None

    def refused(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except SessionError as error:
            assert str(error)[0].isupper() and str(error)[-1] == "."
        else:
            raise AssertionError("the store did what it should refuse")

    def closed(self, node: Node) -> bool:
        try:
            self.model.check_kept(node)
        except Refused:
            return True
        return False

    # -- messages ---------------------------------------------------------------------------------------------------

    @rule(place=PLACE, text=TEXT, first=st.booleans())
    def send(self, place: int, text: str, first: bool) -> None:
        parent = None if first else self.node(place)
        chat = self.model.chats[parent.chat] if parent else self.chat(place)
        arguments = (chat.id, parent.id if parent else None, text)
        try:
            self.model.check_open(chat)
            _ = parent and self.model.place_of_question(parent)
        except Refused:
            return self.refused(self.store.add_question, *arguments)
        _, question, reply = self.store.add_question(*arguments)
        self.model.ask(chat, parent, text, question.id, reply.id)
        chat.draft = ""

    @rule(place=PLACE, text=TEXT)
    def send_below_the_head(self, place: int, text: str) -> None:
        """What pages mostly do."""
        chat = self.chat(place)
        if chat.head is None or chat.deleted or chat.head.status == "streaming":
            return
        head = chat.head
        _, question, reply = self.store.add_question(chat.id, head.id, text)
        self.model.ask(chat, head, text, question.id, reply.id)
        chat.draft = ""
        self.finish_one(self.model.node(reply.id), "an answer", ("done", "stop"))

    @rule(place=PLACE)
    def regenerate(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target):
            return self.refused(self.store.add_reply, target.id)
        _, reply = self.store.add_reply(target.id)
        self.model.regenerate(target, reply.id)

    @rule(place=PLACE, text=TEXT)
    def edit(self, place: int, text: str) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or target.status == "streaming":
            return self.refused(self.store.add_edit, target.id, text)
        _, edited, reply, _ = self.store.add_edit(target.id, text)
        self.model.edit(target, text, edited.id, reply.id if reply else None)

    @rule(place=PLACE)
    def proceed(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or not self.model.can_proceed(target):
            return self.refused(self.store.resume_reply, target.id)
        _, reply = self.store.resume_reply(target.id)
        self.model.proceed(target, reply.id)

    @rule(place=PLACE, text=TEXT)
    def write_on(self, place: int, text: str) -> None:
        reply = self.running(place)
        if reply is not None:
            reply.text += text
            self.store.save_partial(reply.id, reply.text)

    @rule(place=PLACE, text=st.one_of(st.just(""), TEXT), end=END)
    def finish(self, place: int, text: str, end: tuple[str, str]) -> None:
        reply = self.running(place)
        if reply is not None:
            self.finish_one(reply, text, end)

    def running(self, place: int) -> Node | None:
        running = [one for one in self.model.nodes if one.status == "streaming"]
        return running[place % len(running)] if running else None

    def finish_one(self, reply: Node, text: str, end: tuple[str, str]) -> None:
        status, reason = end
        error = "It failed." if status == "error" else None
        before = self.store.message(reply.id).generation if not self.model.chats[reply.chat].deleted else None
        run = Generation(reply.id, before.run + 1 if before else 1, finish_reason=reason, started_at="x")
        self.store.finish_reply(reply.id, reply.text + text, status, error, run)  # type: ignore[arg-type]
        self.model.end(reply, reply.text + text, status, reason)

    @rule(place=PLACE)
    def select(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target):
            return self.refused(self.store.select, target.id)
        self.store.select(target.id)
        self.model.show(self.model.chats[target.chat], target.last_leaf)

    # -- trash ------------------------------------------------------------------------------------------------------

    @rule(place=PLACE)
    def delete_branch(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or any(one.status == "streaming" for one in target.all):
            return self.refused(self.store.trash.delete_branch, target.id)
        assert self.store.trash.delete_branch(target.id).messages == self.model.delete_branch(target)

    @rule(place=PLACE)
    def restore_branch(self, place: int) -> None:
        roots = [one for one in self.model.nodes if one.deleted_with == one.id]
        if not roots:
            return
        root = roots[place % len(roots)]
        if self.model.chats[root.chat].deleted or (root.above and not root.above.visible):
            return self.refused(self.store.trash.restore_branch, root.id)
        self.store.trash.restore_branch(root.id)
        self.model.restore_branch(root)

    @rule(place=PLACE)
    def delete_or_undelete_chat(self, place: int) -> None:
        chat = self.chat(place)
        chat.deleted = not chat.deleted
        self.store.change_session(chat.id, deleted_at="2026-01-01" if chat.deleted else None)

    # -- whole chats ------------------------------------------------------------------------------------------------

    @rule()
    def begin(self) -> None:
        session = self.store.create_session(None, {}, None)
        self.model.chats[session.id] = Chat(session.id)

    @rule(place=PLACE, mode=st.sampled_from(get_args(ForkMode)))
    def fork(self, place: int, mode: ForkMode) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target):
            return self.refused(self.store.fork, target.id, mode)
        new = self.store.fork(target.id, mode)
        assert new.forked_from == target.id
        with self.store._reader.reading() as connection:
            query = "SELECT copied_from, id FROM messages WHERE session_id = ?"
            copies = dict(connection.execute(query, [new.id]).fetchall())
        assert set(copies) == {one.id for one in self.model.to_fork(target, mode)}
        self.model.fork(target, mode, new.id, copies)

    @rule(place=PLACE, pinned=st.booleans(), archived=st.booleans())
    def pin_and_archive(self, place: int, pinned: bool, archived: bool) -> None:
        chat = self.chat(place)
        version = self.store.change_session(chat.id, pinned=pinned, archived=archived).version
        self.refused(lambda: self.store.change_session(chat.id, version - 1, pinned=not pinned))
        chat.pinned, chat.archived = pinned, archived

    @rule(place=PLACE)
    def folders(self, place: int) -> None:
        chat, names = self.chat(place), [*self.model.folders, None]
        match place % 4:
            case 0:
                self.model.folders[self.store.library.add_folder(f"folder {len(names)}")] = True
            case 1 if len(names) > 1:
                folder = list(self.model.folders)[place % (len(names) - 1)]
                here = self.model.folders[folder] = not self.model.folders[folder]
                (self.store.library.undelete_folder if here else self.store.library.delete_folder)(folder)
            case _:
                folder = names[place % len(names)]
                if folder is not None and not self.model.folders[folder]:
                    return self.refused(lambda: self.store.change_session(chat.id, folder_id=folder))
                self.store.change_session(chat.id, folder_id=folder)
                chat.folder = folder

    @rule(place=PLACE, text=st.one_of(st.just(""), TEXT))
    def draft(self, place: int, text: str) -> None:
        chat = self.chat(place)
        if chat.deleted:
            return self.refused(self.store.drafts.save, chat.id, text, None, None, None)
        version = self.store.drafts.draft(chat.id).version
        self.refused(self.store.drafts.save, chat.id, "stale", None, None, version + 1)
        self.store.drafts.save(chat.id, text, None, None, version)
        chat.draft = text

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SessionStore(self.path)
        running = sorted((one for one in self.model.nodes if one.status == "streaming"), key=lambda one: one.id)
        assert self.store.interrupt_running() == len(running)
        for reply in running:
            self.model.end(reply, reply.text, "interrupted", None)

    # -- what always holds ------------------------------------------------------------------------------------------

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        with self.store._reader.reading() as connection:
            columns = "id, session_id, parent_id, role, content, status, hidden, deleted_root"
            rows = {row[0]: tuple(row) for row in connection.execute(f"SELECT {columns} FROM messages")}
        expected = {
            one.id: (
                one.id,
                one.chat,
                one.above.id if one.above else None,
                one.role,
                one.text,
                one.status,
                int(one.hidden),
                one.deleted_with,
            )
            for one in self.model.nodes
        }
        assert rows == expected
        assert len(rows) >= self.most, "a message is gone"
        self.most = len(rows)

    @invariant()
    def each_chat_shows_the_branch_that_the_model_shows(self) -> None:
        listed = {one.id for one in self.store.sessions()}
        assert listed == {one.id for one in self.model.chats.values() if not one.deleted}
        for chat in self.model.chats.values():
            if chat.deleted:
                continue
            session, messages = self.store.shown_branch(chat.id)
            path = chat.head.path if chat.head else []
            assert [one.id for one in messages] == [one.id for one in path]
            assert [one.siblings for one in messages] == [[b.id for b in self.model.siblings(one)] for one in path]
            assert chat.head is None or chat.head.leaves == [chat.head], "what follows the head is out of sight"
            folder = chat.folder if chat.folder and self.model.folders[chat.folder] else None
            assert (session.pinned, session.archived, session.folder_id) == (chat.pinned, chat.archived, folder)
            assert self.store.drafts.draft(chat.id).text == chat.draft

    @invariant()
    def everything_can_be_shown_or_restored(self) -> None:
        trash = {one.id: one.within for one in self.store.trash.branches()}
        for node in self.model.nodes:
            if self.model.chats[node.chat].deleted:
                continue
            if node.visible:
                assert all(one.visible for one in node.path)
            elif node.deleted_with is not None:
                root = node.deleted_with
                while root is not None:  # from one restored branch to the next, up to what can be seen
                    root = trash[root]
        assert {one.id for one in self.store.trash.sessions()} == {
            one.id for one in self.model.chats.values() if one.deleted
        }


def test_random_work_loses_no_message() -> None:
    trials = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=2 * trials,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
