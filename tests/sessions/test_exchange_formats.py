"""The exports of other programs: texts, branches, times, models and files arrive. tests/data/exchange has samples."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pagedchat.sessions.exchange.formats import FORMATS
from pagedchat.sessions.exchange.reading import read_file
from pagedchat.sessions.exchange.report import Report
from pagedchat.sessions.exchange.tree import ChatTree
from pagedchat.sessions.rows import unpack
from pagedchat.sessions.store import SessionStore
from support.chat_trees import bring

SAMPLES = Path(__file__).parent.parent / "data" / "exchange"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    store = SessionStore(tmp_path / "a.db")
    yield store
    store.close()


def trees_of(store: SessionStore, name: str) -> tuple[Report, dict[str, ChatTree]]:
    """What became of a sample, by title, as the database has it."""
    report = bring(store, (SAMPLES / name).read_bytes(), name)
    trees = [store.exchange.read_tree(one.id) for one in report.chats]
    return report, {tree.title or "": tree for tree in trees}


def said(tree: ChatTree) -> list[tuple[str, str]]:
    """(role, text) of the branch that is shown."""
    return [(one.role, one.content) for one in tree.branch(tree.head_id)]


def contents(tree: ChatTree) -> list[str]:
    return [one.content for one in tree.nodes]


def shape(tree: ChatTree) -> list[int | None]:
    """The place of each message's parent."""
    place = {one.id: number for number, one in enumerate(tree.nodes)}
    return [place[one.parent_id] if one.parent_id else None for one in tree.nodes]


def test_a_file_of_version_1_of_ours_is_read_as_it_was_written(store: SessionStore) -> None:
    report, trees = trees_of(store, "pagedchat.json")
    garden, second = trees["שלום garden"], trees["A second chat"]
    assert report.format == "pagedchat" and report.chats[0].repairs == [] and len(garden.nodes) == 14
    assert (garden.folder, garden.pinned, garden.archived, garden.params) == (
        "Garten & more",
        True,
        True,
        {"temperature": 0.3, "stop": ["END"]},
    )
    assert garden.preset and garden.preset.tools == '[{"type":"function"}]' and garden.draft.text == "not yet sent"
    runs = [run for one in garden.nodes for run in one.runs]
    assert {run.model for run in runs} == {"tiny-model", "other-model"} and runs[0].decode_s == 0.25
    assert (
        unpack(garden.nodes[1].tokens[0].token_ids) == [2, 7, 9, 100_000]
        and garden.nodes[1].tokens[0].header_tokens == 2
    )
    assert [len(garden.leaves()), sum(one.deleted_at is not None for one in garden.nodes)] == [5, 1]
    assert [one.data for one in (*garden.loose, *garden.branch(garden.head_id)[1].attachments)] == [b"\x00\xffPNG"] * 2
    assert second.nodes[1].status == "interrupted"


def test_chatgpt(store: SessionStore) -> None:
    report, trees = trees_of(store, "chatgpt.json")
    cake = trees["Apple cake"]
    assert report.format == "chatgpt" and cake.archived and not cake.pinned
    assert cake.system_prompt == "I bake on Sundays.\n\nAnswer in short sentences."
    assert (cake.created_at, cake.updated_at) == ("2023-11-14T22:13:20.250Z", "2023-11-14T22:28:20.500Z")
    assert said(cake) == [
        ("user", "[attachment: file-Bowl1]\n\nIs this dough thick enough?"),
        ("assistant", "```python\nprint(250 / 3)\n```"),
        ("tool", "```\n83.3\n```"),
        ("assistant", "It is thick enough.\n\nBake it for 40 minutes."),
    ]
    assert shape(cake) == [None, 0, 0, 2, 3]
    first, second = cake.nodes[1], cake.nodes[2]
    assert (first.content, first.status, first.runs[0].model) == ("Add some flour.", "interrupted", "gpt-4")
    assert first.runs[0].finish_reason == "max_tokens" and first.created_at == "2023-11-14T22:13:40.000Z"
    assert second.reasoning == "Looking at the bowl\n\nThe dough drips from the spoon."
    assert [one.runs[0].model for one in cake.nodes if one.role == "assistant"] == ["gpt-4", "o3", "o3"]
    plain = trees["Just one"]
    assert plain.title_by == "words" and said(plain) == [("user", "Just one"), ("assistant", "Some words")]
    assert any("of a kind that is not known" in one for one in report.chats[1].repairs)


