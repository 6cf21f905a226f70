"""What the page keeps of the pool: each moment of it is what the engine's own snapshot was, and so are those of a file
that is saved, closed and played back without an engine."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from pagedchat.ui.kv_feed import page_event
from support.page_driver import PageDriver
from support.page_server import PageServer
from support.paged_client import PagedFakeClient
from support.pool_story import PoolReference, PoolStory

LETTERS = "fcas"
BEGIN = """async ({ total, size, events, most }) => {
  const { Recorder } = await import('/ui/static/recorder.js');
  const { KvModel } = await import('/ui/static/kvmodel.js');
  const model = new KvModel();
  model.load({ seq: 0, num_blocks: total, block_size: size, states: 'f'.repeat(total), held: [], pins: [] });
  window.recorder = new Recorder(most);
  recorder.begin(model, 0);
  for (const event of events) recorder.take(event);
  return [recorder.seqOf(recorder.first), recorder.seqOf(recorder.last)];
}"""
LOOK = """(seqs) => seqs.map((seq) => {
  const model = recorder.model(seq);
  const owners = {};
  for (const block of model.owners.keys()) owners[block] = model.ownersOf(block).sort();
  const { seq: number, totals, pins: { size: pins } } = model;
  return { seq: number, states: [...model.state], refs: [...model.refs], owners, pins, totals };
})"""
SEEN = """async () => { const { replay, grid, figures } = window.pagedchat.page.panel, found = [];
  const { source } = replay, legend = document.querySelector('#pc-kv .legend');
  const drawn = () => Number(grid.element.dataset.seq) === source.seqOf(replay.place);
  const shown = () => ({ ...grid.element.dataset,
    states: [...grid.model.state].join(''), refs: [...grid.model.refs].join(),
    owners: [...grid.model.owners].map(([block, holders]) => [block, holders.size]).sort(([a], [b]) => a - b),
    hits: figures.gauges.hits.textContent, active: legend.querySelector('.active').textContent,
    type: replay.event?.type ?? null, time: source.timeOf(replay.place),
    words: document.querySelector('[data-testid=kv-moment-words]').textContent });
  for (let place = source.first; place <= source.last; place++) {
    replay.go(place);
    do await new Promise(requestAnimationFrame); while (!drawn());
    found.push(shown());
  }
  return found; }"""
TOLD = """() => { const { recorder } = window.pagedchat.page.panel.replay;
  return recorder.stats.at(-1)?.place === recorder.last; }"""
OPENED = """async (texts) => { const { opened } = await import('/ui/static/recording.js');
  const said = (text) => { try { opened(text, 'file.json'); return null; } catch ({ message }) { return message; } };
  return texts.map(said); }"""
DROP = """([text, name]) => { const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File([text], name));
  const drop = new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true });
  document.getElementById('pc-kv').dispatchEvent(drop); }"""


def menu(chat: PageDriver, entry: str) -> Locator:
    """Open the panel's menu; the entry of it."""
    chat.test_id("kv-menu").click()
    return chat.test_id("menu").get_by_test_id(entry)


def save(chat: PageDriver, folder: Path, titles: bool = False) -> Path:
    """Save a recording by the menu; the file."""
    menu(chat, "kv-save-recording").click()
    if titles:
        chat.test_id("kv-with-titles").check()
    with chat.page.expect_download() as download:
        chat.test_id("confirm").click()
    chat.page.locator(".toast").last.get_by_role("button", name="Dismiss").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def open_file(chat: PageDriver, path: Path) -> None:
    """Choose a file by the menu."""
    with chat.page.expect_file_chooser() as chooser:
        menu(chat, "kv-open-recording").click()
    chooser.value.set_files(path)


def seen_moments(chat: PageDriver) -> list[dict[str, Any]]:
    """What is shown of each moment from the first one on."""
    return chat.page.evaluate(SEEN)


