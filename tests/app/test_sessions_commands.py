"""``pagedchat sessions``: lists, trees, searches, files, copies and the trash, for people and as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from pagedchat.app.chats import printing
from pagedchat.app.chats.printing import short_ids
from pagedchat.app.chats.slash import Room, run_command
from pagedchat.app.commands import cli
from pagedchat.app.instance import InstanceLock
from pagedchat.engine.errors import PagedChatError
from pagedchat.sessions.exchange import parsing
from pagedchat.sessions.reading import open_reader
from pagedchat.sessions.rows import Generation
from pagedchat.sessions.store import SessionStore
from support.command import pagedchat


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two chats: one with a fork and a stopped reply, one with another title; in a folder with a difficult name."""
    folder = tmp_path / "zkouška ß 模型 dir"
    store = SessionStore(folder / "sessions.db")
    eggs = store.create_session("Be brief.", {}, "tiny").id
    _, question, first = store.add_question(eggs, None, "How do I boil an egg?")
    store.finish_reply(first.id, "Seven min", "stopped", generation=Generation(first.id, model="tiny"))
    _, second = store.add_reply(question.id)
    store.finish_reply(second.id, "Put it into boiling water.", "done", generation=Generation(second.id, model="big"))
    _, _, third = store.add_question(eggs, second.id, "And a soft one?\nشكرا \x1b[31m")
    store.finish_reply(third.id, "Four minutes 🥚", "done")
    other = store.create_session(None, {}, None).id
    _, _, reply = store.add_question(other, None, "Kaffee und Kuchen")
    store.finish_reply(reply.id, "Ja.", "done")
    store.close()
    return folder


@pytest.fixture
def sessions(data: Path):
    """Run a command of the group on the two chats."""
    return lambda *words: pagedchat("sessions", *words, "--data-dir", str(data))


def ids(sessions, *words: str) -> dict[str, str]:
    """Ids by title, as ``list`` tells them."""
    return {one["title"]: one["id"] for one in json.loads(sessions("list", "--json", *words).stdout)}


def test_chats_are_listed_with_what_can_be_seen_of_them(sessions):
    done = sessions("list")
    lines = done.stdout.splitlines()

    assert done.returncode == 0 and len(lines) == 2
    assert "2 messages  Kaffee und Kuchen" in lines[0] and "5 messages  How do I boil an egg?" in lines[1]
    assert len(sessions("list", "-n", "1").stdout.splitlines()) == 1
    assert sessions("list", "--trash").stderr == "The trash is empty.\n"
    assert sessions("list", "--archived").stderr == "The archive is empty.\n"
    assert 'no folder "Work"; there is none yet.' in sessions("list", "--folder", "Work").stderr
    assert json.loads(sessions("list", "--json").stdout)[1]["messages"] == 5


def test_a_tree_is_drawn_with_its_branches_its_head_and_how_replies_ended(sessions):
    title, *lines = sessions("show", "How do I boil an egg?").stdout.splitlines()

    assert title.startswith("How do I boil an egg?  (")
    assert lines[0].startswith("user      How do I boil an egg?  20")
    assert lines[1].startswith("├─ assistant Seven min  [stopped]") and lines[1].endswith("  tiny")
    assert lines[2].startswith("└─ assistant Put it into boiling water.") and lines[2].endswith("  big")
    assert lines[3].startswith("   user      And a soft one? شكرا")
    assert lines[4].startswith("   assistant Four minutes 🥚") and lines[4].endswith("◀ shown")


def test_the_shown_branch_is_printed_as_text_and_both_as_json(sessions):
    text = sessions("show", "How do I boil an egg?", "--branch").stdout
    whole = json.loads(sessions("show", "How do I boil an egg?", "--json").stdout)
    branch = json.loads(sessions("show", "How do I boil an egg?", "--json", "--branch").stdout)

    assert "And a soft one?\nشكرا" in text and "Seven min" not in text
    assert len(whole["messages"]) == 5 and len(branch["messages"]) == 4
    assert whole["head_id"] == branch["messages"][-1]["id"] and whole["system_prompt"] == "Be brief."


def test_a_chat_is_found_by_id_by_its_beginning_and_by_title_and_candidates_are_named(sessions, data):
    first, second = ids(sessions).values()
    shared = next(place for place, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)

    assert sessions("show", first).returncode == sessions("show", first[: shared + 1]).returncode == 0
    refused = sessions("show", first[: max(shared, 4)])
    assert refused.returncode == 1 and first in refused.stderr and second in refused.stderr
    assert 'no chat "kaffee"' in sessions("show", "kaffee").stderr
    assert short_ids([first, second])[first] == first[: max(12, shared + 1)]