def test_a_chatgpt_archive_brings_its_pictures_and_takes_a_chat_once(store: SessionStore) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", '{"id": "u", "email": "someone@example"}')
        archive.writestr("message_feedback.json", "[]")
        archive.write(SAMPLES / "chatgpt.json", "conversations.json")
        archive.write(SAMPLES / "chatgpt.json", "conversations/all.json")
        archive.writestr("file-Bowl1-bowl of dough.png", b"\x89PNG")
        archive.writestr("chat.html", "<html>")
    report = bring(store, packed.getvalue(), "export.zip")
    assert [one.title for one in report.chats] == ["Apple cake", "Just one"] and report.skipped == []
    question = store.exchange.read_tree(report.chats[0].id).nodes[0]
    assert question.content == "Is this dough thick enough?"
    picture = question.attachments[0]
    assert (picture.name, picture.media_type, picture.data) == ("file-Bowl1-bowl of dough.png", "image/png", b"\x89PNG")


def test_open_webui(store: SessionStore) -> None:
    report, trees = trees_of(store, "openwebui.json")
    tides = trees["Tides"]
    assert report.format == "openwebui" and report.folders == ["Open WebUI f01de200"]
    assert (tides.pinned, tides.archived, tides.folder) == (True, False, "Open WebUI f01de200")
    assert (tides.system_prompt, tides.model) == ("You know the sea.", "llama3.2:3b")
    assert tides.params == {"temperature": 0.5, "repetition_penalty": 1.1, "stop": ["END", "STOP"]}
    assert (tides.created_at, tides.updated_at) == ("2024-03-09T16:00:00.000Z", "2024-03-09T16:10:00.000Z")
    assert shape(tides) == [None, 0, 0, 2, 3] and tides.head_id == tides.nodes[4].id
    question, llama, qwen, _, failed = tides.nodes
    assert question.content == "Why are there two tides a day?\n\n[attachment: chart.png]"
    assert [(one.name, one.data) for one in question.attachments] == [
        ("image", b"\x89PNG"[:4]),
        ("notes.txt", b"High water at 6 and 18."),
    ]
    assert (llama.runs[0].model, llama.runs[0].completion_tokens) == ("llama3.2:3b", 9)
    assert (qwen.content, qwen.reasoning) == ("Because of the moon.", "The moon pulls.\nTwice.")
    assert (qwen.runs[0].model, qwen.runs[0].prompt_tokens) == ("qwen3:8b", 22)
    assert (failed.status, failed.error) == ("error", "The model went away.")
    repairs = report.chats[0].repairs
    assert any("settings" in one for one in repairs) and any("attachments" in one for one in repairs)
    assert said(trees["Older form"]) == [("user", "Hi"), ("assistant", "Hello")]
    assert trees["Older form"].created_at == "2023-07-22T04:26:40.000Z"
    assert trees["Flat"].archived and said(trees["Flat"]) == [("user", "One"), ("assistant", "Two")]


def test_llama_cpp(store: SessionStore) -> None:
    report, trees = trees_of(store, "llama_cpp.json")
    owls = trees["Owls"]
    assert report.format == "llama.cpp" and owls.pinned and owls.system_prompt == "You love birds."
    assert shape(owls) == [None, 0, 0] and said(owls)[-1] == ("assistant", "Most do, by day.")
    question, short, long = owls.nodes
    assert [(one.name, one.media_type, one.data) for one in question.attachments] == [
        ("owl.png", "image/png", b"\x89PNG"[:4]),
        ("log.txt", "text/plain", b"seen at noon"),
        ("owls.pdf", "application/pdf", b"%PDF"),
    ]
    run = short.runs[0]
    assert (run.model, run.prompt_tokens, run.cached_tokens, run.decode_s) == ("qwen3-4b", 15, 10, 0.15)
    assert long.reasoning == "They hunt at night." and long.created_at == "2024-07-03T09:46:43.000Z"
    assert owls.updated_at == "2024-07-03T09:46:49.000Z"


def test_llama_cpp_as_lines(store: SessionStore) -> None:
    report, trees = trees_of(store, "llama_cpp.jsonl")
    assert report.format == "llama.cpp" and list(trees) == ["Dice", "Short"]
    assert report.skipped == [{"chat": "Empty", "reason": "It has no messages."}]
    dice = trees["Dice"]
    assert [one.role for one in dice.branch(dice.head_id)] == ["user", "assistant", "tool"]
    call = dice.nodes[1]
    assert '"name": "roll"' in call.content and call.reasoning == "I need the tool."


