"""The settings of a chat: what each is called, what it means, and where its numbers end.

One list for the widgets of the settings and, as JSON in the head of the page, for the page's own dialogs.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

FIELDS_ID = "pc-setting-fields"
"""Of the element that holds the list for the page's script; ``settings_fields.js`` knows it too."""


@dataclass(frozen=True)
class SettingField:
    """One setting.

    Attributes:
        name: as requests have it.
        help: a sentence on what it does.
        low, high: the ends of a number's range; None where there is none.
        step: between two values of a number; None for a text.
        whole: whether only whole numbers are taken.
        rare: whether it is folded away.
    """

    name: str
    label: str
    help: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    whole: bool = False
    rare: bool = False


def _rare(
    name: str, label: str, sentence: str, low: float, high: float | None, step: float, *, whole: bool = False
) -> SettingField:
    return SettingField(name, label, sentence, low, high, step, whole, rare=True)


SETTINGS = (
    SettingField(
        "system_prompt",
        "System prompt",
        "What the model is told before the chat begins. Empty means an empty one.",
    ),
    SettingField(
        "temperature", "Temperature", "0 always takes the likeliest word; higher varies.", low=0, high=2, step=0.05
    ),
    SettingField(
        "top_p", "Top-p", "Only the likeliest words that make up this share; 1 is off.", low=0.05, high=1, step=0.01
    ),
    SettingField("top_k", "Top-k", "Only the k likeliest words; 0 is off.", low=0, high=200, step=1),
    SettingField("min_p", "Min-p", "Drops words far less likely than the best; 0 is off.", low=0, high=1, step=0.01),
    SettingField("max_tokens", "Reply limit", "Tokens until Continue is offered.", low=1, step=1, whole=True),
    SettingField("seed", "Seed", "Fixed: the same reply again. Empty: a new one each time.", step=1, whole=True),
    SettingField("stop", "Stop texts", "A reply ends before any of these; one a line, \\n is the end of a line."),
    _rare("repetition_penalty", "Repetition penalty", "Above 1, words that came are rarer; 1 is off.", 0.01, 100, 0.05),
    _rare("presence_penalty", "Presence penalty", "Off each word the reply has; 0 is off.", -2, 2, 0.1),
    _rare("frequency_penalty", "Frequency penalty", "The same for each time it came; 0 is off.", -2, 2, 0.1),
    _rare("dry_multiplier", "DRY strength", "Against repeating whole phrases: 0 is off, 0.8 is usual.", 0, 100, 0.1),
    _rare("dry_base", "DRY base", "How much worse each further repeated word is.", 1, 100, 0.05),
    _rare(
        "dry_allowed_length", "DRY allowed length", "Tokens that may repeat before DRY acts.", 1, None, 1, whole=True
    ),
    _rare("min_tokens", "Least tokens", "Nothing ends the reply before these have come.", 0, None, 1, whole=True),
)
"""In the order of the widgets."""


def fields_for_page() -> str:
    """The element of the page's head that tells its script of ``SETTINGS``."""
    told = json.dumps([asdict(one) for one in SETTINGS]).replace("<", "\\u003c")
    return f'<script type="application/json" id="{FIELDS_ID}">{told}</script>'