def test_a_chat_without_a_title_answers_to_the_name_it_is_shown_by(sessions, data):
    store = SessionStore(data / "sessions.db")
    made = store.create_session(None, {}, None).id
    store.close()
    assert json.loads(sessions("show", "New chat", "--json").stdout)["id"] == made
    assert sessions("rm", "New chat").returncode == 0 and len(ids(sessions)) == 2
    assert sessions("rm", "--undo", "New chat").returncode == 0 and len(ids(sessions)) == 3


def test_words_are_found_with_what_stands_around_them(sessions):
    done = sessions("search", "boiling", "role:assistant")

    assert "assistant: Put it into [boiling] water." in done.stdout and "1 of 1 hit" in done.stderr
    assert json.loads(sessions("search", "kuchen", "--json").stdout)["total"] >= 1
    assert "Nothing was found." in sessions("search", "xylophone").stderr


def test_an_export_is_not_written_over_and_comes_back_whole(sessions, data, tmp_path):
    file = tmp_path / "výstup ß.json"

    assert sessions("export", "--all", "-o", str(file)).returncode == 0
    content = file.read_bytes()
    refused = sessions("export", "--all", "-o", str(file))
    assert refused.returncode == 1 and "--force" in refused.stderr and file.read_bytes() == content
    assert sessions("export", "--all", "-o", str(file), "--force").returncode == 0

    dry = sessions("import", str(file), "--dry-run")
    assert "Nothing was stored." in dry.stdout and len(ids(sessions)) == 2
    elsewhere = ("--data-dir", str(tmp_path / "new"))
    report = json.loads(pagedchat("sessions", "import", str(file), "--json", *elsewhere).stdout)
    assert report[0]["imported"] == 2 and report[0]["messages"] == 7
    again = pagedchat("sessions", "show", "How do I boil an egg?", *elsewhere).stdout
    assert again.splitlines()[1:] == sessions("show", "How do I boil an egg?").stdout.splitlines()[1:]


def test_a_chat_is_printed_in_another_format_and_what_cannot_be_exported_is_told(sessions, data):
    words = ["sessions", "export", "Kaffee und Kuchen", "-f", "markdown", "--data-dir", str(data)]
    done = CliRunner().invoke(cli, words)
    assert done.stdout.startswith("# Kaffee und Kuchen") and "Ja." in done.stdout
    assert "Name the chats" in sessions("export").stderr
    assert "choose one of" in sessions("export", "--all", "-f", "word").stderr


