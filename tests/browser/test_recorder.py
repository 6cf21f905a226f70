"""The page's record of the pool: each moment of it is what the engine's own snapshot was."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pagedchat.ui.kv_feed import page_event
from support.page_driver import PageDriver
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
  const model = recorder.at(seq);
  const owners = {};
  for (const block of model.owners.keys()) owners[block] = model.ownersOf(block).sort();
  const { seq: number, totals, pins: { size: pins } } = model;
  return { seq: number, states: [...model.state], refs: [...model.refs], owners, pins, totals };
})"""


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
          for (let seq = 12000; seq > 0; seq -= 100) recorder.at(seq);
          const { events, stats, checkpoints, first, last } = recorder;
          const sizes = { events: events.length, stats: stats.length, checkpoints: checkpoints.size };
          return { ...sizes, first, last, base: recorder.base.seq };
        }"""
    )
    assert kept["first"] == kept["base"] and kept["last"] == 12_000
    assert 4_000 < kept["events"] <= 5_100 and kept["stats"] <= 1_000 and kept["checkpoints"] <= 6
