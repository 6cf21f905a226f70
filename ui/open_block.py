"""The long block at the end of a growing reply: its finished parts are kept, so that only its end is parsed again.

::

    - one     ┐
    - two     │ kept as HTML
    - three   ┘
    - fo        parsed with each look, below a short stand-in for what came before: ``context``

Parts are the items of a list, the rows of a table and the lines of a block of code. A part is finished when the first
line of the next one is whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from markdown_it.token import Token

from .code_blocks import GrowingCode, render_code
from .markdown import Group, Parsed, References, balanced, language_of, line_starts, parse, render_tokens

LONG = 800
"""Characters from which on the parts of a block are kept."""


class OpenBlock(Protocol):
    """A long block that is being written.

    Attributes:
        context: what has to stand above the end of the block so that it is parsed as it would be in its place.
        at: the character of the reply where that end begins.
    """

    context: str
    at: int

    def html(self, group: Group, parsed: Parsed, *, ended: bool) -> str | None:
        """All of the block, ``group`` being its end below ``context``; None if what is kept does not hold any more.

        Args:
            ended: nothing more can become a part of it.
        """
        ...

    def keep(self, group: Group, parsed: Parsed, source: str) -> None:
        """Keep the parts that are finished. ``source`` is what was parsed."""
        ...


def open_block(text: str, begin: int, group: Group, references: References) -> OpenBlock | None:
    """The last block of a reply, if it is of a kind with parts and long enough.

    Args:
        begin: the character of ``text`` where it begins.
        group: its tokens.
    """
    kind, source = group.tokens[0].type, text[begin:]
    if len(source) < LONG:
        return None
    if kind == "fence":
        return _OpenFence(group.tokens[0], source, begin)
    made = {"bullet_list_open": _OpenList, "ordered_list_open": _OpenList, "table_open": _OpenTable}.get(kind)
    if made is None or _num_parts(group.tokens) < 4:
        return None
    parsed = parse(source, references, growing=True)
    block = made(parsed, source, begin)
    return block if block.kept else None


class _OpenFence:
    def __init__(self, fence: Token, source: str, begin: int) -> None:
        self._language = language_of(fence)
        self._code = ""
        self._growing = GrowingCode(self._language)
        self.context = source[: line_starts(source)[1]]
        self.at = begin + len(self.context)

    def html(self, group: Group, parsed: Parsed, *, ended: bool) -> str | None:
        code = self._code + group.tokens[0].content
        return render_code(code, self._language) if ended else self._growing.render(code)

    def keep(self, group: Group, parsed: Parsed, source: str) -> None:
        first, end = group.tokens[0].map or [0, 0]
        num_lines = end - first - 1
        lines = group.tokens[0].content.split("\n")
        if group.end != len(source) or num_lines < 2 or len(lines) < num_lines:
            return  # it has its end, or nothing to keep
        self._code += "".join(one + "\n" for one in lines[: num_lines - 1])
        self.at += parsed.line_starts[num_lines] - len(self.context)


def _num_parts(tokens: list[Token]) -> int:
    return sum(one.type == "tr_open" or (one.type == "list_item_open" and one.level == 1) for one in tokens)


@dataclass
class _Parts:
    """The tokens of a block with parts: before them, the parts, and behind them."""

    head: list[Token]
    units: list[list[Token]]
    foot: list[Token]


class _OpenParts:
    """What lists and tables have in common."""

    num_stand_ins = 0

    def __init__(self, parsed: Parsed, source: str, begin: int) -> None:
        self.kept: list[str] = []
        self.at = begin
        self.context = ""
        parts = self._parts(parsed.groups[0].tokens)
        if parts is None or not parts.units:
            return
        first = self._unit(parts, parts.units[0], parsed.references)
        whole = render_tokens([*parts.head, *parts.units[0], *parts.foot], parsed.references)
        self._before, _, self._behind = whole.partition(first)
        self._keep(parts.units, parts, parsed, source)
        self.context = self._context(parsed, source)

    def html(self, group: Group, parsed: Parsed, *, ended: bool) -> str | None:
        parts = self._parts(group.tokens)
        if parts is None or not self._holds(group.tokens):
            return None
        rest = [self._unit(parts, unit, parsed.references) for unit in parts.units[self.num_stand_ins :]]
        return "".join([self._before, *self.kept, *rest, self._behind])

    def keep(self, group: Group, parsed: Parsed, source: str) -> None:
        parts = self._parts(group.tokens)
        if parts is not None and self._holds(group.tokens):
            self._keep(parts.units[self.num_stand_ins :], parts, parsed, source)

    def _keep(self, units: list[list[Token]], parts: _Parts, parsed: Parsed, source: str) -> None:
        """Keep all units but the last one that has a whole line."""
        firsts = [(unit[0].map or [0])[0] for unit in units]
        if firsts and source[parsed.line_starts[firsts[-1] + 1] - 1] not in "\r\n":
            firsts.pop()
        if len(firsts) < 2:
            return
        at = parsed.line_starts[firsts[-1]]
        self._note(source[:at])
        self.kept += [self._unit(parts, unit, parsed.references) for unit in units[: len(firsts) - 1]]
        self.at += at - len(self.context)

    def _parts(self, tokens: list[Token]) -> _Parts | None:
        raise NotImplementedError

    def _unit(self, parts: _Parts, unit: list[Token], references: References) -> str:
        raise NotImplementedError

    def _context(self, parsed: Parsed, source: str) -> str:
        raise NotImplementedError

    def _holds(self, tokens: list[Token]) -> bool:
        return True

    def _note(self, kept: str) -> None:
        """``kept`` is what is parsed above what is looked at again."""


class _OpenTable(_OpenParts):
    def _parts(self, tokens: list[Token]) -> _Parts | None:
        body = next((index for index, one in enumerate(tokens) if one.type == "tbody_open"), None)
        if body is None:
            return None
        return _Parts(tokens[: body + 1], balanced(tokens[body + 1 : -2]), tokens[-2:])

    def _unit(self, parts: _Parts, unit: list[Token], references: References) -> str:
        html = render_tokens([parts.head[0], parts.head[-1], *unit, *parts.foot], references)
        return html.removeprefix("<table>\n<tbody>\n").removesuffix("</tbody>\n</table>\n")

    def _context(self, parsed: Parsed, source: str) -> str:
        return source[: parsed.line_starts[2]]


class _OpenList(_OpenParts):
    """Whether its items are set apart (``loose``) depends on all; the parser hides paragraphs where they are not."""

    num_stand_ins = 1

    def __init__(self, parsed: Parsed, source: str, begin: int) -> None:
        tokens = parsed.groups[0].tokens
        # Its text stands far to the right, so that no item below it is its child.
        self._stand_in = ("1" if tokens[0].type == "ordered_list_open" else "") + tokens[0].markup + "    x\n"
        self._loose = _is_loose(tokens)
        self._loose_above = False
        super().__init__(parsed, source, begin)

    def _parts(self, tokens: list[Token]) -> _Parts | None:
        return _Parts(tokens[:1], balanced(tokens[1:-1]), tokens[-1:])

    def _unit(self, parts: _Parts, unit: list[Token], references: References) -> str:
        if self._loose:
            for token in unit:
                if token.level == 2 and token.type in ("paragraph_open", "paragraph_close"):
                    token.hidden = False
        return render_tokens(unit, references)

    def _context(self, parsed: Parsed, source: str) -> str:
        return self._stand_in

    def _holds(self, tokens: list[Token]) -> bool:
        return self._loose == (self._loose_above or _is_loose(tokens))

    def _note(self, kept: str) -> None:
        if not self._loose_above and self._loose:
            self._loose_above = _is_loose(parse(kept + self._stand_in, {}).groups[0].tokens)


def _is_loose(tokens: list[Token]) -> bool:
    """Whether the paragraphs of a list's items are set apart, as far as one can see."""
    return any(one.type == "paragraph_open" and one.level == 2 and not one.hidden for one in tokens)
