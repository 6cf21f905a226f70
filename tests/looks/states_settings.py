"""States of the settings, section by section, and of what is set up there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Locator, expect

from looks.stage import PHONE, WIDE, Stage
from looks.table import STATES, State, state

SECTIONS = {
    "Model and device": "820 blocks of 16",
    "Context policy": "acts now",
    "Presets": "Librarian",
    "Storage": "sessions.db",
    "Privacy": "sessions.db",
    "Alerts": "rules without a baseline",
    "Shortcuts": "Write a message",
    "About": "Apache-2.0",
}
"""Title of each section besides that of a chat, and something that it says."""
SYSTEM = "You are the librarian of {{library}}. Today is 2026-11-30, the time is 08:15. Ticket no. 4711 is open."
TOOLS = '[{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]'
PRESET = {
    "name": "Librarian",
    "system_prompt": "You are a librarian. You speak of the books of 2025.",
    "policy": "Never tell who has borrowed a book.",
    "tools": TOOLS,
    "examples": [
        {"role": "user", "content": "Have you Moby-Dick?"},
        {"role": "assistant", "content": "Shelf 4."},
    ],
    "params": {"temperature": 0.3, "top_p": 0.8},
}


def open_section(stage: Stage, title: str) -> Locator:
    """The settings at one of their sections."""
    dialog = stage.page.locator("#pc-settings")
    if not dialog.is_visible():
        stage.page.locator("#pc-top").get_by_role("button", name="Settings").click()
    dialog.get_by_role("navigation").get_by_role("button", name=title, exact=True).click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text(title)
    return dialog


def _preset(stage: Stage) -> dict[str, Any]:
    """The preset of these states, as it is stored."""
    library = stage.server.service.library
    found = stage.server.do(library.presets())
    return found[0] if found else stage.server.do(library.save_preset(PRESET))


def _close(stage: Stage) -> None:
    dialog = stage.page.locator("#pc-settings")
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(dialog).to_be_hidden()


def _section(title: str, sentence: str) -> State:
    def arrange(stage: Stage) -> Iterator[None]:
        _preset(stage)
        open_section(stage, title)
        yield
        _close(stage)

    return State(f"settings_{title.lower().replace(' ', '_')}", sentence, "#pc-settings .set-page:visible", arrange)


for one in SECTIONS.items():
    STATES.append(_section(*one))


@state("This chat", "#pc-settings .set-nav")
def sections_on_a_phone(stage: Stage) -> Iterator[None]:
    stage.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    stage.page.locator("#pc-top").get_by_role("button", name="Settings").click()
    expect(stage.page.locator("#pc-settings")).to_be_visible()
    yield
    _close(stage)
    stage.page.set_viewport_size(WIDE)  # type: ignore[arg-type]


@state("is sent as it stands", "[data-part=system_prompt] .part-notes")
def preset_editor(stage: Stage) -> Iterator[None]:
    library = stage.server.service.library
    preset = _preset(stage)
    stage.asked("Before the preset")
    open_section(stage, "Presets").get_by_label("New chat with Librarian").click()
    stage.ask("Who has borrowed Moby-Dick?")
    stage.server.do(library.save_preset({"id": preset["id"], "system_prompt": PRESET["system_prompt"] + " And 2026."}))
    open_section(stage, "Presets").get_by_label("Edit Librarian").click()
    expect(stage.test_id("drift")).to_be_visible()
    stage.test_id("preset-form").get_by_label("System prompt").fill(SYSTEM)
    yield
    stage.test_id("preset-form").get_by_role("button", name="Cancel").click()
    stage.page.locator(".toast").last.get_by_role("button", name="Dismiss").click()
    _close(stage)
