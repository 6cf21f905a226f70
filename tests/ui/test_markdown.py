"""Markdown on the page: text stays text, code is coloured, math is math, nothing can run."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from pagedchat.ui.markdown import render_html


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
def test_b49_angle_brackets_are_shown_as_typed(text: str) -> None:
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


def test_b49_single_dollars_are_prices() -> None:
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


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("As said [1], and [2][3].", ["1", "2", "3"]),
        ("- in a list [12]", ["12"]),
        ("**bold [1]**", ["1"]),
        ("`a[1]` and [see [1]](https://a.example)", []),
        ("```\n[1]\n```", []),
        ("[1](https://a.example) [0x1] [1234] \\[1\\]", []),
        ("[1]\n\n[1]: https://a.example", []),
    ],
)
def test_numbers_in_brackets_outside_of_code_and_links_may_be_opened(text: str, numbers: list[str]) -> None:
    import re

    html = render_html(text)
    assert re.findall(r'<button class="cite" data-cite="(\d+)" type="button">\[\1\]</button>', html) == numbers
    assert html.count("<button") == len(numbers)


def test_a_formula_ends_before_an_empty_line() -> None:
    assert "<math" not in render_html("$$\nx\n\ny\n$$")
    assert render_html("a\n\\[\nx\n= y\n\\]\nb").count("<math") == 1
