"""Markdown to safe HTML, block by block.

What the model writes is text: raw HTML in it is shown as typed, pictures become links (a picture would be a request
to another host), and the result passes nh3, which lets only the tags of this module through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import accumulate, pairwise
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

from .cite_rule import cite_plugin
from .code_blocks import render_code
from .math_rules import math_plugin


def _words(text: str) -> set[str]:
    return set(text.split())


_MATH_TAGS = _words(
    "math mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot munder mover munderover mtable mtr mtd "
    "mstyle mpadded mphantom menclose mmultiscripts mprescripts"
)
_TEXT_TAGS = _words(
    "p br hr h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s a table thead tbody tr th td span div button"
)
_MATH_ATTRIBUTES = _words(
    "display xmlns mathvariant stretchy fence form separator lspace rspace minsize maxsize accent accentunder width "
    "height depth linethickness columnalign rowspacing columnspacing displaystyle scriptlevel movablelimits "
    "largeop symmetric notation"
)
_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "title"},
    "button": {"class", "data-cite", "type"},
    "ol": {"start"},
    "pre": {"class", "data-language"},
    "span": {"class"},
    "th": {"class"},
    "td": {"class"},
    **dict.fromkeys(_MATH_TAGS, _MATH_ATTRIBUTES),
}


References = dict[str, dict[str, Any]]
"""Definitions of links by their labels, as the parser keeps them."""

_LINE_END = re.compile(r"\r\n?|\n")
_OPENS_MATH = re.compile(r"\\[(\[]|\$\$")


@dataclass(frozen=True)
class Block:
    """One top-level block: its characters in the source (``end`` is behind the last one) and its HTML."""

    begin: int
    end: int
    html: str


@dataclass(frozen=True)
class Group:
    """The tokens of one top-level block, and its characters in the source."""

    tokens: list[Token]
    begin: int
    end: int


@dataclass(frozen=True)
class Parsed:
    """A text as top-level blocks.

    Attributes:
        line_starts: the first character of each line, and the length of the text.
        references: all link definitions that hold in it; their ``map`` has lines of this text, those given have none.
    """

    groups: list[Group]
    line_starts: list[int]
    references: References


def render_html(text: str) -> str:
    """All of a text as safe HTML."""
    return "".join(block.html for block in render_blocks(text))


def render_blocks(text: str, *, growing: bool = False) -> list[Block]:
    """Safe HTML for each top-level block, in order; joined, they are the whole text.

    Args:
        growing: more text is to come, so a formula at the end may still lack its end.
    """
    parsed = parse(text, {}, growing=growing)
    return [Block(one.begin, one.end, render_tokens(one.tokens, parsed.references)) for one in parsed.groups]


def parse(text: str, references: References, *, growing: bool = False) -> Parsed:
    """A text that follows one in which ``references`` were defined."""
    parser = _parser()
    env = {"references": {label: {**one, "map": None} for label, one in references.items()}, "growing": growing}
    tokens = parser.parse(text, env)
    starts = line_starts(text)
    groups = [_group(part, starts) for part in balanced(tokens)]
    if growing and groups and groups[-1].end == len(text):
        _leave_open(groups[-1].tokens, env)
    return Parsed(groups, starts, env["references"])


def line_starts(text: str) -> list[int]:
    """The first character of each line, and the length of a text that does not end with a line end."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def _group(tokens: list[Token], starts: list[int]) -> Group:
    first, end = tokens[0].map or [0, 0]
    return Group(tokens, starts[min(first, len(starts) - 1)], starts[min(end, len(starts) - 1)])


def _leave_open(tokens: list[Token], env: dict[str, Any]) -> None:
    """A formula in the last line of a growing text has its end still to come."""
    last = next((one for one in reversed(tokens) if one.type == "inline"), None)
    if last is not None and last.children and _OPENS_MATH.search(last.content):
        last.children = []
        _parser().inline.parse(last.content, _parser(), {**env, "open_end": True}, last.children)


def render_tokens(tokens: list[Token], references: References) -> str:
    """Safe HTML for some tokens whose opening and closing ones are in balance. Rows of a table need their table."""
    parser = _parser()
    return _clean(parser.renderer.render(tokens, parser.options, {"references": references}))


def balanced(tokens: list[Token]) -> list[list[Token]]:
    """Some tokens in balance as their outermost elements."""
    depths = [0, *accumulate(token.nesting for token in tokens)]
    begins = [index for index, depth in enumerate(depths[:-1]) if depth == 0]
    return [tokens[begin:end] for begin, end in pairwise([*begins, len(tokens)])]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": False})
    parser.disable(["html_block", "html_inline"])
    parser.enable(["table", "strikethrough"])
    parser.use(math_plugin)
    parser.use(cite_plugin)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    return parser


def _fence(_renderer, tokens, index, _options, _env) -> str:
    return render_code(tokens[index].content, language_of(tokens[index]))


def language_of(fence: Token) -> str:
    """What the line above some code names; empty if nothing."""
    return (fence.info.split() or [""])[0]


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
