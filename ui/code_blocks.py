"""Fenced code as HTML with Pygments' classes; colours come from the page's own style sheet."""

from __future__ import annotations

from functools import lru_cache
from html import escape

LONGEST_HIGHLIGHTED = 60_000


@lru_cache(maxsize=64)
def _lexer(language: str):
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=1)
def _formatter():
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(nowrap=True)


def render_code(code: str, language: str, *, coloured: bool = True) -> str:
    """``<pre>`` for a block of code. An unknown language, a very long block or ``coloured=False`` stays plain."""
    code = code.removesuffix("\n")
    lexer = _lexer(language.lower()) if language and coloured and len(code) <= LONGEST_HIGHLIGHTED else None
    if lexer is None:
        body = escape(code, quote=False)
    else:
        from pygments import highlight

        body = highlight(code, lexer, _formatter()).removesuffix("\n")
    name = escape(language[:32], quote=True)
    return f'<pre class="code" data-language="{name}"><code>{body}</code></pre>\n'