def test_a_recording_is_saved_closed_and_played_back_without_an_engine(context: BrowserContext, tmp_path: Path) -> None:
    client = PagedFakeClient(lambda request: f"{len(client.requests)} words of a reply. ")
    with PageServer(tmp_path, client) as server:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.new_chat()
        chat.ask("A secret question whose blocks are shared by two replies")
        chat.regenerate(chat.messages("assistant").last, "2/2")
        expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", str(client.events[-1]["seq"]))
        chat.page.wait_for_function(TOLD)
        live = seen_moments(chat)
        assert live[-1]["hits"].endswith("%") and live[1]["hits"] == "–"
        assert len(live) == len(client.events) + 1
        chat.test_id("kv-live").click()
        path = save(chat, tmp_path)
        said = path.read_text()
        assert "secret" not in said and chat.session_id not in said and "words of" not in said
        server.call(client.set_status, "restarting")
        expect(chat.page.locator(".lamp")).to_have_text("not live")
        open_file(chat, path)
        expect(chat.page.locator(".lamp")).to_have_text("recording")
        chat.page.keyboard.press("Escape")
    expect(chat.page.locator(".lamp")).to_have_text("not live")
    open_file(chat, path)
    bar = chat.test_id("kv-time")
    expect(bar).to_have_attribute("data-state", "recording")
    expect(chat.page.locator(".lamp")).to_have_text("recording")
    expect(chat.page.locator("#pc-kv")).to_have_class("kv past")
    played = seen_moments(chat)
    for moment in live:
        moment["words"] = moment["words"].replace("This chat", "Chat 1").replace("this chat", "chat 1")
    assert played == live and {"copied", "released"} <= {moment["type"] for moment in played}
    chat.panel_tab("events").locator(".event.copied").click()
    expect(chat.page.locator(".event[aria-selected=true]")).to_contain_text("chat 1")
    chat.test_id("kv-live").click()  # Close the recording
    expect(chat.page.locator(".lamp")).to_have_text("not live")
    expect(chat.test_id("kv-grid")).to_have_attribute("data-seq", live[-1]["seq"])
    chat.page.close()


def test_titles_are_in_a_recording_only_where_they_are_asked_for(
    same_page: PageDriver, server: PageServer, tmp_path: Path
) -> None:
    same_page.ask("Named after this question")
    title = same_page.page.evaluate("pagedchat.page.session.title")
    assert title not in save(same_page, tmp_path).read_text()
    named = json.loads(save(same_page, tmp_path, titles=True).read_text())
    assert title in [owner["title"] for owner in named["owners"]]
    assert same_page.session_id not in json.dumps(named)


def test_a_saved_snapshot_is_that_of_the_engine(same_page: PageDriver, server: PageServer, tmp_path: Path) -> None:
    same_page.ask("Some blocks")
    snapshot = server.do(server.client.snapshot())
    expect(same_page.test_id("kv-grid")).to_have_attribute("data-seq", str(snapshot["seq"]))
    with same_page.page.expect_download() as download:
        menu(same_page, "kv-save-snapshot").click()
    file = json.loads(Path(download.value.path()).read_text())
    names = ("seq", "block_size", "num_blocks", "free", "cached", "active", "shared", "pinned")
    assert {name: file[name] for name in names} == {name: snapshot[name] for name in names}
    for saved, told in zip(file["blocks"], snapshot["blocks"], strict=True):
        assert {name: saved[name] for name in ("id", "state", "ref_count")} == {
            name: told[name] for name in ("id", "state", "ref_count")
        }


def broken(whole: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> str:
    """The text of a recording after a change."""
    file = copy.deepcopy(whole)
    change(file)
    return json.dumps(file)


@pytest.fixture
def whole(same_page: PageDriver, server: PageServer, tmp_path: Path) -> dict[str, Any]:
    """A recording that can be opened, as a user makes one."""
    same_page.page.evaluate("() => { const p = pagedchat.page.panel; p.replay.recorder.begin(p.model, 1); }")
    same_page.ask("To be recorded")
    expect(same_page.test_id("kv-grid")).to_have_attribute("data-seq", str(server.client.events[-1]["seq"]))
    file = json.loads(save(same_page, tmp_path).read_text())
    assert same_page.page.evaluate(OPENED, [json.dumps(file)]) == [None]
    return file


def hold_first(file: dict[str, Any], held: list[Any], states: str) -> None:
    """Say that the first blocks of the base are held, and no others."""
    file["base"].update(held=held, states=states.ljust(file["num_blocks"], "f"))


CHANGES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda file: file.update(format="openai"), "is not a recording of KV blocks"),
    (lambda file: file.update(version=7), "made by a newer pagedchat: it is of version 7"),
    (lambda file: file.update(version="1"), "its version"),
    (lambda file: file.update(num_blocks=-3), "the size of its pool"),
    (lambda file: file.pop("events"), "its events are missing"),
    (lambda file: file.update(base=None), "the pool at its beginning is missing"),
    (lambda file: file["base"].update(states="fx"), "a state for each of"),
    (lambda file: file["base"].update(held=[[0, 3, []]]), "the pool at its beginning"),
    (lambda file: file["events"].pop(1), "event 2 does not follow the one before"),
    (lambda file: file["events"][0].update(type="exploded"), "event 1 is of an unknown kind"),
    (lambda file: file["events"][0].update(blocks=[10**7], ref_counts=[1], states="a"), "that the pool does not have"),
    (lambda file: file["events"][0].update(blocks=[1], ref_counts=[2], states="a"), "do not fit the states"),
    (lambda file: file["events"][0].update(blocks=None, spans=[["x"]]), "which blocks it is about"),
    (lambda file: file["events"][0].update(blocks=None, spans=[[0, 10**12]], states="a"), "which blocks it is about"),
    (lambda file: file["events"][0].update(time="noon"), "the time of event 1"),
    (lambda file: file["events"].insert(0, None), "event 1 is missing"),
    (lambda file: file["events"][0].update(time=1e300), "the time of event 1"),
    (lambda file: file["events"][0].update(owner={"a": 1}), "whose it is, or of how many tokens"),
    (lambda file: file["events"][0].update(num_tokens="<b>"), "whose it is, or of how many tokens"),
    (lambda file: file["base"].update(time=-1e300), "the time of its beginning"),
    (lambda file: file["base"].update(last=[1]), "who held what last"),
    (lambda file: file["base"].update(pins=[10**7]), "a pin on a block that the pool does not have"),
    (lambda file: hold_first(file, [[0, 1, []], [0, 1, []]], "aa"), "the pool at its beginning has a count"),
    (lambda file: hold_first(file, [[0, 1, [{}]]], "a"), "the pool at its beginning does not say who holds what"),
]