def test_what_is_no_export_is_reported_and_the_other_files_are_imported(sessions, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.json"
    good.write_text('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}\n')
    bad.write_text('{"no": "chats"}')

    done = sessions("import", str(bad), str(good))

    assert done.returncode == 1
    assert f"{bad.name}: No chats" in done.stdout and f"{good.name}: 1 chat with 2 messages imported" in done.stdout
    assert len(ids(sessions)) == 3
    missing = sessions("import", str(tmp_path / "none.json"))
    assert missing.returncode == 1 and "none.json cannot be read" in missing.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without an end")
def test_a_file_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(parsing, "MOST_BYTES", 1 << 20)
    done = CliRunner().invoke(cli, ["sessions", "import", "--dry-run", "/dev/zero"])
    assert done.exit_code == 1
    assert "larger than 1 MiB" in done.stdout


def test_a_copy_is_taken_listed_and_brought_back_and_what_it_replaced_is_kept(sessions, tmp_path):
    assert "no copies" in sessions("restore").stdout
    made = json.loads(sessions("backup", "--json").stdout)
    assert (made["chats"], made["messages"]) == (2, 7)
    assert sessions("rm", "Kaffee und Kuchen").returncode == 0
    assert made["name"] in sessions("restore").stdout

    done = sessions("restore", "latest")

    assert done.returncode == 0 and "kept:" in done.stdout
    assert len(ids(sessions)) == 2
    other = tmp_path / "copy.db"
    assert sessions("backup", str(other)).returncode == 0 and other.is_file()
    assert "exists already" in sessions("backup", str(other)).stderr


def test_a_damaged_database_names_the_way_back_and_salvage_takes_it(sessions, data):
    sessions("backup")
    content = bytearray((data / "sessions.db").read_bytes())
    content[:100] = b"x" * 100
    (data / "sessions.db").write_bytes(content)

    refused = sessions("list")
    assert refused.returncode == 1 and "sessions restore" in refused.stderr
    done = sessions("restore", "--salvage")
    assert done.returncode == 0, done.stderr
    assert "How do I boil an egg?" in ids(sessions)


def test_the_trash_gives_back_and_for_ever_needs_a_yes(sessions):
    assert "--undo" in sessions("rm", "Kaffee und Kuchen").stdout
    assert list(ids(sessions, "--trash")) == ["Kaffee und Kuchen"]
    assert sessions("rm", "--undo", "Kaffee und Kuchen").returncode == 0
    assert len(ids(sessions)) == 2

    refused = sessions("rm", "--forever", "Kaffee und Kuchen")
    assert refused.returncode == 1 and "--yes" in refused.stderr and len(ids(sessions)) == 2
    assert sessions("rm", "--forever", "--yes", "Kaffee und Kuchen").returncode == 0
    assert list(ids(sessions)) == ["How do I boil an egg?"] and ids(sessions, "--trash") == {}


def test_one_name_that_is_wrong_leaves_all_chats_where_they_are(sessions):
    done = sessions("rm", "Kaffee und Kuchen", "nothing")
    assert done.returncode == 1 and "nothing" in done.stderr
    assert len(ids(sessions)) == 2


def test_chats_can_be_read_while_another_terminal_or_server_has_them_but_not_replaced(sessions, data):
    lock = InstanceLock(data)
    lock.take(0)
    lock.publish(0, "")
    try:
        assert len(ids(sessions)) == 2 and sessions("backup").returncode == 0
        refused = sessions("restore", "latest")
        assert refused.returncode == 1 and "in a terminal" in refused.stderr
    finally:
        lock.release()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_chats_in_a_folder_that_cannot_be_written_can_be_read(data, sessions):
    for words in (("search", "boiling"), ("rm", "Kaffee und Kuchen"), ("rm", "--undo", "Kaffee und Kuchen")):
        assert sessions(*words).returncode == 0  # whoever owns nothing may not be able to load what these load
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copyfile(data / "sessions.db", folder / "sessions.db")
        (folder / "sessions.db").chmod(0o444)
        folder.chmod(0o555)
        user = os.geteuid()
        os.seteuid(65534 if user == 0 else user)
        try:
            listed = pagedchat("sessions", "list", "--data-dir", name)
            found = pagedchat("sessions", "search", "boiling", "--data-dir", name)
            refused = pagedchat("sessions", "rm", "Kaffee und Kuchen", "--data-dir", name)
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
    assert len(listed.stdout.splitlines()) == 2, listed.stderr
    assert "[boiling]" in found.stdout
    assert refused.returncode == 1 and name in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("list",), ("show", "x"), ("search", "x"), ("export", "--all"), ("rm", "x")])
def test_without_any_chats_it_is_one_sentence_and_nothing_is_made(words, tmp_path):
    done = pagedchat("sessions", *words, "--data-dir", str(tmp_path / "none"))
    assert done.returncode == 1 and "no chats yet" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_control_characters_of_a_chat_do_not_reach_a_terminal(monkeypatch, capsys):
    text = "a\x1b[31mb\r\nc\td"
    printing.print_lines(text)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    printing.print_lines(text)
    assert capsys.readouterr().out == f"{text}\na\N{REPLACEMENT CHARACTER}[31mb\nc\td\n"


def test_a_list_says_where_a_missing_database_has_copies(sessions, data):
    assert sessions("backup").returncode == 0
    (data / "sessions.db").unlink()
    refused = sessions("list")
    assert refused.returncode == 1 and "is missing, but" in refused.stderr and "--data-dir" in refused.stderr
    SessionStore(data / "sessions.db").close()
    empty = sessions("list")
    assert empty.returncode == 0 and "holds no chats, but" in empty.stderr


def test_the_export_of_a_terminal_names_no_flag_where_the_file_is_there(data, tmp_path):
    with open_reader(data / "sessions.db") as reader, reader.reading() as connection:
        chat = connection.execute("SELECT id FROM sessions").fetchone()[0]
    conversation, screen = SimpleNamespace(session_id=chat, session={}), SimpleNamespace(hint=lambda words: None)
    room: Any = Room(cast(Any, None), cast(Any, conversation), cast(Any, screen), data / "sessions.db")
    run_command(room, f"/export {tmp_path / 'chat.json'}")
    with pytest.raises(PagedChatError, match=r"chat\.json exists already; name another file\.$"):
        run_command(room, f"/export {tmp_path / 'chat.json'}")


def test_markdown_of_our_own_is_not_read_and_the_way_is_named(sessions, tmp_path):
    file = tmp_path / "eggs.md"
    assert sessions("export", "How do I boil an egg?", "-f", "markdown", "-o", str(file)).returncode == 0
    assert "only for reading; export it as pagedchat JSON" in sessions("import", str(file)).stdout


def test_the_help_of_the_program_is_whole_at_eighty_columns():
    said = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(cli, ["--help"]).stdout
    assert "Chat in this terminal" in said and "..." not in said.partition("\n")[2]
