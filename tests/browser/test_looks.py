"""Every state of the page in ``tests/looks`` can be reached, says its sentence, and axe finds nothing wrong in it.

Nothing is drawn but what is asked for: one page goes through all states, and what a look cannot change is not checked
again in it. All rules run in light; in dark only the one of contrast; on a phone all but that one, as the colours are
those of light. With PAGEDCHAT_TRIALS under 5 most states are seen in one look, half of them in light, and those are
left out in which axe would see nothing new.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Error

from looks.stage import Stage, open_stage
from looks.states import STATES
from looks.table import State, View
from support.axe import findings, load_axe

TRIALS = int(os.environ.get("PAGEDCHAT_TRIALS", "5"))
MAIN = ("whole_reply", "five_thousand_chats", "settings", "blocks_on_a_phone")
"""States of which axe sees the whole page in every view; of the others it sees the part in which they differ."""
LONG = ("very_long_chat", "very_long_message")
"""States with very much of what others have too: axe sees what says their sentence."""
OFF = ("region",)
"""No rule of WCAG: menus and notices stand over the page, outside of its landmarks."""
CONTRAST = "color-contrast"
ALIKE = {
    *("loading", "asked_while_loading", "waiting_for_its_turn", "stopped", "restarting", "database_newer"),
    *("nothing_found", "empty_archive", "very_long_title", "limit_reached", "fetching", "deleted_with_undo"),
    *("summary_folded", "waiting_message_taken_back", "opened_file", "message_menu", "message_longer_than_the_context"),
}
"""States of which axe would see nothing but what it sees in another."""
KNOWN = {
    "aria-allowed-role: .contain:": "Gradio's main part around everything, called presentation, as ours is one",
    "scrollable-region-focusable: #pc-commands:": "the arrow keys move its choice while the focus stays in the field",
    'label-content-name-mismatch: button[aria-label="“': "a token stands in quotes in its name, blanks in words",
    "label-content-name-mismatch: .several": "a row's name has its text, with words in place of dots",
    "label-content-name-mismatch: div[data-blocks=": "the same, where axe names the row by its blocks",
    "label-content-name-mismatch: #pc-tree-": "a row's name has its text, and in words what beside it is figures",
}
"""Findings that stay, each by its rule and element, with the reason."""
PART = """() => {
    const settings = document.documentElement.hasAttribute('data-settings') ? '#pc-settings' : null;
    const over = ['dialog[open]', '.menu-box', '[data-testid=tree]:not([hidden])'].map((one) => `#pc ${one}`);
    const part = over.find((one) => document.querySelector(one)) ?? settings;
    if (part) return part;
    return document.querySelector('#pc').dataset.sidebar === 'open' && innerWidth < 820 ? '#pc-side' : '#pc .main';
}"""
"""Where a state takes place: what stands over the page, else the chat."""
UNMARKED = """() => {
    const shown = (one) => one.checkVisibility() && !one.closest('[inert]') && one.getBoundingClientRect().width > 1;
    const outlined = (one) => one && (getComputedStyle(one).outlineStyle === 'solid' || outlined(one.parentElement));
    const chosen = '[aria-selected=true], [aria-pressed=true], .set-nav [aria-current], .item.on, :focus-visible';
    return [...document.querySelectorAll('#pc, #pc-settings')].flatMap((root) => [...root.querySelectorAll(chosen)])
        .filter((one) => shown(one) && !outlined(one)).map((one) => one.outerHTML.slice(0, 120));
}"""
"""What is chosen or has the focus, and shows it by colour alone."""
MOVES = """() => document.getAnimations().filter((one) => one.playState === 'running' &&
    one.effect.getComputedTiming().duration > 20).map((one) => one.animationName ?? one.transitionProperty)"""
STICKS_OUT = """() => [...document.querySelectorAll(
    '.pc .main *, .pc dialog[open] *, #pc-settings *, #pc-side *, #pc-kv :not(.event-marks, .event-marks *)')]
    .filter((one) => one.checkVisibility() && !one.closest('pre, .table-holder, math, [inert], .unseen, .token-box'))
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def stage(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with open_stage(chromium, tmp_path_factory.mktemp("looks")) as stage:
        stage.page.emulate_media(reduced_motion="reduce")
        yield stage


def found_in(stage: Stage, state: State, view: View) -> list[str]:
    """What is wrong in the page as it stands."""
    page = stage.page
    if view == "forced":
        return [f"only by colour: {one}" for one in page.evaluate(UNMARKED)]
    wrong = [f"moves: {one}" for one in page.evaluate(MOVES)] if view == "light" else []
    if view in ("phone", "zoom"):
        wrong += [f"sticks out: {one}" for one in page.evaluate(STICKS_OUT)]
    if view == "zoom" or state.name in ALIKE:
        return wrong
    if page.evaluate("typeof axe") == "undefined":
        load_axe(page)
    scope = "body" if state.name in MAIN else state.where if state.name in LONG else page.evaluate(PART)
    if state.where.startswith("#pc-kv ") and state.name not in MAIN:
        scope = "#pc-kv"
    off, only = (*OFF, *([CONTRAST] if view == "phone" else [])), (CONTRAST,) if view == "dark" else ()
    return wrong + [one for one in findings(page, scope, off, only) if not one.startswith(tuple(KNOWN))]


def views_of(state: State, number: int) -> list[View]:
    """Light and dark for all, the other views by turns, but for the main states; in few trials one view, by turns."""
    if state.name in MAIN:
        return ["light", "dark", "phone", "zoom", "forced"]
    turns: list[View] = ["phone", "zoom", "forced"]
    turn: View = "phone" if state.phone in ("list", "anew") else turns[number // 3 % 3]
    if state.name in ALIKE:
        return [turn]
    few: tuple[View, ...] = ("light", "light", "dark", turn)
    return ["light", "dark", turn] if TRIALS >= 5 else [few[number // 3 % 4]]


def look(stage: Stage, state: State, views: list[View]) -> dict[str, list[str]]:
    """What is wrong in a state, by view."""
    found = {f"{state.name}, {view}": found_in(stage, state, view) for view in state.seen(stage, views)}
    return {view: wrong for view, wrong in found.items() if wrong}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(3))
def test_every_state_can_be_reached_says_its_sentence_and_is_accessible(stage: Stage, part: int) -> None:
    wrong: dict[str, list[str]] = {}
    for number, state in list(enumerate(STATES))[part::3]:
        if TRIALS < 5 and state.name in ALIKE:
            continue
        views = views_of(state, number)
        try:
            found = look(stage, state, views)
        except (AssertionError, Error):
            stage.begin_again()
            try:  # how a state looks is asked here: one that is reached at the second time is looked at all the same
                found = look(stage, state, views)
            except (AssertionError, Error) as error:  # the states after it are seen, too
                found = {state.name: [str(error)[:400]]}
                stage.begin_again()
        wrong |= found
    assert wrong == {}
    assert stage.errors == []


def test_every_state_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len({one.name for one in STATES}) == len(STATES) >= 84
    assert all(one.sentence and one.where for one in STATES)
    assert {*ALIKE, *MAIN, *LONG} < {one.name for one in STATES}
