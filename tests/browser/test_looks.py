"""Every state of the page in ``tests/looks`` can be reached, says its sentence, and axe finds nothing wrong in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from looks.stage import PHONE, WIDE, Stage, open_stage
from looks.states import STATES
from support.axe import findings, load_axe

VIEWS = (("light", WIDE), ("dark", WIDE), ("light", PHONE))
MAIN = ("whole_reply", "settings")
"""States that are checked in every view; the others take turns."""
OFF = ("region",)
"""No rule of WCAG: menus and notices stand over the page, outside of its landmarks."""
ALIKE = {
    *("loading", "asked_while_loading", "waiting_for_its_turn", "stopped", "restarting", "database_newer"),
    *("nothing_found", "empty_archive", "very_long_title", "limit_reached", "fetching", "deleted_with_undo"),
}
"""States of which axe would see nothing but what it sees in another."""
KNOWN = {
    "aria-allowed-role: .contain:": "Gradio's main part around everything, called presentation, as ours is one",
    "scrollable-region-focusable: #pc-commands:": "the arrow keys move its choice while the focus stays in the field",
    "label-content-name-mismatch: #pc-tree-": "a row's name has its text, and in words what beside it is figures",
}
"""Findings that stay, each by its rule and element, with the reason."""


@pytest.fixture(scope="module")
def stage(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(chromium, tmp_path_factory.mktemp("looks")) as stage:
        stage.page.emulate_media(reduced_motion="reduce")
        yield stage


def found_in(stage: Stage, views: tuple) -> list[str]:
    """What axe finds in the page as it stands, in these views."""
    found, own_size = [], stage.page.viewport_size != WIDE
    if views and stage.page.evaluate("typeof axe") == "undefined":
        load_axe(stage.page)
    for scheme, size in views:
        if not own_size:
            stage.page.set_viewport_size(size)
        stage.page.emulate_media(color_scheme=scheme)
        found += [one for one in findings(stage.page, "body", OFF) if not one.startswith(tuple(KNOWN))]
    if not own_size:
        stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("part", range(3))
def test_every_state_can_be_reached_says_its_sentence_and_is_accessible(stage: Stage, part: int) -> None:
    wrong = {}
    for number, state in list(enumerate(STATES))[part::3]:
        with state.on(stage):
            views = VIEWS if state.name in MAIN else (VIEWS[(number // 3) % 3],)
            views = () if state.name in ALIKE else views
            if found := found_in(stage, views):
                wrong[state.name] = found
    assert wrong == {}
    assert stage.errors == []


def test_every_state_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({one.name for one in STATES}) == len(STATES) >= 39
    assert all(one.sentence and one.where for one in STATES)
    assert {*ALIKE, *MAIN} < {one.name for one in STATES}
