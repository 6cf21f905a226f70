"""Markdown on the page: text stays text, code is coloured, math is math, nothing can run."""

from __future__ import annotations

import random
from html.parser import HTMLParser

import pytest

from pagedchat.ui.markdown import render_blocks, render_html
from pagedchat.ui.reply_render import ReplyRender

MIXED = r"""# A title

Some *text* with `code` and \(x^2 + y_1\), prices from $5 to $7 per GB.

- one
- two

  still two

  ```python
  def f(x):
      return x < 1 and x > 0
  ```

1. first
2. second

> quoted
continued

| a | b |
|---|--:|
| 1 | 2 |

\[
\frac{a}{b}
= c
\]

Title
=====

    indented code

```
never closed
# x
"""


class Elements(HTMLParser):
    """Tags, attribute names and link targets of some HTML, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]


@pytest.mark.parametrize(
    "text", ["vector<int> a; <todo> x < y", "<think>", "a <b> c", "List<String> && x", "</div>", "<!-- kept -->"]
)
def test_angle_brackets_are_shown_as_typed(text: str) -> None:
    import html

    shown = html.unescape(render_html(text))
    assert text in shown
    assert not any(tag in render_html(text) for tag in ("<think", "<todo", "<b>", "<int", "</div", "<!--"))


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "<style>body{display:none}</style>",
        "<script>alert(1)</script>",
        "<svg onload=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)>",
        '[x](https://a.example "\\" onmouseover=alert(1) ")',
        '```"><img src=x onerror=alert(1)>\nx\n```',
        "![x](javascript:alert(1))",
        "\\(\\text{<img src=x onerror=alert(1)>}\\)",
        "$$\\href{javascript:alert(1)}{x}$$",
    ],
)
def test_nothing_that_runs_gets_through(text: str) -> None:
    elements = Elements(render_html(text))
    assert not {"img", "style", "script", "svg", "iframe"} & set(elements.tags)
    assert not [name for name in elements.attributes if name.startswith("on") or name == "style"]
    assert not [link for link in elements.links if not link.startswith(("https://", "http://", "mailto:"))]


def test_a_picture_becomes_a_link_so_that_no_other_host_is_asked() -> None:
    html = render_html("![a cat](https://other.example/cat.png)")
    assert "<img" not in html
    assert 'href="https://other.example/cat.png"' in html and "a cat" in html
    assert "noopener" in html


def test_single_dollars_are_prices() -> None:
    assert render_html("from $5 to $7 per GB") == "<p>from $5 to $7 per GB</p>\n"


@pytest.mark.parametrize("text", ["\\(x^2\\)", "\\[x^2\\]", "$$x^2$$", "\\[\nx^2\n\\]", "$$\nx\n= y\n$$", "- \\(a\\)"])
def test_math_becomes_mathml(text: str) -> None:
    html = render_html(text)
    assert "<math" in html and "\\" not in html and "$" not in html


@pytest.mark.parametrize("text", ["`\\(x\\)`", "```\n$$x$$\n```", "\\(never closed", "$$", "    \\[x\\]"])
def test_what_is_not_math_stays_as_it_is(text: str) -> None:
    assert "<math" not in render_html(text)


def test_broken_math_shows_its_source() -> None:
    assert "frac" in render_html("\\(\\frac{\\)")


def test_code_keeps_every_character_and_is_coloured() -> None:
    import html
    import re

    code = "def f(x: list[int]) -> bool:\n    return x < [1] & 'a\"b'\n\n\n    # end"
    shown = render_html(f"```python\n{code}\n```")
    assert 'data-language="python"' in shown and '<span class="k">def</span>' in shown
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)) == code + "\n"


def test_an_unknown_language_stays_plain() -> None:
    assert "<span" not in render_html("```no-such\nx = 1\n```")


def test_table_cells_keep_their_side() -> None:
    html = render_html("| a | b |\n|---|--:|\n| 1 | 2 |")
    assert 'class="to-right"' in html and "style=" not in html


@pytest.mark.parametrize("seed", range(12))
def test_a_growing_reply_ends_as_the_whole_text_renders(seed: int) -> None:
    numbers = random.Random(seed)
    reply = ReplyRender()
    at = 0
    while at < len(MIXED):
        size = numbers.choice([1, 1, 2, 3, 7, 20])
        assert reply.take(at, MIXED[at : at + size])
        at += size
        reply.render()
        assert reply.blocks == [block.html for block in render_blocks(MIXED[:at])]


def test_closed_blocks_never_change_while_the_reply_grows() -> None:
    reply = ReplyRender()
    seen: list[str] = []
    for at, character in enumerate(MIXED):
        reply.take(at, character)
        reply.render()
        assert reply.closed[: len(seen)] == seen
        seen = list(reply.closed)
    assert len(seen) >= 8


def test_the_cost_of_a_render_does_not_grow_with_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from pagedchat.ui import reply_render

    parsed: list[int] = []
    real = reply_render.render_blocks

    def counted(text, *args, **kwargs):
        parsed.append(len(text))
        return real(text, *args, **kwargs)

    monkeypatch.setattr(reply_render, "render_blocks", counted)
    reply = ReplyRender()
    paragraph = "Some words of a paragraph that goes on for a while.\n\n"
    for index in range(300):
        reply.take(index * len(paragraph), paragraph)
        reply.render()
    assert max(parsed) <= 3 * len(paragraph)


def test_deltas_that_overlap_or_leave_a_gap_are_told_apart() -> None:
    reply = ReplyRender("Hello")
    assert reply.take(3, "lo you") and reply.text == "Hello you"
    assert reply.take(0, "Hel") and reply.text == "Hello you"
    assert not reply.take(20, "x") and reply.text == "Hello you"


def test_carriage_returns_count_as_line_ends() -> None:
    reply = ReplyRender()
    for at, part in enumerate("a\r\rb\r\n\r\nc\r\nd\n\ne"):
        reply.take(at, part)
        reply.render()
    assert [block.count("<p>") for block in reply.blocks] == [1, 1, 1, 1]
