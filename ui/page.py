"""The Gradio page: one component that holds our own page, and the settings of a chat as Gradio's widgets.

Nothing here keeps state and no event runs on the server: what is set travels over the page's own WebSocket, so Gradio
opens no stream and no heartbeat, and any number of tabs work. Importing this module loads Gradio, which takes seconds.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.routing import Mount

from .early import EarlyHead
from .quiet import load_gradio
from .routes import STATIC
from .setting_fields import fields_for_page
from .settings_page import settings_column

gr: Any = load_gradio()

FONTS = ["Paged Sans", "system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
MONO_FONTS = ["Paged Mono", "ui-monospace", "SF Mono", "Cascadia Mono", "Menlo", "Consolas", "monospace"]
FONT_FILES = (
    ("Paged Sans", "400 599", "IBMPlexSans/IBMPlexSans-Regular.woff2"),
    ("Paged Sans", "600 700", "IBMPlexSans/IBMPlexSans-Bold.woff2"),
    ("Paged Mono", "400 599", "IBMPlexMono/IBMPlexMono-Regular.woff2"),
    ("Paged Mono", "600 700", "IBMPlexMono/IBMPlexMono-Bold.woff2"),
)
WHOLE_FONT_BYTES = 30_000
"""Gradio brings some of its fonts with a few letters only; such a one is not used."""
STYLES = (
    "tokens.css",
    "shell.css",
    "sidebar.css",
    "chat.css",
    "replies.css",
    "code.css",
    "document.css",
    "composer.css",
    "writing.css",
    "panel.css",
    "alerts.css",
    "grid.css",
    "time_bar.css",
    "block_card.css",
    "engine_tab.css",
    "prefix_tree.css",
    "tour.css",
    "library.css",
    "settings.css",
    "settings_pages.css",
    "presets.css",
    "shortcuts.css",
    "tree.css",
    "summary.css",
    "token_view.css",
    "compare.css",
    "looks.css",
    "system_colours.css",
)
QUEUE_REST_S = 5.0

START = "import('/ui/static/main.js').then((main) => main.start(() => trigger('fill')));"
ASK_VALUES = "() => window.pagedchat.settingsValues()"
FILLED = "() => { window.pagedchat.settingsFilled(); return []; }"
TAKE_VALUES = "(...values) => { window.pagedchat.settingsChanged(values); return []; }"


def build_page() -> Any:
    """The Blocks: the shell of our page, and the settings dialog."""
    with gr.Blocks(title="pagedchat", analytics_enabled=False, fill_width=True) as page:
        shell = gr.HTML(
            value="",
            html_template=(STATIC / "shell.html").read_text("utf-8"),
            js_on_load=START,
            apply_default_css=False,
            elem_id="pagedchat",
        )
        fields = settings_column()
        filled = shell.fill(fn=None, inputs=None, outputs=fields, js=ASK_VALUES)
        filled.then(fn=None, inputs=None, outputs=None, js=FILLED)
        for field in fields:  # not `input`: Gradio drops the first one after a fill that changed nothing
            field.change(fn=None, inputs=fields, outputs=None, js=TAKE_VALUES, trigger_mode="always_last")
    return page


def mount_page(app: FastAPI) -> FastAPI:
    """Mount the page at "/" of ``app``; routes that the app has already come first."""
    page = build_page()
    # No event runs on the server, and Gradio's queue would look for one every millisecond.
    page._queue.sleep_when_free = page._queue.progress_update_sleep_when_free = QUEUE_REST_S
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        show_error=False,
        theme=gr.themes.Base(font=FONTS, font_mono=MONO_FONTS),
        favicon_path=str(STATIC / "icon.svg"),
    )
    mount = app.routes[-1]
    assert isinstance(mount, Mount), "Gradio mounts the page last"
    mount.app = EarlyHead(mount.app, _head())
    return app


@lru_cache(maxsize=1)
def _head() -> str:
    styles = "".join(f'<link rel="stylesheet" href="/ui/static/{name}">' for name in STYLES)
    scripts = sorted(path.name for path in STATIC.glob("*.js") if path.name != "early.js")
    early = '<meta name="color-scheme" content="light dark"><script src="/ui/static/early.js"></script>'
    early += f"<style>{(STATIC / 'first.css').read_text('utf-8')}</style>"
    preload = "".join(f'<link rel="modulepreload" href="/ui/static/{name}">' for name in scripts)
    return f"{early}{fields_for_page()}<style>{_font_faces()}</style>{styles}{preload}"


def _font_faces() -> str:
    """Faces from the font files that Gradio brings; without them the system's own fonts are used."""
    folder = Path(gr.__file__).parent / "templates" / "frontend" / "static" / "fonts"
    faces = ""
    for family, weight, file in FONT_FILES:
        path = folder / file
        if path.is_file() and path.stat().st_size >= WHOLE_FONT_BYTES:
            faces += (
                f'@font-face{{font-family:"{family}";font-weight:{weight};font-display:swap;'
                f'src:url("/static/fonts/{file}") format("woff2")}}'
            )
    return faces
