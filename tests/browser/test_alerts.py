"""Alerts on the page: nothing while nothing is to be told, then shape and words, over the page's own socket."""

from __future__ import annotations

from playwright.sync_api import expect

from support.page_driver import PageDriver
from support.page_server import PageServer


def test_a_strip_shows_what_warns_and_goes_when_it_is_over(chat: PageDriver, server: PageServer) -> None:
    strip, button = chat.test_id("alerts"), chat.page.locator("#pc-blocks")
    server.sample_alerts(1, kv_cache_usage_perc=0.4)
    expect(strip).to_be_hidden()
    expect(button.locator(".mark")).to_be_hidden()

    server.sample_alerts(1, kv_cache_usage_perc=0.96)
    row = strip.locator("[data-alert=HighKVCacheUsage]")
    expect(row).to_contain_text("watched since")
    expect(row.locator(".ring")).to_be_visible()
    expect(button.locator(".mark")).to_be_hidden()

    server.sample_alerts(6, kv_cache_usage_perc=0.96)
    expect(row).to_contain_text("Warning: The KV cache is nearly full")
    expect(row).to_contain_text("96 %")
    expect(row.locator("svg")).to_be_visible()
    expect(button.locator(".mark")).to_be_visible()
    expect(button).to_have_attribute("aria-label", "Blocks, 1 alert")

    chat.page.reload()
    expect(strip.get_by_role("listitem")).to_have_count(1)
    server.sample_alerts(1, kv_cache_usage_perc=0.1)
    expect(strip).to_be_hidden()
    expect(button).not_to_have_attribute("aria-label", "Blocks, 1 alert")


def test_what_is_critical_comes_first_and_has_a_word_and_a_shape_of_its_own(
    chat: PageDriver, server: PageServer
) -> None:
    strip = chat.test_id("alerts")
    counters = {"oom_total": {"step": 0, "load": 0, "killed": 1}, "engine_restarts_total": 1}
    server.count_alerts(**counters)
    rows = strip.get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("Critical: Memory most likely ran out")
    expect(rows.nth(1)).to_contain_text("Warning: The engine was started again")
    shapes = [rows.nth(at).locator("path").get_attribute("d") for at in (0, 1)]
    assert shapes[0] != shapes[1]
    server.sample_alerts(15)
    expect(strip).to_be_hidden()


def test_the_settings_tell_which_rules_have_no_baseline(chat: PageDriver, server: PageServer) -> None:
    server.sample_alerts(1, kv_cache_usage_perc=0.25)
    chat.page.get_by_role("button", name="Settings", exact=True).click()
    chat.page.locator("[data-section=alerts]").click()
    details = chat.page.locator(".set-alerts")
    expect(details.get_by_role("heading")).to_have_text("Alerts: nothing to tell, 3 rules without a baseline.")
    expect(details.locator("li")).to_have_count(7)
    expect(details.locator("[data-alert=TTFTRegression]")).to_contain_text("no baseline")
    expect(details.locator("[data-alert=HighKVCacheUsage]")).to_contain_text("quiet")
    expect(details.locator("[data-alert=HighKVCacheUsage]")).to_contain_text("25 %")
    expect(details).to_contain_text("No baseline yet")
