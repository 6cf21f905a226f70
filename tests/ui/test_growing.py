"""A reply that is being written: what is shown at each moment is right, stays where it is, and costs the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from pagedchat.ui import reply_render
from pagedchat.ui.code_blocks import GrowingCode, render_code
from pagedchat.ui.markdown import render_blocks
from pagedchat.ui.reply_render import ReplyRender, RunningReply
from pagedchat.ui.undecided import shown_length

CODE = "def f(x: int) -> str:\n    '''Says\n    what.'''\n    return str(x) if x > 0 else 'neg'  # fine\n\n"
PIECES = (
    *["# Head\n", "\n", "\n", "\n", "Some *words* here\n", "a **bold** and `code` end\n", "- item\n", "- two\n\n"],
    *["  nested text\n", "  - sub\n", "1. one\n", "2. two\n", "3) three\n", "> quote\n", "> - q\n", "lazy line\n"],
    *["```python\ndef f(x):\n    return '''x'''\n", "```\n", "~~~\n", "```js\nlet a = 1; /* open\n", "*/ b\n"],
    *["| a | b |\n", "|---|--:|\n", "| 1 | *2* |\n", "|--|\n", "\\[\nx^2\n", "\\]\n", "$$\n", "$$x$$\n", "\\(y", "\\)"],
    *["[1] and [x] [y z]\n", "[x]: http://a.example\n", "[y z]: http://b.example 'tit", "le'\n", "'more\n", "===\n"],
    *[
        "---\n",
        "-",
        "--",
        "* * *\n",
        "    code\n",
        "\t tab\n",
        "\r\n",
        "5",
        "1",
        "|",
        "from $5 to $7\n",
        "<b>html</b>\n",
    ],
    *["!", "![i](http://c)", "[l](http://d [1])", "\\[", "<http://e>", "~~s~~", "&amp;", "x\0y", "é😀\n"],
)
LONG_KINDS = (
    ("\n\n", "- item with [x] {} and\n"),
    ("\n\n", "1. number `{}` two\n"),
    ("\n\n| a | b |\n|--|--|\n", "| c{} | *d* |\n"),
    ("\n\n```python\n", "    y = '{}' # comment\n"),
)
BETWEEN = ("\n", "  more\n", "\n  para\n", "  - sub\n", "\n\n", "lazy [1]\n", "'''doc\n", "# c\n", "   - three\n")


def random_text(draw: random.Random, long: bool) -> str:
    """Pieces of Markdown in any order, with a long block among them or none."""

    def pieces(most: int) -> str:
        return "".join(draw.choice(PIECES) for _ in range(draw.randrange(most)))

    if not long:
        return pieces(40)
    opening, line = draw.choice(LONG_KINDS)
    body = (
        line.format(index) + (draw.choice(BETWEEN) if draw.random() < 0.05 else "")
        for index in range(draw.randrange(30, 60))
    )
    return pieces(20) + opening + "".join(body) + pieces(12)


def grow(
    text: str, draw: random.Random, look: Callable[[ReplyRender, int], None] = lambda reply, at: None
) -> ReplyRender:
    """The render of a text that comes in random cuts."""
    reply, at = ReplyRender(), 0
    while at < len(text):
        size = draw.choice([1, 1, 2, 3, 7, 20, 60])
        assert reply.take(at, text[at : at + size])
        at = min(at + size, len(text))
        reply.render()
        look(reply, at)
    return reply


@pytest.mark.parametrize("seed", range(16))
def test_a_reply_that_grew_ends_as_its_whole_text_renders(seed: int) -> None:
    draw = random.Random(seed)
    for long in (False, False, True):
        text = random_text(draw, long)
        reply = grow(text, draw)
        reply.end()
        assert reply.blocks == [block.html for block in render_blocks(text)], text


@pytest.mark.parametrize("seed", range(16))
def test_each_look_shows_what_the_text_so_far_renders_to(seed: int) -> None:
    """Code has its colours from what is known so far, and links whose definition comes later are links from then on."""
    draw = random.Random(1_000 + seed)
    text = random_text(draw, long=seed % 4 == 0)
    for mark in ("```", "~~~", "[x]:", "[y z]:"):
        text = text.replace(mark, "")

    def look(reply: ReplyRender, at: int) -> None:
        shown = text[: shown_length(text[:at])]
        assert reply.blocks == [block.html for block in render_blocks(shown, growing=True)], text[:at]

    grow(text, draw, look)


def test_closed_blocks_never_change_while_the_reply_grows() -> None:
    text = "# Title\n\nText with \\(x\\).\n\n- one\n- two\n\n> quoted\nlazy\n\n"
    text += "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```\nx\n```\n\nEnd\n"
    reply = ReplyRender()
    seen: list[str] = []
    for at, character in enumerate(text):
        reply.take(at, character)
        reply.render()
        assert reply.closed[: len(seen)] == seen
        seen = list(reply.closed)
    assert len(seen) == 6


@pytest.mark.parametrize(
    "text",
    [
        "A line\n- one\n- two\n",
        "A line\n\n---\n\nNext\n",
        "# Head\n1. one\n2. two\n",
        "```python\nx = 1\n```\n\n``\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "\\[\n\\frac{a}{b}\n\\]\n",
        "> quote\n> more\n",
        "**Bold** words\n***\n",
        "Title\n===\n",
    ],
)
def test_nothing_on_the_screen_turns_into_something_else(text: str) -> None:
    """A block is what it is from its first character on; headings that are underlined are the one exception."""
    tags: list[str] = []

    def look(reply: ReplyRender, at: int) -> None:
        now = [re.match(r"<(\w+)", html)[1] for html in reply.blocks]  # type: ignore[index]
        if not text.startswith("Title"):
            assert now[: len(tags)] == tags, text[:at]
        tags[:] = now

    reply = ReplyRender()
    for at, character in enumerate(text):
        reply.take(at, character)
        reply.render()
        look(reply, at + 1)
    assert tags


def test_a_formula_grows_in_its_place_until_it_is_whole() -> None:
    reply = ReplyRender()
    for part, shown in [
        ("So\n\n\\[\nx^2", "<p><code>x^2</code></p>\n"),
        ("\n+ y", "<p><code>x^2\n+ y</code></p>\n"),
        ("\n\\]", "<math"),
        ("\n\nAnd \\(y_1", "<p>And <code>y_1</code></p>\n"),
        (" + 1\\)", "<math"),
    ]:
        reply.take(len(reply.text), part)
        reply.render()
        assert shown in reply.blocks[-1], part
        assert len(reply.blocks) == (2 if "And" not in reply.text else 3)


def test_a_link_defined_below_becomes_one_in_its_place() -> None:
    reply = grow("See [the page][p].\n\nMore.\n\n[p]: https://a.example/x\n\nLast\n", random.Random(0))
    assert 'href="https://a.example/x"' in reply.blocks[0] and len(reply.blocks) == 3


PARTS = {
    "paragraphs": "Some words of a paragraph that goes on for a while.\n\n",
    "list": "- An item of a list that has some words as well\n",
    "ordered list": "1. An item of a list that has some words as well\n\n",
    "table": "| cells | of *one* row |\n",
    "code": CODE,
}


@pytest.mark.parametrize("kind", PARTS)
def test_the_cost_of_a_look_does_not_grow_with_what_came_before(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    parsed: list[int] = []
    real = reply_render.parse

    def counted(text, *args, **kwargs):
        parsed.append(len(text))
        return real(text, *args, **kwargs)

    monkeypatch.setattr(reply_render, "parse", counted)
    part, reply = PARTS[kind], ReplyRender()
    text = {"table": "| a | b |\n|---|---|\n", "code": "```python\n"}.get(kind, "")
    while len(text) < 8_000:
        text += part
        reply.take(len(reply.text), text[len(reply.text) :])
        reply.render()
    assert max(parsed[-40:]) <= 4 * len(part)
    reply.end()
    assert reply.blocks == [block.html for block in render_blocks(text)]


def test_code_that_grows_has_the_colours_of_the_whole() -> None:
    growing, code = GrowingCode("python"), CODE * 30
    for end in range(10, len(code), 97):
        shown, plain = growing.render(code[:end]), render_code(code[:end], "")
        assert re.sub(r"<[^>]+>", "", shown).rstrip() == re.sub(r"<[^>]+>", "", plain).rstrip()
    assert growing._at > len(code) - 1_000, "what is above the end is coloured once"
    assert growing.render(code) == render_code(code, "python")
    for language in ("php", "json", "no-such", "html", "c", "yaml", "bash", ""):
        growing = GrowingCode(language)
        for end in range(0, 2_000, 331):
            growing.render(code[:end])
        assert growing.render(code).startswith(f'<pre class="code" data-language="{language}"><code>')


def test_deltas_that_overlap_or_leave_a_gap_are_told_apart() -> None:
    reply = ReplyRender("Hello")
    assert reply.take(3, "lo you") and reply.text == "Hello you"
    assert reply.take(0, "Hel") and reply.text == "Hello you"
    assert not reply.take(20, "x") and reply.text == "Hello you"


def test_carriage_returns_count_as_line_ends() -> None:
    reply = grow("a\r\rb\r\n\r\nc\r\nd\n\ne", random.Random(0))
    assert [block.count("<p>") for block in reply.blocks] == [1, 1, 1, 1]


def test_thoughts_are_whole_once_the_answer_begins() -> None:
    reply = RunningReply()
    reply.thoughts.take(0, "It is\n-")
    reply.render()
    assert reply.blocks() == {"thoughts": ["<p>It is</p>\n"], "blocks": []}
    reply.answer.take(0, "Yes")
    reply.render()
    assert reply.blocks() == {"thoughts": ["<h2>It is</h2>\n"], "blocks": ["<p>Yes</p>\n"]}
