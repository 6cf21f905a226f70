"""Settings in sections: every setting of a chat with its way back, storage, privacy, presets and their editor."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Locator, expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def open_section(chat: PageDriver, name: str) -> Locator:
    """The settings, at one of their sections."""
    dialog = chat.page.locator("#pc-settings")
    if not dialog.is_visible():
        chat.page.get_by_role("button", name="Settings", exact=True).first.click()
    dialog.get_by_role("navigation").get_by_role("button", name=name, exact=True).click()
    expect(dialog.get_by_role("heading", level=2)).to_have_text(name)
    return dialog


def close(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Close", exact=True).click()
    expect(dialog).not_to_be_visible()


def test_what_a_chat_has_of_its_own_is_marked_and_each_goes_back_alone(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    dialog = open_section(chat, "This chat")
    expect(dialog.locator(".set-own")).to_have_count(0)
    expect(dialog.get_by_label("Presence penalty")).to_be_hidden()
    dialog.get_by_role("button", name="More sampling").click()
    for side_by_side in (
        "#pc-set-top_k [type=range], #pc-set-min_p [type=range]",
        ":is(#pc-set-max_tokens, #pc-set-seed) input",
    ):
        tops = dialog.locator(side_by_side).evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
        assert len(tops) == 2 and abs(tops[0] - tops[1]) < 1, side_by_side
    dialog.get_by_label("Presence penalty").fill("0.5")
    dialog.get_by_label("Stop texts").fill("END\n\\n\\n")
    dialog.get_by_role("spinbutton", name="Temperature").fill("1.5")
    expect(dialog.locator(".set-own")).to_have_count(3)
    close(dialog)
    chat.ask("Warm")
    params = server.client.requests[-1].params
    assert (params.presence_penalty, params.stop, params.temperature) == (0.5, ["END", "\n\n"], 1.5)

    dialog = open_section(chat, "This chat")
    expect(dialog.get_by_label("Stop texts")).to_have_value("END\n\\n\\n")
    back = dialog.get_by_role("button", name="Back to the model's: 0.2")
    expect(back).to_contain_text("temperature")
    back.click()
    expect(dialog.get_by_role("spinbutton", name="Temperature")).to_have_value("0.2")
    expect(dialog.locator(".set-own")).to_have_count(2)
    own = server.do(server.service.open(chat.session_id))["session"]["own_params"]
    assert own == {"presence_penalty": 0.5, "stop": ["END", "\n\n"]}
    close(dialog)


def test_every_section_opens_by_mouse_and_keys_and_says_what_holds_here(
    same_page: PageDriver, server: PageServer
) -> None:
    chat = same_page
    chat.ask("Something to measure")
    dialog = open_section(chat, "Model and device")
    expect(dialog.get_by_test_id("engine-facts")).to_contain_text("800 blocks of 16, 12,800 tokens")
    expect(dialog.locator("#set-model")).to_contain_text("pagedchat --model PATH")
    chat.page.keyboard.press("Shift+Tab")
    dialog.locator("[data-section=model]").focus()
    chat.page.keyboard.press("ArrowDown")
    chat.page.keyboard.press("Enter")
    expect(dialog.locator("[data-policy=trim]")).to_contain_text("acts now")
    expect(dialog).to_contain_text("--context-policy refuse")
    open_section(chat, "Privacy")
    expect(dialog).to_contain_text(str(server.folder / "sessions.db"))
    open_section(chat, "About")
    expect(dialog).to_contain_text("Apache-2.0")
    expect(dialog).to_contain_text("SQLite")
    chat.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(chat.test_id("composer")).to_be_focused()


def test_storage_is_measured_copied_and_emptied_in_the_page(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("A chat of some size")
    folder = Path(server.folder)
    (folder / "cache" / "page").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "page" / "upload").write_bytes(b"0" * 5_000)
    dialog = open_section(chat, "Storage")
    place = chat.test_id("storage")
    largest = place.locator(".set-largest li").first
    expect(largest).to_contain_text("messages")
    title = largest.get_by_role("button").inner_text()
    expect(place).to_contain_text(str(folder / "sessions.db"))
    chat.test_id("back-up").click()
    expect(dialog.locator(".set-saved")).to_have_text("A copy was made and checked.")
    expect(chat.test_id("stored-copy").first).to_contain_text("newest, stays")
    chat.test_id("back-up").click()
    first = chat.test_id("stored-copy").nth(1)
    expect(first).to_be_visible()
    number = chat.test_id("stored-copy").count()
    first.get_by_role("button").click()
    chat.test_id("confirm").click()
    expect(chat.test_id("stored-copy")).to_have_count(number - 1)
    cache = chat.test_id("cache").filter(has_text="Temporary files")
    expect(cache).to_contain_text("4.9 KiB")
    cache.get_by_role("button").click()
    chat.test_id("confirm").click()
    expect(cache).to_have_count(0)
    assert not (folder / "cache" / "page").exists()
    largest.get_by_role("button").click()
    expect(dialog).not_to_be_visible()
    expect(chat.page.locator("#pc-title")).to_have_text(title)


def test_a_preset_is_made_of_a_chat_and_warned_of_in_its_editor(same_page: PageDriver, server: PageServer) -> None:
    chat = same_page
    chat.ask("What is two and two?")
    open_section(chat, "This chat")
    chat.test_id("save-as-preset").click()
    form = chat.test_id("preset-form")
    form.get_by_label("Name").fill("Sums")
    form.get_by_label("Messages of the chat as examples").select_option("1")
    expect(form.get_by_test_id("example").get_by_label("Answer")).to_have_value("Hello!")
    form.get_by_label("System prompt").fill("You add numbers. Today is {{date}}.")
    expect(form.get_by_test_id("part-warning")).to_contain_text("“{{date}}” is sent as it stands")
    form.get_by_label("System prompt").fill("It is 2025. You add.")
    expect(form.get_by_test_id("part-warning")).to_have_count(0)
    expect(form.locator(".begins")).to_contain_text("<system>It is 2025. You add.")
    form.get_by_label("Tools", exact=True).fill("[{]")
    expect(form.locator(".part[data-part=tools] .problem")).to_contain_text("no valid JSON")
    form.get_by_label("Tools", exact=True).fill('[{"b": 1, "a": 2}]')
    expect(form.locator(".part[data-part=tools]")).to_contain_text("1 tool, 15 bytes")
    form.get_by_test_id("confirm").click()
    expect(form).to_have_count(0)

    (preset,) = [one for one in server.do(server.service.library.presets()) if one["name"] == "Sums"]
    assert (preset["tools"], len(preset["examples"])) == ('[{"a":2,"b":1}]', 2)
    dialog = open_section(chat, "Presets")
    chat.page.locator("#pc-settings").get_by_label("New chat with Sums").click()
    expect(chat.messages()).to_have_count(2)
    chat.ask("And three?")
    server.do(server.service.library.save_preset({"id": preset["id"], "system_prompt": "It is 2026. You add."}))

    open_section(chat, "Presets")
    row = dialog.get_by_test_id("preset").filter(has_text="Sums")
    row.get_by_label("Edit").click()
    expect(form.get_by_test_id("drift")).to_contain_text("on: 2025 instead of 2026")
    expect(form.get_by_test_id("drift").locator("code")).to_have_text(["2025", "2026"])
    form.get_by_label("Policy").fill("Never lost")
    chat.page.keyboard.press("Escape")
    chat.page.get_by_role("button", name="Go on editing").click()
    expect(form.get_by_label("Policy")).to_have_value("Never lost")
    form.get_by_role("button", name="Cancel").click()
    row.get_by_label("Delete").click()
    expect(row).to_have_count(0)
    chat.undo()
    expect(row).to_have_count(1)
    close(dialog)


def test_on_a_phone_the_list_of_sections_leads_to_pages(chromium: Browser, server: PageServer) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        chat = PageDriver(context.new_page(), server.url).goto()
        chat.page.get_by_role("button", name="Settings", exact=True).first.click()
        dialog = chat.page.locator("#pc-settings")
        expect(dialog.get_by_role("heading", level=2)).to_have_text("Settings")
        expect(dialog.get_by_label("System prompt")).to_be_hidden()
        open_section(chat, "Storage")
        expect(chat.test_id("back-up")).to_be_visible()
        expect(dialog.get_by_role("navigation")).to_be_hidden()
        assert chat.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert chat.test_id("storage").evaluate("(one) => one.parentElement.parentElement.scrollWidth") <= 390
        chat.page.keyboard.press("Escape")
        expect(dialog.get_by_role("navigation")).to_be_visible()
        dialog.get_by_role("button", name="Privacy").click()
        dialog.get_by_role("button", name="Back to the list of settings").click()
        close(dialog)
        assert chat.errors == []
    finally:
        context.close()
