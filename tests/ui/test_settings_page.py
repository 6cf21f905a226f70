"""What the widgets, the page's script and the server know by name is the same; keys are nobody else's."""

from __future__ import annotations

import re

from pagedchat.sessions.sampling import PARAM_NAMES
from pagedchat.ui.routes import STATIC

UI = STATIC.parent
TAKEN = {  # of Chromium, Firefox, Safari or text fields; k and f with Shift are only suggestions of theirs
    *(f"mod+{one}" for one in "acdefhijlnopqrstuvwxyz0123456789"),
    *(f"mod+shift+{one}" for one in "abcdeghijklmnopqrstvwyz"),
    *("f1", "f3", "f5", "f6", "f7", "f10", "f11", "f12", "tab", "enter", " ", "arrowup", "arrowdown", "'"),
}


def strings(text: str) -> list[str]:
    return re.findall(r'"([^"]+)"', text)


def between(text: str, begin: str, end: str) -> str:
    return text.split(begin, 1)[1].split(end, 1)[0]


def test_script_and_widgets_know_the_same_settings_in_the_same_order() -> None:
    python = (UI / "settings_page.py").read_text("utf-8")
    script = (STATIC / "settings_fields.js").read_text("utf-8")
    widgets = strings(between(python, "FIELDS = (", ")"))
    assert strings(between(script, "FIELDS = [", "];")) == widgets
    assert set(widgets) == {"system_prompt", *PARAM_NAMES}
    labels = set(re.findall(r"(\w+):", between(script, "LABELS = {", "};")))
    assert labels == set(PARAM_NAMES) - {"stop"}, "every number has a label by which its field is found"
    for name in ("temperature", "max_tokens", "dry_base"):
        label = between(script, f"{name}: ", ",").strip('"')
        assert f'"{label}"' in python


def test_no_key_is_there_twice_or_taken_from_browser_or_field() -> None:
    table = between((STATIC / "keys.js").read_text("utf-8"), "KEYS = [", "\n];")
    keys = [key for row in re.findall(r"keys: \[([^\]]*)\]", table) for key in strings(row)]
    assert len(keys) == len(set(keys)) >= 18
    assert not TAKEN & set(keys)
    assert all(key.startswith("mod+") or len(key) == 1 or key == "escape" for key in keys)
