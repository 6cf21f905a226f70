"""A terminal reaches the chats: over a server's socket where one runs, else by opening them itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import orjson
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from pagedchat import __version__
from pagedchat.app import chat_remote, chat_socket
from pagedchat.app.chat_calls import METHODS
from pagedchat.app.chat_link import ChatLink, ChatsHere, open_link
from pagedchat.app.chat_remote import ServerChats
from pagedchat.app.folders import find_folders
from pagedchat.app.instance import InstanceLock, RunningServer, read_note
from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions.chat_service import ChatService
from support.command import pagedchat
from support.page_server import PageServer
from support.paged_client import PagedFakeClient


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    client = PagedFakeClient(lambda request: "Answer to " + request.messages[-1]["content"])
    with PageServer(tmp_path_factory.mktemp("page"), client) as running:
        yield running


@pytest.fixture
def link(server: PageServer) -> Iterator[ServerChats]:
    chats = ServerChats(RunningServer(os.getpid(), server.port, server.url))
    yield chats
    chats.close()


def ask(link: ChatLink, text: str, **more: object) -> tuple[str, dict]:
    """Text of the deltas, and the last view of the reply."""
    with link.events() as events:
        reply = link.call("send", **{"session_id": None, "parent_id": None, "text": text, **more})["reply"]
        streamed = ""
        while True:
            event = events.get(timeout=60)
            if event["type"] == "delta" and event["message_id"] == reply["id"]:
                assert event["offset"] == len(streamed)
                streamed += event["text"]
            message = event.get("message") or reply
            if message["id"] == reply["id"] and message["status"] != "streaming":
                return streamed, message


def raw(server: PageServer, **headers: str):
    return connect(server.url.replace("http", "ws") + chat_socket.PATH, additional_headers=headers, open_timeout=30)


TOO_LONG = "x" * (chat_socket.LARGEST_FRAME + 1)


def frame(**fields: object) -> str:
    return orjson.dumps(fields).decode()


def test_every_call_that_is_allowed_is_one_of_the_services():
    for name in METHODS:
        owner, _, method = name.rpartition(".")
        if owner:
            from pagedchat.sessions.library_service import LibraryService

            assert callable(getattr(LibraryService, method, None)), name
        else:
            assert callable(getattr(ChatService, method, None)), name


def test_a_reply_streams_through_the_server_and_is_in_its_store(server, link):
    streamed, reply = ask(link, "zkouška שלום 👩‍👩‍👧")

    assert streamed == reply["content"] == "Answer to zkouška שלום 👩‍👩‍👧"
    shown = server.do(server.service.open(reply["session_id"]))
    assert [one["content"] for one in shown["messages"]] == ["zkouška שלום 👩‍👩‍👧", streamed]


def test_who_does_not_follow_gets_no_events_and_followers_hear_of_others_chats(server, link):
    with link.events() as events:
        view = server.do(server.service.create_session())
        assert events.get(timeout=60)["session"]["id"] == view["id"]
    server.do(server.service.create_session())
    assert link.call("status")["state"] == "ready"
    assert events.empty()


def test_errors_come_as_the_services_sentences(link):
    with pytest.raises(PagedChatError, match="does not exist any more"):
        link.call("open", session_id="none")
    with pytest.raises(PagedChatError, match="must be a text"):
        link.call("open", session_id=7)
    with pytest.raises(PagedChatError, match="cannot be called like this"):
        link.call("open", chat="none")
    with pytest.raises(PagedChatError, match="too much for one message"):
        link.call("open", session_id="x" * chat_socket.LARGEST_FRAME)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("send", {"session_id": None, "parent_id": None, "text": "x", "attachment_ids": None}),
        ("send", {"session_id": None, "parent_id": None, "text": "x", "attachment_ids": [7]}),
        ("create_session", {"params": True}),
        ("create_session", {"preset_id": 7}),
        ("restore_branch", {"deletion": 7}),
        ("library.purge", {"ids": None}),
        ("library.purge", {"ids": "abc"}),
    ],
)
def test_arguments_of_another_kind_are_refused_with_a_sentence(link, method, arguments):
    with pytest.raises(PagedChatError) as refused:
        link.call(method, **arguments)
    assert "internal error" not in str(refused.value)


@pytest.mark.parametrize("given", [[1], "x", 7])
def test_a_frame_whose_arguments_are_none_is_no_internal_error(server, given, caplog):
    with raw(server) as terminal, pytest.raises(ConnectionClosed) as end:
        terminal.send(frame(id=1, call="hello", **{"with": given}))
        assert "error" in orjson.loads(terminal.recv(5))
        terminal.recv(5)
    assert end.value.rcvd is not None
    assert end.value.rcvd.code == chat_socket.REFUSED
    with raw(server) as terminal:
        terminal.send(frame(id=1, call="hello", **{"with": {"version": __version__}}))
        terminal.send(frame(id=2, call="follow", **{"with": given}))
        assert [orjson.loads(terminal.recv(5))["re"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("name", ["core.close", "close", "store.close", "__class__", "library.__init__", 7, None])
def test_only_what_is_allowed_can_be_called(link, name):
    with pytest.raises(PagedChatError, match="There is no call"):
        link.call(name)


def test_a_foreign_page_or_name_is_refused_and_a_program_without_origin_is_not(server):
    with pytest.raises(InvalidStatus):
        raw(server, Origin="http://evil.example").__enter__()
    with pytest.raises(InvalidStatus):
        raw(server, Host="evil.example").__enter__()
    with raw(server) as ours:
        ours.send(frame(id=1, call="hello", **{"with": {"version": __version__}}))
        assert orjson.loads(ours.recv(5))["ok"]["version"] == __version__


def test_another_version_is_told_with_both_numbers(server, monkeypatch):
    monkeypatch.setattr(chat_remote, "__version__", "0.0.9")
    with pytest.raises(PagedChatError, match=r"is pagedchat 0\.0\.9, and the server .* end the server"):
        ServerChats(RunningServer(1, server.port, server.url))


@pytest.mark.parametrize(
    "data",
    [
        "no json",
        "[]",
        "{}",
        frame(id="x"),
        frame(id=1, call="send"),
        b"\xff\xff",
        TOO_LONG,
    ],
)
def test_what_is_no_frame_of_ours_ends_the_connection_and_not_the_server(server, data):
    with raw(server) as socket_, pytest.raises(ConnectionClosed):
        socket_.send(data)
        socket_.recv(5)
    assert server.do(server.service.list_sessions()) is not None


def test_a_terminal_that_reads_late_gets_the_text_in_few_frames():
    terminal = chat_socket._Terminal(None, None, None)  # type: ignore[arg-type]
    for place in range(1000):
        kind = "reasoning" if place < 500 else "delta"
        event = {"type": kind, "message_id": "m", "text": "ab", "offset": place % 500 * 2, "tokens": place + 1}
        terminal._hear(event)
    events = [one["event"] for one in terminal._out]
    assert [(one["type"], one["text"], one["tokens"]) for one in events] == [
        ("reasoning", "ab" * 500, 500),
        ("delta", "ab" * 500, 1000),
    ]


def test_when_the_server_ends_a_follower_is_told_and_later_calls_say_so(tmp_path):
    with PageServer(tmp_path, PagedFakeClient()) as server:
        chats = ServerChats(RunningServer(1, server.port, server.url))
        follow = chats.events()
        events = follow.__enter__()
    assert events.get(timeout=60) == {"type": "lost", "message": "The server has ended; everything is saved."}
    with pytest.raises(PagedChatError, match="has ended"):
        chats.call("status")
    chats.close()


def test_commands_beside_a_server_go_through_it_and_its_pages_hear_of_them(server, tmp_path):
    folders = find_folders(server.folder)
    lock = InstanceLock(folders.data)
    assert lock.take(0) is None
    lock.publish(server.port, server.url)
    file = tmp_path / "výlet.jsonl"
    file.write_text('{"messages": [{"role": "user", "content": "Xylophone"}, {"role": "assistant", "content": "Yes"}]}')
    events: list[dict] = []
    end = server.call(server.service.subscribe, events.append)
    try:
        done = pagedchat("sessions", "import", str(file), "--data-dir", str(server.folder))
        assert "1 chat with 2 messages imported" in done.stdout, done.stderr
        bad = pagedchat("sessions", "import", __file__, "--data-dir", str(server.folder))
        assert bad.returncode == 1 and "no export of chats" in bad.stdout
        done = pagedchat("sessions", "rm", "Xylophone", "--data-dir", str(server.folder))
        assert "in the trash" in done.stdout, done.stderr
        refused = pagedchat("sessions", "restore", "latest", "--data-dir", str(server.folder))
        assert server.url in refused.stderr
    finally:
        server.call(end)
        lock.release()
    told = [one["session"]["deleted_at"] for one in events if one["type"] == "session"]
    assert told[0] is None and told[-1] is not None


def test_a_server_that_is_killed_is_noticed_by_whoever_waits():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted = []
        threading.Thread(target=lambda: accepted.append(listener.accept()[0].close())).start()
        with pytest.raises(PagedChatError, match="did not answer"):
            ServerChats(RunningServer(1, listener.getsockname()[1], f"http://127.0.0.1:{listener.getsockname()[1]}"))


def test_without_a_server_the_chats_are_opened_here_and_nobody_else_gets_them(tmp_path):
    folders = find_folders(tmp_path / "zkouška ß 模型")
    link = open_link(folders)
    try:
        assert isinstance(link, ChatsHere) and link.url is None
        session = link.call("create_session", system_prompt="Be brief.")
        assert link.call("open", session_id=session["id"])["session"]["system_prompt"] == "Be brief."
        assert read_note(folders.data).is_terminal
        with pytest.raises(PagedChatError, match="in a terminal"):
            InstanceLock(folders.data).take(0)
    finally:
        link.close()
    assert InstanceLock(folders.data).take(0) is None
    with pytest.raises(PagedChatError, match="closed"):
        link.call("status")


def test_a_database_that_cannot_be_opened_leaves_the_folder_free(tmp_path):
    (tmp_path / "sessions.db").write_bytes(b"This is no database." * 100)
    with pytest.raises(PagedChatError, match="damaged"):
        open_link(find_folders(tmp_path))
    assert InstanceLock(tmp_path).take(0) is None
