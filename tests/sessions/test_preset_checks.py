"""What keeps the chats of a preset from sharing blocks is found; ordinary text, code and JSON are left in peace."""

from __future__ import annotations

import json

import pytest

from pagedchat.sessions.preset_checks import unstable

UNSTABLE = [
    ("Today is {{date}}.", "placeholder", "{{date}}"),
    ("Hello {{ user.name | upper }}!", "placeholder", "{{ user.name | upper }}"),
    ("You talk to ${user}.", "placeholder", "${user}"),
    ("You talk to %s today.", "placeholder", "%s"),
    ("Hi %(name)s", "placeholder", "%(name)s"),
    ("You are the assistant of {customer_name}.", "placeholder", "{customer_name}"),
    ("Current date: 2026-05-12", "date", "Current date: 2026-05-12"),
    ("Today is Tuesday, May 12, 2026. Be brief.", "date", "Today is Tuesday, May 12, 2026"),
    ("Today's date is 12 May 2026.", "date", "Today's date is 12 May 2026"),
    ("The current year is 2026.", "date", "current year is 2026"),
    ("today is Monday", "date", "today is Monday"),
    ("The current time is 14:05.", "clock", "current time is 14:05"),
    ("It is 9:30 am now.", "clock", "It is 9:30 am"),
    ("Logged in at 2026-05-12T14:05:33Z", "clock", "2026-05-12T14:05:33Z"),
    ("Now: 2026-05-12 14:05", "clock", "Now: 2026-05-12 14:05"),
    ("timestamp: 1778594733", "clock", "timestamp: 1778594733"),
    ("Trace 3f2b8c1e-90ab-4cde-8123-4567890abcde", "uuid", "3f2b8c1e-90ab-4cde-8123-4567890abcde"),
    ("Session ID: 8891", "counter", "Session ID: 8891"),
    ("This is request #4711.", "counter", "request #4711"),
    ("Conversation number 12", "counter", "Conversation number 12"),
]

STABLE = [
    "You are a helpful assistant.",
    "The contract was signed on 2024-05-01 and ends on 1 June 2027.",
    "Knowledge cutoff: 2023-10. Office hours are 9:00 to 17:30.",
    "Meetings last from 14:00 until 15:00; a lunch break is at 12:30.",
    "May 5 is a holiday in some countries, and March has 31 days.",
    "Add 50% more; 100%sure and 5 %d are odd ways to write.",
    "The set {a, b, c} and the tuple {1, 2} are mathematics, and so is \\frac{alpha}{beta}.",
    "Write CSS such as a { color: red } and leave body{margin:0} alone.",
    "Use `{name}` or `${HOME}` in shell scripts.",
    "```python\nprint(f'{name} at {when:%s}')\nurl = '{{base}}/x'\n```\nExplain it.",
    "~~~\necho ${HOME} {user}\n~~~",
    '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
    "See issue #123, chapter 4 and version 2.31 of the request.",
    "Call 1800123456 for help. Every chat has 2 sides.",
    "Answer in at most 3 sentences. Now write as if it were 1999.",
    "Ask what the time is, and what today means to the reader.",
    "Commit 3f2b8c1e90ab4cde81234567890abcde is not an id of ours.",
    "Prices go from $5 to $7 per GB, and {{}} is an empty pair of braces.",
    "",
]


@pytest.mark.parametrize(("text", "kind", "what"), UNSTABLE)
def test_what_changes_from_chat_to_chat_is_found_with_its_reason(text: str, kind: str, what: str) -> None:
    found = unstable(text)
    assert [(one.kind, one.text) for one in found] == [(kind, what)]
    assert text[found[0].start :].startswith(what)
    assert what in found[0].sentence and found[0].sentence.endswith(".")


@pytest.mark.parametrize("text", STABLE)
def test_ordinary_text_code_and_json_raise_no_alarm(text: str) -> None:
    assert unstable(text) == []


def test_the_braces_of_tools_are_their_own() -> None:
    tools = [{"name": "find", "description": "Finds {thing}s; %s is allowed", "parameters": {"type": "object"}}]
    assert unstable(json.dumps(tools), is_json=True) == []
    assert [one.text for one in unstable(json.dumps([{"name": "at {{now}}"}]), is_json=True)] == ["{{now}}"]


def test_one_place_is_told_once_and_never_more_than_a_reader_can_use() -> None:
    assert [one.kind for one in unstable("Now: 2026-05-12 14:05, {{user}}")] == ["clock", "placeholder"]
    assert len(unstable("{{a}} " * 100)) == 20


def test_a_long_text_is_looked_through_at_once() -> None:
    text = "Today the current date and the time are " * 5_000 + "{" * 5_000 + "%" * 5_000
    assert unstable(text) == []
