"""The settings as Gradio's widgets: the fields of a chat, and empty places that the page's script fills.

::

    head    title, what was saved, close
    nav     sections (a list at the side; on a phone a page of its own)
    chat    the fields: system prompt, sampling, and rarely used sampling that is folded away
    pages   all other sections
"""

from __future__ import annotations

from typing import Any

from .quiet import load_gradio
from .routes import STATIC

gr: Any = load_gradio()

FIELDS = (
    "system_prompt",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "seed",
    "stop",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "min_tokens",
)
"""What the widgets hold, in their order; the page's script knows the same names (``settings_fields.js``)."""

_NAV = '<nav class="set-nav" aria-label="Sections of the settings"></nav>'
_CHAT_HEAD = '<div class="set-chat-head"></div>'
_MORE = (
    '<button type="button" class="set-more" aria-expanded="false" aria-controls="pc-set-more">More sampling</button>'
)
_CHAT_FOOT = '<div class="set-chat-foot"></div>'
_PAGES = '<div class="set-pages"></div>'


def settings_column() -> list[Any]:
    """The whole dialog; returns the widgets in the order of ``FIELDS``."""
    with gr.Column(elem_id="pc-settings"):
        _html((STATIC / "settings_head.html").read_text("utf-8"))
        _html(_NAV)
        with gr.Column(elem_id="pc-set-chat"):
            _html(_CHAT_HEAD)
            fields = _usual_fields()
            _html(_MORE)
            with gr.Column(elem_id="pc-set-more"):
                fields += _rare_fields()
            _html(_CHAT_FOOT)
        _html(_PAGES)
    return fields


def _usual_fields() -> list[Any]:
    system = gr.Textbox(
        label="System prompt",
        info="What the model is told before the chat begins. Empty means an empty one.",
        lines=4,
        max_lines=10,
        elem_id="pc-set-system_prompt",
    )
    temperature = _slider("temperature", "Temperature", 0, 2, 0.05, "0 always takes the likeliest word; higher varies.")
    top_p = _slider("top_p", "Top-p", 0.05, 1, 0.01, "Only the likeliest words that make up this share; 1 is off.")
    with gr.Row():
        top_k = _slider("top_k", "Top-k", 0, 200, 1, "Only the k likeliest words; 0 is off.")
        min_p = _slider("min_p", "Min-p", 0, 1, 0.01, "Drops words far less likely than the best; 0 is off.")
    with gr.Row():
        limit = _number("max_tokens", "Reply limit", "Tokens until Continue is offered.", 1, precision=0)
        seed = _number("seed", "Seed", "Fixed: the same reply again. Empty: a new one each time.", precision=0)
    stop = gr.Textbox(
        label="Stop texts",
        info="A reply ends before any of these; one a line, \\n is the end of a line.",
        lines=1,
        max_lines=5,
        elem_id="pc-set-stop",
    )
    return [system, temperature, top_p, top_k, min_p, limit, seed, stop]


def _rare_fields() -> list[Any]:
    with gr.Row():
        repetition = _number(
            "repetition_penalty",
            "Repetition penalty",
            "Above 1, words that came are rarer.",
            0.01,
            100,
            0.05,
        )
        presence = _number(
            "presence_penalty",
            "Presence penalty",
            "Off each word the reply has; 0 is off.",
            -2,
            2,
            0.1,
        )
    with gr.Row():
        frequency = _number(
            "frequency_penalty", "Frequency penalty", "The same for each time it came; 0 is off.", -2, 2, 0.1
        )
        least = _number("min_tokens", "Least tokens", "Nothing ends the reply before these have come.", 0, precision=0)
    with gr.Row():
        strength = _number(
            "dry_multiplier", "DRY strength", "Against repeating whole phrases: 0 is off, 0.8 is usual.", 0, 100, 0.1
        )
        base = _number("dry_base", "DRY base", "How much worse each further repeated word is.", 1, 100, 0.05)
    length = _number(
        "dry_allowed_length", "DRY allowed length", "Tokens that may repeat before DRY acts.", 1, precision=0
    )
    return [repetition, presence, frequency, strength, base, length, least]


def _html(template: str) -> None:
    gr.HTML(value="", html_template=template, apply_default_css=False)


def _slider(name: str, label: str, low: float, high: float, step: float, info: str) -> Any:
    return gr.Slider(low, high, step=step, label=label, info=info, elem_id=f"pc-set-{name}")


def _number(
    name: str,
    label: str,
    info: str,
    low: float | None = None,
    high: float | None = None,
    step: float = 1,
    precision: int | None = None,
) -> Any:
    return gr.Number(
        label=label,
        info=info,
        minimum=low,
        maximum=high,
        step=step,
        precision=precision,
        elem_id=f"pc-set-{name}",
    )
