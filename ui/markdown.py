"""Markdown to safe HTML, block by block.

What the model writes is text: raw HTML in it is shown as typed, pictures become links (a picture would be a request
to another host), and the result passes nh3, which lets only the tags of this module through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from .code_blocks import render_code
from .math_rules import math_plugin

LONGEST_COLOURED_OPEN_FENCE = 3_000


def _words(text: str) -> set[str]:
    return set(text.split())


_MATH_TAGS = _words(
    "math mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot munder mover munderover mtable mtr mtd "
    "mstyle mpadded mphantom menclose mmultiscripts mprescripts"
)
_TEXT_TAGS = _words(
    "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a table thead tbody tr th td span div"
)
_MATH_ATTRIBUTES = _words(
    "display xmlns mathvariant stretchy fence form separator lspace rspace minsize maxsize accent accentunder width "
    "height depth linethickness columnalign rowspacing columnspacing displaystyle scriptlevel movablelimits "
    "largeop symmetric notation"
)
_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"class", "data-language"},
    "span": {"class"},
    "th": {"class"},
    "td": {"class"},
    **dict.fromkeys(_MATH_TAGS, _MATH_ATTRIBUTES),
}


@dataclass(frozen=True)
class Block:
    """One top-level block: its lines in the source (end exclusive) and its HTML."""

    first_line: int
    end_line: int
    html: str


def render_html(text: str) -> str:
    """The whole text as safe HTML."""
    return "".join(block.html for block in render_blocks(text))


def render_blocks(text: str, env: dict[str, Any] | None = None, *, growing: bool = False) -> list[Block]:
    """Top-level blocks of ``text`` in order.

    Args:
        env: carries link definitions from one call to the next; changed in place.
        growing: the text is still being written, so a long last block of code is not coloured yet.
    """
    parser, env = _parser(), env if env is not None else {}
    groups = _top_level(parser.parse(text, env))
    blocks = []
    for index, group in enumerate(groups):
        lines = group[0].map or [0, 0]
        last = growing and index == len(groups) - 1
        env["plain_code"] = last and group[0].type == "fence" and len(group[0].content) > LONGEST_COLOURED_OPEN_FENCE
        html = parser.renderer.render(group, parser.options, env)
        blocks.append(Block(lines[0], lines[1], _clean(html)))
    return blocks


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if depth == 0:
            groups.append([])
        groups[-1].append(token)
        depth += token.nesting
    return groups


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": False})
    parser.disable(["html_block", "html_inline"])
    parser.enable(["table", "strikethrough"])
    parser.use(math_plugin)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    return parser


def _fence(_renderer, tokens, index, _options, env) -> str:
    token = tokens[index]
    words = token.info.split()
    return render_code(token.content, words[0] if words else "", coloured=not env.get("plain_code"))


def _image(renderer, tokens, index, options, env) -> str:
    token = tokens[index]
    label = renderer.renderInlineAsText(token.children or [], options, env) or "picture"
    address = str(token.attrGet("src") or "")
    return f'<a href="{escape(address, quote=True)}">{escape(label)}</a>'


def _cell(_renderer, tokens, index, _options, _env) -> str:
    token = tokens[index]
    side = str(token.attrGet("style") or "").removeprefix("text-align:")
    return f'<{token.tag} class="to-{escape(side)}">' if side else f"<{token.tag}>"


def _clean(html: str) -> str:
    return nh3.clean(
        html,
        tags=_TEXT_TAGS | _MATH_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