def test_a_file_that_is_wrong_is_refused_with_what_is_wrong(same_page: PageDriver, whole: dict[str, Any]) -> None:
    texts = [broken(whole, change) for change, _ in CHANGES] + [json.dumps(whole)[:-40], "", "null", "[1]"]
    said = same_page.page.evaluate(OPENED, texts)
    for sentence, (_, words) in zip(said, CHANGES, strict=False):
        assert sentence and words in sentence and "file.json" in sentence, (words, sentence)
        assert sentence.endswith("Nothing was opened.")
    assert "not whole JSON" in said[len(CHANGES)] and all(said[len(CHANGES) :])
    before = same_page.grid()
    same_page.page.evaluate(DROP, [texts[0], "wrong.json"])
    expect(same_page.page.locator(".toast.danger")).to_contain_text("“wrong.json” is not a recording of KV blocks")
    expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "live")
    assert same_page.grid() == before
    same_page.page.evaluate(DROP, [json.dumps(whole), "right.json"])
    expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "recording")
    same_page.page.evaluate(DROP, [texts[1], "newer.json"])  # the open one stays
    expect(same_page.page.locator(".toast.danger").last).to_contain_text("newer pagedchat")
    expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "recording")
    same_page.test_id("kv-live").click()
    expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "live")


def test_counters_that_are_none_are_left_out(same_page: PageDriver, whole: dict[str, Any]) -> None:
    counters = {"prompt_tokens": 8, "cached_tokens": 2, "preemptions": 0, "running": 0, "waiting": 0}
    good = {"place": len(whole["events"]), **counters}
    odd = [None, 5, {}, [], {**good, "place": -1}, {**good, "place": 10**6}, {**good, "cached_tokens": "x"}]
    odd += [{**good, "cached_tokens": good["prompt_tokens"] + 1}, {**good, "preemptions": 0.5}]
    for stats, hits in ((odd, "–"), ([*odd, good], "25.0 %")):
        same_page.page.evaluate(DROP, [json.dumps({**whole, "stats": stats}), "odd.json"])
        expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "recording")
        assert seen_moments(same_page)[-1]["hits"] == hits
        same_page.test_id("kv-live").click()
        expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "live")


def test_a_recording_tells_the_size_of_its_own_pool(same_page: PageDriver, whole: dict[str, Any]) -> None:
    size = same_page.page.locator("#pc-kv .legend small")
    here = size.inner_text()
    whole.update(num_blocks=1_234, block_size=8, events=[], stats=[])
    hold_first(whole, [], "")
    same_page.page.evaluate(DROP, [json.dumps(whole), "small.json"])
    expect(size).to_have_text("1,234 × 8 tokens")
    same_page.test_id("kv-live").click()
    expect(size).to_have_text(here)
    assert "1,234" not in here and ", " in here