def test_llama_cpp_as_an_archive_of_lines(store: SessionStore) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, chat in (("one.jsonl", "0b0e-4"), ("two.jsonl", "0b0e-5")):
            archive.writestr(name, (SAMPLES / "llama_cpp.jsonl").read_text().replace("0b0e-4", chat))
    report = bring(store, packed.getvalue(), "conversations.zip")
    assert [one.title for one in report.chats] == ["Dice", "Short", "Short"] and report.format == "llama.cpp"


def test_llama_cpp_as_its_database(store: SessionStore) -> None:
    report, trees = trees_of(store, "llama_cpp_tables.json")
    assert report.format == "llama.cpp"
    assert said(trees["Old page"]) == [("user", "Count to two."), ("assistant", "One, two.")]
    assert trees["Old page"].nodes[1].reasoning == "Easy."
    assert trees["Old page"].nodes[0].attachments[0].data == b"one two three"


def test_openai_messages(store: SessionStore) -> None:
    report, trees = trees_of(store, "openai.jsonl")
    rivers, looks = trees["Name a river."], trees["What is on it?"]
    assert report.format == "openai" and rivers.system_prompt == "You are brief." and len(rivers.nodes) == 4
    assert looks.system_prompt == "Use tools." and looks.nodes[0].attachments[0].data == b"\x89PNG"[:4]
    assert [one.role for one in looks.nodes] == ["user", "assistant", "tool", "assistant"]
    assert '"name": "look"' in looks.nodes[1].content and looks.nodes[3].reasoning == "The tool says so."


def test_sharegpt(store: SessionStore) -> None:
    report, trees = trees_of(store, "sharegpt.json")
    lake = trees["Name a lake."]
    assert report.format == "sharegpt" and trees["Name a river."].system_prompt == "You are brief."
    assert lake.system_prompt == "You know lakes."
    assert (lake.nodes[1].content, lake.nodes[1].reasoning) == ("Lake Ladoga.", "A big one.")
    assert lake.nodes[2].role == "tool" and lake.nodes[2].content == "17,700 km²"


def test_text_generation_webui(store: SessionStore) -> None:
    report, trees = trees_of(store, "textgen.json")
    (tree,) = trees.values()
    assert report.format == "text-generation-webui" and report.chats[0].repairs == []
    assert said(tree) == [
        ("assistant", "Good day, traveller."),
        ("user", "Name a bridge & say why."),
        ("assistant", "The Karlův most, 1 < 2 of all."),
        ("user", "And another?"),
        ("assistant", "The Alte Brücke."),
        ("user", "Is it old?"),
    ]
    assert tree.nodes[2].reasoning == "Old ones last."
    file = json.loads((SAMPLES / "textgen.json").read_text("utf-8"))
    for name, pairs in (("data", file["internal"]), ("visible", file["visible"])):
        (older,) = bring(store, {name: pairs}).chats
        assert said(store.exchange.read_tree(older.id)) == said(tree)


def test_a_conversation_can_be_a_bare_list_or_a_single_object(store: SessionStore) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]
    for file in (messages, {"messages": messages}, turns, {"conversations": turns}, {"data": [{"messages": messages}]}):
        report = bring(store, file)
        assert said(store.exchange.read_tree(report.chats[0].id)) == [("user", "Hi"), ("assistant", "Hello")]


def test_replies_with_a_model_are_found_by_it(store: SessionStore) -> None:
    trees_of(store, "openwebui.json")
    store.search.take_in()
    assert store.search.find("model:qwen3 moon", limit=5, offset=0).total == 1


@pytest.mark.parametrize("name", sorted(one.name for one in SAMPLES.iterdir()))
def test_what_a_file_is_called_does_not_matter(name: str) -> None:
    data = (SAMPLES / name).read_bytes()
    reading = read_file("photo.jpg", data)
    assert reading.report.format in FORMATS and FORMATS[reading.report.format].reads
    marked = read_file("", b"\xef\xbb\xbf" + data)
    other = read_file("", data.decode().encode("utf-16"))
    for again in (marked, other):
        assert [contents(tree) for tree, _ in again.trees] == [contents(tree) for tree, _ in reading.trees]


def test_entries_of_several_programs_in_one_list_are_each_read() -> None:
    chats = [*json.loads((SAMPLES / "chatgpt.json").read_text()), *json.loads((SAMPLES / "llama_cpp.json").read_text())]
    reading = read_file("mixed.json", json.dumps([*chats, {"what": "ever"}, 7]).encode())
    assert [tree.origin for tree, _ in reading.trees] == ["chatgpt", "chatgpt", "llama.cpp"]
    assert [one["chat"] for one in reading.report.skipped] == ["entry 4", "entry 5"]
