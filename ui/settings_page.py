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
from .setting_fields import SETTINGS

gr: Any = load_gradio()

_BY_NAME = {one.name: one for one in SETTINGS}

_NAV = '<nav class="set-nav" aria-label="Sections of the settings"></nav>'
_CHAT_HEAD = '<div class="set-chat-head"></div>'
_MORE = (
    '<button type="button" class="set-more" aria-expanded="false" aria-controls="pc-set-more">More sampling</button>'
)
_CHAT_FOOT = '<div class="set-chat-foot"></div>'
_PAGES = '<div class="set-pages"></div>'


def settings_column() -> list[Any]:
    """The whole dialog; returns the widgets in the order of ``SETTINGS``."""
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
    system = _text("system_prompt", lines=4, max_lines=10)
    temperature, top_p = _slider("temperature"), _slider("top_p")
    with gr.Row():
        top_k, min_p = _slider("top_k"), _slider("min_p")
    with gr.Row():
        limit, seed = _number("max_tokens"), _number("seed")
    return [system, temperature, top_p, top_k, min_p, limit, seed, _text("stop", lines=1, max_lines=5)]


def _rare_fields() -> list[Any]:
    rows = []
    for names in (
        ("repetition_penalty", "presence_penalty"),
        ("frequency_penalty", "min_tokens"),
        ("dry_multiplier", "dry_base"),
        ("dry_allowed_length",),
    ):
        with gr.Row():
            rows += [(name, _number(name)) for name in names]
    made = dict(rows)
    return [made[one.name] for one in SETTINGS if one.rare]


def _html(template: str) -> None:
    gr.HTML(value="", html_template=template, apply_default_css=False)


def _text(name: str, *, lines: int, max_lines: int) -> Any:
    return gr.Textbox(**_named(name), lines=lines, max_lines=max_lines)


def _slider(name: str) -> Any:
    field = _BY_NAME[name]
    return gr.Slider(field.low, field.high, step=field.step, **_named(name))


def _number(name: str) -> Any:
    field = _BY_NAME[name]
    precision = 0 if field.whole else None
    return gr.Number(minimum=field.low, maximum=field.high, step=field.step, precision=precision, **_named(name))


def _named(name: str) -> dict[str, str]:
    return {"label": _BY_NAME[name].label, "info": _BY_NAME[name].help, "elem_id": f"pc-set-{name}"}
