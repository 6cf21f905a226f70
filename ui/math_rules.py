r"""Math in Markdown: ``\( \)``, ``\[ \]`` and ``$$ $$`` become MathML. A single dollar is always a dollar.

A formula ends before the next empty line, as in TeX. In a text that is being written (``growing`` in the environment,
for inline ones ``open_end``) one that lacks its end is shown as code, so that it grows in its place until it is whole.
"""

from __future__ import annotations

from html import escape

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

LONGEST_FORMULA = 4_000
INLINE_PAIRS = (("\\(", "\\)", False), ("\\[", "\\]", True), ("$$", "$$", True))
BLOCK_PAIRS = (("\\[", "\\]"), ("$$", "$$"))


def math_plugin(parser: MarkdownIt) -> None:
    """Add both rules to a parser; tokens are ``math_inline`` and ``math_block`` with the TeX as their content."""
    parser.inline.ruler.before("escape", "math_inline", _inline_rule)
    parser.block.ruler.before(
        "fence", "math_block", _block_rule, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    for name in ("math_open", "math_open_inline"):
        parser.add_render_rule(name, lambda _self, tokens, index, *_rest: _source(tokens[index]))
    parser.add_render_rule("math_inline", lambda _self, tokens, index, *_rest: _render(tokens[index]))
    parser.add_render_rule("math_block", lambda _self, tokens, index, *_rest: f"<p>{_render(tokens[index])}</p>\n")


def tex_to_mathml(tex: str, display: bool) -> str:
    """MathML for a formula; the TeX itself as code where it cannot be read."""
    try:
        if len(tex) > LONGEST_FORMULA:
            raise ValueError("too long")
        from latex2mathml.converter import convert

        return convert(tex.strip(), display="block" if display else "inline")
    except Exception:
        return f"<code>{escape(tex)}</code>"


def _source(token) -> str:
    source = f"<code>{escape(token.content.strip())}</code>"
    return f"<p>{source}</p>\n" if token.block else source


def _render(token) -> str:
    return tex_to_mathml(token.content, token.block or token.meta.get("display", False))


def _inline_rule(state: StateInline, silent: bool) -> bool:
    for opening, closing, display in INLINE_PAIRS:
        if not state.src.startswith(opening, state.pos):
            continue
        end = state.src.find(closing, state.pos + len(opening))
        if end < 0 and not silent and state.env.get("open_end") and state.src[state.pos + len(opening) :].strip():
            token = state.push("math_open_inline", "code", 0)
            token.content = state.src[state.pos + len(opening) : state.posMax]
            state.pos = state.posMax
            return True
        if end <= state.pos + len(opening) or end > state.posMax:
            return False
        if not silent:
            token = state.push("math_inline", "math", 0)
            token.content = state.src[state.pos + len(opening) : end]
            token.meta = {"display": display}
        state.pos = end + len(closing)
        return True
    return False


def _block_rule(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    if state.is_code_block(start_line):
        return False
    first = state.src[state.bMarks[start_line] + state.tShift[start_line] : state.eMarks[start_line]].strip()
    pair = next((one for one in BLOCK_PAIRS if first.startswith(one[0])), None)
    if pair is None:
        return False
    opening, closing = pair
    lines, line, name = [first[len(opening) :]], start_line, "math_block"
    while not lines[-1].rstrip().endswith(closing):
        line += 1
        if line >= end_line and line >= len(state.bMarks) - 1 and state.env.get("growing"):
            lines, line, name = [*lines, closing], line - 1, "math_open"
            break
        if line >= end_line or state.isEmpty(line) or state.sCount[line] < state.blkIndent:
            return False
        lines.append(state.getLines(line, line + 1, state.blkIndent, False))
    content = "\n".join(lines).rstrip()[: -len(closing)]
    if closing in content or not (content.strip() or name == "math_open"):
        return False
    if silent:
        return True
    token = state.push(name, "math", 0)
    token.block = True
    token.content = content
    token.map = [start_line, line + 1]
    state.line = line + 1
    return True
