"""What the widgets, the page's script and the server know by name is the same; keys are nobody else's."""

from __future__ import annotations

import json
import re

from pagedchat.sessions.sampling import PARAM_NAMES
from pagedchat.ui.routes import STATIC
from pagedchat.ui.setting_fields import FIELDS_ID, SETTINGS, fields_for_page

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


def test_what_a_setting_is_called_and_means_stands_in_one_place_for_widgets_and_script() -> None:
    names = [one.name for one in SETTINGS]
    assert set(names) == {"system_prompt", *PARAM_NAMES} and len(names) == len(set(names))
    assert all(one.label and one.help.endswith(".") for one in SETTINGS)
    told = re.fullmatch(r'<script type="application/json" id="(.+?)">(.*)</script>', fields_for_page())
    assert told is not None and told[1] == FIELDS_ID
    assert [one["name"] for one in json.loads(told[2])] == names
    assert f'byId("{FIELDS_ID}")' in (STATIC / "settings_fields.js").read_text("utf-8")
    others = [path for path in (*STATIC.glob("*.js"), *UI.glob("*.py")) if path.name != "setting_fields.py"]
    texts = {path.name: path.read_text("utf-8") for path in others}
    assert [(one.name, name) for one in SETTINGS for name, text in texts.items() if one.help in text] == []


def test_no_key_is_there_twice_or_taken_from_browser_or_field() -> None:
    table = between((STATIC / "keys.js").read_text("utf-8"), "KEYS = [", "\n];")
    keys = [key for row in re.findall(r"keys: \[([^\]]*)\]", table) for key in strings(row)]
    assert len(keys) == len(set(keys)) >= 18
    assert not TAKEN & set(keys)
    assert all(key.startswith("mod+") or len(key) == 1 or key == "escape" for key in keys)
