"""``[1]`` in a reply, outside of code and links, may name a passage that was quoted to the model: a button."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

_MARK = re.compile(r"\[(\d{1,3})\]")


def cite_plugin(parser: MarkdownIt) -> None:
    """Add the rule to a parser; tokens are ``cite`` with the number as their content."""
    parser.inline.ruler.after("link", "cite", _rule)
    parser.add_render_rule("cite", lambda _self, tokens, index, *_rest: _button(tokens[index].content))


def _rule(state: StateInline, silent: bool) -> bool:
    if silent or state.linkLevel or state.src[state.pos] != "[":
        return False  # silent: the parser looks for the end of a link, in which brackets are brackets
    found = _MARK.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    state.push("cite", "button", 0).content = found[1]
    state.pos = found.end()
    return True


def _button(number: str) -> str:
    return f'<button class="cite" data-cite="{number}" type="button">[{number}]</button>'