def test_a_copy_that_is_told_by_spans_is_played(same_page: PageDriver, whole: dict[str, Any]) -> None:
    hold_first(whole, [[0, 1, ["chat 1"]]], "a")
    copy_event = {"seq": whole["base"]["seq"] + 1, "time": 5, "type": "copied", "num_tokens": 3, "owner": "chat 1"}
    whole["events"] = [{**copy_event, "spans": [[0, 2]], "ref_counts": [0, 1], "states": "ca"}]
    same_page.page.evaluate(DROP, [json.dumps(whole), "spans.json"])
    expect(same_page.test_id("kv-time")).to_have_attribute("data-state", "recording")
    same_page.test_id("kv-step-on").click()
    expect(same_page.test_id("kv-moment-words")).to_contain_text("block 0 was copied to block 1")
    same_page.test_id("kv-live").click()


def recorded(page: PageDriver, story: PoolStory, most: int) -> tuple[int, int]:
    """Give a story's events to a recorder on the page; the numbers of its first and last moment."""
    events = [page_event(event) for event in story.events]
    given = {"total": story.kv.pool.num_blocks, "size": 4, "events": events, "most": most}
    first, last = page.page.evaluate(BEGIN, given)
    return first, last


def look(page: PageDriver, seqs: list[int]) -> list[dict[str, Any]]:
    """What the recorder says of these moments, one after the other."""
    return page.page.evaluate(LOOK, seqs)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_moment_is_that_of_the_snapshot(same_page: PageDriver, seed: int) -> None:
    story = PoolStory(seed)
    story.go_on(400)
    kinds = {event["type"] for event in story.events}
    assert {"evicted", "copied", "pinned", "reset", "preempted", "shared"} <= kinds, kinds
    most = 500
    first, last = recorded(same_page, story, most)
    assert last == story.events[-1]["seq"] and most <= last - first < len(story.events)
    chance = random.Random(seed)
    seqs = [seq for seq in story.moments if seq >= first]
    for order in (seqs, seqs[::-1], chance.sample(seqs, 40)):
        for seq, found in zip(order, look(same_page, order), strict=True):
            moment = story.moments[seq]
            assert (found["seq"], found["refs"], found["owners"]) == (seq, moment["refs"], moment["owners"])
            assert "".join(LETTERS[state] for state in found["states"]) == moment["states"]
            assert found["pins"] == story.pins[seq]


def test_between_two_steps_a_moment_is_what_the_events_so_far_say(same_page: PageDriver) -> None:
    story = PoolStory(4)
    story.go_on(120)
    first, last = recorded(same_page, story, 5_000)
    assert first == 0, "all of it is kept"
    reference = PoolReference(story.begin)
    for event, found in zip(story.events, look(same_page, list(range(1, last + 1))), strict=True):
        reference.apply(event)
        assert {**found["totals"], "seq": found["seq"]} == reference.totals()
        assert "".join(LETTERS[state] for state in found["states"]) == "".join(reference.states)
        assert found["refs"] == reference.refs


def test_a_record_stays_small_however_much_happens(same_page: PageDriver) -> None:
    kept = same_page.page.evaluate(
        """async () => {
          const { Recorder } = await import('/ui/static/recorder.js');
          const { KvModel } = await import('/ui/static/kvmodel.js');
          const model = new KvModel(), total = 50000;
          model.load({ seq: 0, num_blocks: total, block_size: 16, states: 'f'.repeat(total), held: [], pins: [] });
          const recorder = new Recorder();
          recorder.begin(model, 0);
          for (let seq = 1; seq <= 12000; seq++) {
            const owner = `s${seq % 8}`, type = seq % 2 ? 'allocated' : 'released', count = seq % 2;
            const blocks = Array.from({ length: 30 }, (_, at) => ((seq >> 1) * 30 + at * 7) % total);
            const states = (count ? 'a' : 'c').repeat(30), counts = blocks.map(() => count);
            recorder.take({ seq, type, time: seq, owner, blocks, ref_counts: counts, states });
            recorder.takeStats({ prompt_tokens: seq, cached_tokens: 0 });
          }
          for (let seq = 12000; seq > 0; seq -= 100) recorder.model(seq);
          const { events, stats, checkpoints, first, last } = recorder;
          const sizes = { events: events.length, stats: stats.length, checkpoints: checkpoints.size };
          return { ...sizes, first, last, base: recorder.base.seq };
        }"""
    )
    assert kept["first"] == kept["base"] and kept["last"] == 12_000
    assert 4_000 < kept["events"] <= 5_100 and kept["stats"] <= 1_000 and kept["checkpoints"] <= 6
