"""The language of the search field: what means something, and that nothing else does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedchat.sessions.errors import SessionError
from pagedchat.sessions.search_query import MOST_WORDS, Query, parse

NOW = datetime(2026, 5, 20, 15, 30, tzinfo=timezone(timedelta(hours=2)))


def words(query: Query) -> list[str]:
    return [" ".join(part.text for part in one.pieces) + ("…" if one.prefix else "") for one in query.wanted]


def refused(text: str) -> str:
    with pytest.raises(SessionError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_words_phrases_and_exclusions() -> None:
    query = parse('red "Green Apples" -pears -"old wood" plum')
    assert words(query) == ["red", "green apples", "plum…"]
    assert [[part.text for part in one.pieces] for one in query.unwanted] == [["pears"], ["old", "wood"]]


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("cat", ["cat…"]),
        ("cat ", ["cat"]),
        ("cat.", ["cat"]),
        ("c++", ["c ++…"]),
        ('"cat"', ["cat"]),
        ('"cat do', ["cat do…"]),
        ("cat 北京", ["cat", "北京…"]),
        ("“two words”", ["two words"]),
    ],
)
def test_only_a_word_that_may_be_unfinished_goes_on(typed: str, read: list[str]) -> None:
    assert words(parse(typed)) == read


PLAIN = ["C++", "foo:bar", '"', '""', "AND OR NOT NEAR", "NEAR(a b)", "a*", "^a", "(a", "a)", "{a}:b", "-", "--save"]
PLAIN += ["' OR 1=1 --", "title:x", "content : a", "a\0b", "%_", "https://a.b/?c=d", "role", "has :code", "-:", "\\"]


@pytest.mark.parametrize("text", PLAIN)
def test_all_else_is_text(text: str) -> None:
    assert isinstance(parse(text), Query)
    assert not parse(text).filters


def test_filters_are_read_with_quotes_and_in_any_case() -> None:
    query = parse('Role:User role:tool folder:"Ma Thèse" MODEL:Qwen has:code -has:link -folder:old cats')
    assert query.values("role") == ["user", "tool"]
    assert query.values("folder") == ["ma these"] and query.values("folder", negated=True) == ["old"]
    assert query.values("model") == ["qwen"]
    assert query.values("has") == ["code"] and query.values("has", negated=True) == ["link"]
    assert words(query) == ["cats…"]


@pytest.mark.parametrize(
    ("text", "after", "before"),
    [
        ("after:2026", "2025-12-31T22:00:00.000Z", None),
        ("after:2026-05 before:2026-06", "2026-04-30T22:00:00.000Z", "2026-05-31T22:00:00.000Z"),
        ("before:2026-5-2", None, "2026-05-01T22:00:00.000Z"),
        ("after:today", "2026-05-19T22:00:00.000Z", None),
        ("before:Yesterday", None, "2026-05-18T22:00:00.000Z"),
        ("after:7d", "2026-05-13T13:30:00.000Z", None),
        ("after:12h", "2026-05-20T01:30:00.000Z", None),
        ("after:2w after:3d", "2026-05-17T13:30:00.000Z", None),
        ("before:1y before:2026", None, "2025-05-20T13:30:00.000Z"),
    ],
)
def test_dates_are_those_of_the_users_zone(text: str, after: str | None, before: str | None) -> None:
    query = parse(text, NOW)
    assert (query.after, query.before) == (after, before)


def test_a_date_without_a_zone_is_one_of_this_computer() -> None:
    local = datetime(2026, 1, 2).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert parse("after:2026-01-02").after == local


def test_wrong_values_say_what_is_right() -> None:
    assert 'role: takes system, user, assistant or tool, not "boss".' in refused("role:boss")
    assert "attachment, branch, code, error, link or reasoning" in refused("has:fun")
    assert "role: needs system, user" in refused("cats role:")
    assert "needs a name" in refused("folder:") and "needs a name" in refused('model:""')
    for date in ("soon", "2026-13", "2026-02-30", "99999y", "0000", ""):
        assert "is no date" in refused(f"after:{date}")
    assert "after:2026 instead" in refused("-before:2026")


def test_a_search_has_bounds() -> None:
    assert f"at most {MOST_WORDS} words" in refused("a b " * MOST_WORDS + " ".join(f"w{n}" for n in range(60)))
    assert "too long" in refused("x" * 100_000)
    assert len(parse(f'"{"a b " * 200}"').wanted) == 1


@given(
    st.text(max_size=60) | st.text(alphabet="ab \"-:*()^{}+\\'%\0\ud800role has after before folder model", max_size=60)
)
def test_any_text_is_a_query_or_one_sentence(text: str) -> None:
    try:
        query = parse(text)
    except SessionError as error:
        assert "\n" not in str(error) or "\n" in text
        return
    for one in (*query.wanted, *query.unwanted):
        tokens, _ = one.tokens()
        assert tokens and all('"' not in token and not any(map(str.isspace, token)) for token in tokens)
