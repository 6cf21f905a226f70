"""``pagedchat chat`` at a terminal: typed lines, branches, Ctrl+C and Ctrl+D; alone and beside a server."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pagedchat.sessions.store import SessionStore
from support.page_socket import Page
from support.running_app import RunningApp
from support.scripted_chat import CTRL_C, CTRL_D, TerminalChat, piped

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are POSIX", allow_module_level=True)

LONG = "word " * 60
"""A reply repeats what was asked: with the slow model this one takes seconds."""


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Options that name an empty data folder and a models folder, both with difficult names, and the slow model."""
    models = tmp_path / "模型 models"
    models.mkdir()
    (models / "slow.gguf").write_bytes(b"GGUF")
    SessionStore(tmp_path / "ß data" / "sessions.db").close()
    return ["--data-dir", str(tmp_path / "ß data"), "--models-dir", str(models), "--model", "slow"]


def stored(folders: list[str]) -> list[tuple[str, str, str]]:
    """(role, status, content) of all messages."""
    with closing(sqlite3.connect(Path(folders[1]) / "sessions.db")) as connection:
        return connection.execute("SELECT role, status, content FROM messages ORDER BY key").fetchall()


def test_a_chat_is_typed_branched_deleted_and_brought_back(folders):
    with TerminalChat(*folders, "--stats") as chat:
        chat.expect("Ctrl+D leaves.")
        chat.type("č 👩‍👩‍👧")
        chat.expect("UČ 👩‍👩‍👧A\n")
        chat.expect("prompt token")
        chat.prompt()
        chat.type('"""two')
        chat.type('lines"""')
        chat.expect("UTWO\nLINESA\n")
        chat.type("/regenerate")
        chat.expect("UTWO\nLINESA\n")
        chat.prompt()
        chat.type("/tree")
        tree = chat.expect("◀ shown")
        assert "├─ assistant" in tree and "└─ assistant" in tree
        chat.type("/prev")
        chat.type("/next")
        chat.type("/next")
        chat.expect("the last of 2 siblings already")
        chat.type("/title Two of them")
        chat.type("/delete")
        chat.expect("(the chat is in the trash")
        chat.type("/undo")
        chat.expect("(the chat is back)")
        chat.type("/title")
        chat.expect("Two of them\n")
        chat.type("/nonsense")
        chat.expect("There is no command /nonsense")
        chat.type("/search two")
        chat.expect("[two]")
        chat.prompt()
        chat.type(CTRL_D, end="")
        assert chat.wait_end() == 0

    assert [one[2] for one in stored(folders) if one[0] == "user"] == ["č 👩‍👩‍👧", "two\nlines"]
    history = Path(folders[1]) / "state" / "chat_history"
    assert "/title Two of them" in history.read_text() and history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_stops_a_reply_keeps_it_and_at_the_prompt_only_clears_the_line(folders):
    with TerminalChat(*folders) as chat:
        chat.expect("Ctrl+D leaves.")
        chat.prompt()
        chat.type("never sent", end="")
        chat.expect("never sent")
        chat.wait_idle()  # a signal that comes while readline takes in a key is noticed with the next key
        chat.type(CTRL_C, end="")
        chat.expect("(Ctrl+D or /quit leaves")
        chat.prompt()
        chat.type(LONG * 4)
        chat.expect("UWORD WORD")
        chat.type(CTRL_C, end="")
        chat.expect("(stopped; what there is of it is kept)")
        chat.type("/quit")
        assert chat.wait_end() == 0

    [question, reply] = stored(folders)
    assert question[2] == LONG * 4 and reply[:2] == ("assistant", "stopped") and reply[2].startswith("UWORD WORD")


def test_a_signal_that_ends_the_terminal_saves_the_reply_as_interrupted(folders):
    with TerminalChat(*folders) as chat:
        chat.expect("Ctrl+D leaves.")
        chat.prompt()
        chat.type(LONG * 4)
        chat.expect("UWORD WORD")
        chat.process.send_signal(signal.SIGHUP)
        assert chat.wait_end(6) == 0

    assert stored(folders)[1][1] == "interrupted"


def test_a_temporary_chat_leaves_nothing_on_the_disk(folders):
    with TerminalChat(*folders, "--temporary") as chat:
        chat.expect("Ctrl+D leaves.")
        chat.type("xylophone")
        chat.expect("UXYLOPHONEA\n")
        chat.prompt()
        chat.type("/tree")
        chat.expect("temporary chat is in no database")
        chat.prompt()
        chat.type(CTRL_D, end="")
        assert chat.wait_end() == 0

    files = [path for path in Path(folders[1]).rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"ylophone" in path.read_bytes().lower()]


def test_beside_a_server_pages_and_terminals_share_chats_and_the_server_outlives_a_terminal(folders, start_app):
    app: RunningApp = start_app(*folders[2:], data_dir=Path(folders[1]), scripted=True)
    place = folders[:2]
    page = Page(app)
    page.call("hello")

    once = piped(*place, "--block-size", "32", "from a pipe")
    assert once.stdout == "UFROM A PIPEA\n" and "--block-size of this start is ignored" in once.stderr
    with TerminalChat(*place, "-c") as chat, TerminalChat(*place) as other:
        chat.expect("(from a pipe)")
        other.expect(f"the server at {app.url}")
        other.type("beside")
        chat.prompt()
        chat.type(LONG)
        other.expect("UBESIDEA\n")
        chat.expect("WORD WORD")
        [session] = [one["id"] for one in page.call("hello")["sessions"] if one["title"] == "from a pipe"]
        shown = page.call("open", session=session)
        assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 2
        chat.process.kill()
        chat.process.wait()
        other.type("/open from a pipe")
        other.expect(f"UFROM A PIPEAUFROM A PIPEAU{LONG.upper()}A\n")
        replies = [one for one in stored(folders) if one[0] == "assistant"]
        assert [one[1] for one in replies] == ["done"] * 3
        assert any(one[2].endswith(f"U{LONG.upper()}A") for one in replies)

        other.type("/open beside")
        other.expect("UBESIDEA\n")
        assert piped(*place, "--session", "beside", "in another window").returncode == 0
        other.type("three")
        assert "> in another window" in other.expect("(the chat went on in another window")
        other.type("three")
        other.expect("UTHREEA\n")
        app.stop()
        other.type("still there?")
        other.expect("The server has ended; everything is saved.")
        assert other.wait_end() == 1
