"""States of the KV panel: its menu, its tour, a block that is picked, moments of the past, recordings, the engine."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import expect

from looks.stage import Stage
from looks.table import state

REPLY = "The table of a branch says where each of its blocks lies, and a fork shares all that is above it. "
FORKED = "What does a fork cost?"
OPEN_RECORDING = """() => Promise.all([import('/ui/static/recording.js'), pagedchat.page.panel]).then(
    ([{ opened, written }, { replay, hueOf }]) => replay.open(opened(
        JSON.stringify(written(replay.recorder, { hueOf, titleOf: () => null })), 'fork.json')))"""


@state("Forget cached blocks", "[data-testid=menu]")
def panel_menu(stage: Stage) -> Iterator[None]:
    stage.asked("Which blocks are cached?", REPLY)
    stage.test_id("kv-menu").click()
    yield
    stage.page.keyboard.press("Escape")


@state("shares", "#pc-kv [data-testid=tour-words]", phone="panel")
def tour_and_prefixes(stage: Stage) -> Iterator[None]:
    _forked(stage)
    stage.test_id("kv-menu").click()
    stage.test_id("kv-tour").click()
    while stage.test_id("tour").get_attribute("data-stop") != "fork":
        stage.test_id("tour-next").click()
    expect(stage.test_id("kv-prefix-tree").get_by_role("treeitem").first).to_be_visible()
    yield
    stage.test_id("tour-next").press("Enter")


@state("Cached", "#pc-kv [data-testid=block-says]", phone="panel")
def block_picked(stage: Stage) -> Iterator[None]:
    _forked(stage)
    stage.panel_tab("table")
    stage.test_id("kv-table").locator("tbody tr").first.click()
    stage.panel_tab("block")
    yield
    stage.page.evaluate("pagedchat.page.panel.pick(null)")
    stage.panel_tab("table")


@state("The past", "#pc-kv [data-testid=kv-time]", phone="panel")
def moment_of_the_past(stage: Stage) -> Iterator[None]:
    stage.asked("What has just happened?", REPLY)
    stage.panel_tab("events")
    stage.test_id("kv-step-back").click()
    stage.test_id("kv-step-back").click()
    yield
    stage.page.evaluate("pagedchat.page.panel.replay.close()")
    stage.panel_tab("table")


@state("Recording", "#pc-kv [data-testid=kv-time]", phone="panel")
def recording_played_back(stage: Stage) -> Iterator[None]:
    _forked(stage)
    stage.page.evaluate(OPEN_RECORDING)
    yield
    stage.page.evaluate("pagedchat.page.panel.replay.close()")


@state("Prefix hits", "#pc-kv #pc-kv-engine", phone="panel")
def engine_of_the_panel(stage: Stage) -> Iterator[None]:
    _forked(stage)
    stage.panel_tab("engine")
    yield
    stage.panel_tab("table")


def _forked(stage: Stage) -> None:
    """A chat whose reply has two versions; the states share it."""
    if FORKED in stage.chats:
        stage.show(stage.chats[FORKED])
        return
    stage.asked(FORKED, REPLY * 3)
    stage.reply(REPLY * 2)
    stage.regenerate(stage.messages("assistant").last, "2/2")
    stage.chats[FORKED] = stage.session_id
