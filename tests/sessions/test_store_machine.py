"""Random work on a store, compared after every step with a model in plain Python.

Whatever is done in whatever order: every message ever sent can be shown, or is in the trash, or is a reply that ended
without text; nothing else changes; and the file tells the same after it was closed and opened.
"""

from __future__ import annotations

import os
import tempfile
from inspect import signature
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
MODE = st.sampled_from(get_args(ForkMode))
END = st.sampled_from([("done", "stop"), ("done", "length"), ("stopped", "abort"), ("error", "error")])

WORK = [
    *["send", "send_below_the_head", "regenerate", "delete_branch", "select", "finish"] * 3,
    *["edit", "proceed", "restore_branch"] * 2,
    *["write_on", "fork", "begin", "delete_or_undelete_chat", "pin_and_archive", "folders", "draft", "reopen"],
]
"""What pages do, as often as it is worth trying."""


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

    @rule(what=st.sampled_from(WORK), place=PLACE, text=TEXT, more=st.one_of(st.just(""), TEXT), end=END, mode=MODE)
    def work(self, what: str, place: int, text: str, more: str, end: tuple[str, str], mode: ForkMode) -> None:
        """One rule for all: Hypothesis would leave most rules out of most examples, and the trees would stay small."""
        given = {"place": place, "text": text, "more": more, "end": end, "mode": mode}
        method = getattr(self, what)
        method(**{name: given[name] for name in signature(method).parameters})

    # -- choosing ---------------------------------------------------------------------------------------------------

    def chat(self, place: int) -> Chat:
        chats = list(self.model.chats.values())
        return chats[place % len(chats)]

    def node(self, place: int) -> Node | None:
        """A message that a page may know of: mostly one in view, now and then one in the trash."""
        known = [one for one in self.model.nodes if not one.hidden]
        nodes = known if place % 8 == 0 else [one for one in known if not self.closed(one)]
        return nodes[place // 8 % len(nodes)] if nodes else None

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

    def send(self, place: int, text: str) -> None:
        parent = self.node(place) if place % 5 else None
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
        if place % 4:
            self.finish_one(self.model.node(reply.id), "an answer", ("done", "length"))

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

    def regenerate(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target):
            return self.refused(self.store.add_reply, target.id)
        _, reply = self.store.add_reply(target.id)
        self.model.regenerate(target, reply.id)
        if place % 3:
            self.finish_one(self.model.node(reply.id), "another answer", ("stopped", "abort"))

    def edit(self, place: int, text: str) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or target.status == "streaming":
            return self.refused(self.store.add_edit, target.id, text)
        _, edited, reply, _ = self.store.add_edit(target.id, text)
        self.model.edit(target, text, edited.id, reply.id if reply else None)

    def proceed(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or not self.model.can_proceed(target):
            return self.refused(self.store.resume_reply, target.id)
        _, reply = self.store.resume_reply(target.id)
        self.model.proceed(target, reply.id)

    def write_on(self, place: int, text: str) -> None:
        reply = self.running(place)
        if reply is not None:
            reply.text += text
            self.store.save_partial(reply.id, reply.text)

    def finish(self, place: int, more: str, end: tuple[str, str]) -> None:
        reply = self.running(place)
        if reply is not None:
            self.finish_one(reply, more, end)

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

    def select(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target):
            return self.refused(self.store.select, target.id)
        self.store.select(target.id)
        self.model.show(self.model.chats[target.chat], target.last_leaf)

    # -- trash ------------------------------------------------------------------------------------------------------

    def delete_branch(self, place: int) -> None:
        target = self.node(place)
        if target is None:
            return
        if self.closed(target) or any(one.status == "streaming" for one in target.all):
            return self.refused(self.store.trash.delete_branch, target.id)
        assert self.store.trash.delete_branch(target.id).messages == self.model.delete_branch(target)

    def restore_branch(self, place: int) -> None:
        roots = [one for one in self.model.nodes if one.deleted_with == one.id]
        if not roots:
            return
        root = roots[place % len(roots)]
        if self.model.chats[root.chat].deleted or (root.above and not root.above.visible):
            return self.refused(self.store.trash.restore_branch, root.id)
        self.store.trash.restore_branch(root.id)
        self.model.restore_branch(root)

    def delete_or_undelete_chat(self, place: int) -> None:
        chat = self.chat(place)
        chat.deleted = not chat.deleted and place % 3 == 0
        self.store.change_session(chat.id, deleted_at="2026-01-01" if chat.deleted else None)

    # -- whole chats ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        if len(self.model.chats) > 4:
            return
        session = self.store.create_session(None, {}, None)
        self.model.chats[session.id] = Chat(session.id)

    def fork(self, place: int, mode: ForkMode) -> None:
        target = self.node(place)
        if target is None or len(self.model.nodes) > 60:
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

    def pin_and_archive(self, place: int) -> None:
        chat, pinned, archived = self.chat(place), place % 2 == 0, place % 3 == 0
        version = self.store.change_session(chat.id, pinned=pinned, archived=archived).version
        self.refused(lambda: self.store.change_session(chat.id, version - 1, pinned=not pinned))
        chat.pinned, chat.archived = pinned, archived

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

    def draft(self, place: int, more: str) -> None:
        chat = self.chat(place)
        if chat.deleted:
            return self.refused(self.store.drafts.save, chat.id, more, None, None, None)
        version = self.store.drafts.draft(chat.id).version
        self.refused(self.store.drafts.save, chat.id, "stale", None, None, version + 1)
        self.store.drafts.save(chat.id, more, None, None, version)
        chat.draft = more

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
            session, messages, _ = self.store.shown_branch(chat.id)
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
            stateful_step_count=80,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
