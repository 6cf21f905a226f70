"""Fenced code as HTML with Pygments' classes; colours come from the page's own style sheet."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from io import StringIO
from typing import Any

LONGEST_HIGHLIGHTED = 60_000
UNSETTLED = 600
"""Characters at the end of code that is being written which are coloured again with each look."""


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


def render_code(code: str, language: str) -> str:
    """``<pre>`` for a block of code. An unknown language or a very long block stays plain."""
    code = code.removesuffix("\n")
    lexer = _lexer(language.lower()) if language and len(code) <= LONGEST_HIGHLIGHTED else None
    if lexer is None:
        return framed(escape(code, quote=False), language)
    from pygments import highlight

    return framed(highlight(code, lexer, _formatter()).removesuffix("\n"), language)


def framed(body: str, language: str) -> str:
    """The block around code that is HTML already."""
    name = escape(language[:32], quote=True)
    return f'<pre class="code" data-language="{name}"><code>{body}</code></pre>\n'


class GrowingCode:
    """The colours of code that is being written: what is well above the end is coloured once.

    ::

        settled lines │ from here on again with each look
                      └ the lexer's state here is kept

    A lexer that keeps its state elsewhere, or cannot go on from the middle, leaves long code plain until its end.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self._lexer = _resumable(language)
        self._html = ""
        self._at = 0
        self._stack = ("root",)

    def render(self, code: str) -> str:
        """``<pre>`` for all of the code so far, which begins as it did the last time."""
        code = code.removesuffix("\n")
        if self._lexer is not None and len(code) <= LONGEST_HIGHLIGHTED:
            try:
                return framed(self._coloured(code).removesuffix("\n"), self.language)
            except TypeError:  # one of its rules is not made for a kept state
                self._lexer = None
        return framed(escape(code, quote=False), self.language)

    def _coloured(self, code: str) -> str:
        tokens, settled, stack = self._tokens(code)
        if settled:
            at = tokens[settled][0]
            self._html += _html_of(tokens[:settled])
            self._at, self._stack = at, stack
        return self._html + _html_of(tokens[settled:])

    def _tokens(self, code: str) -> tuple[list[tuple[int, Any, str]], int, tuple[str, ...]]:
        """What follows the settled lines; how many of these tokens are settled now, and the state behind them."""
        from pygments.lexer import ExtendedRegexLexer, LexerContext

        if self._at >= len(code):
            return [], 0, self._stack
        context = LexerContext(code, self._at, list(self._stack))
        found: list[tuple[int, Any, str]] = []
        settled, stack, last = 0, self._stack, len(code) - UNSETTLED
        for at, kind, value in ExtendedRegexLexer.get_tokens_unprocessed(self._lexer, context=context):  # type: ignore[arg-type]
            if self._at < at <= last and at == context.pos and code[at - 1] == "\n":
                settled, stack = len(found), tuple(context.stack)
            found.append((at, kind, value))
        return found, settled, stack


def _resumable(language: str) -> Any:
    from pygments.lexer import RegexLexer

    lexer = _lexer(language.lower()) if language else None
    plain = isinstance(lexer, RegexLexer) and type(lexer).get_tokens_unprocessed is RegexLexer.get_tokens_unprocessed
    return lexer if plain else None


def _html_of(tokens: list[tuple[int, Any, str]]) -> str:
    out = StringIO()
    _formatter().format(((kind, value) for _, kind, value in tokens if value), out)
    return out.getvalue()
