"""Thinking and answer of a reply, however it is cut into pieces."""

from __future__ import annotations

import random

import pytest

from pagedchat.engine.reasoning import CLOSE, OPEN, Parts, ReasoningSplitter, split_reasoning

REPLIES = {
    "<think>plan</think>Done": ("plan", "Done"),
    "<think>\nplan\n</think>\n\nDone.\n\nMore.": ("\nplan\n", "Done.\n\nMore."),
    "</think>Hi": ("", "Hi"),
    "<think>never closed": ("never closed", ""),
    "<think>almost</thin": ("almost</thin", ""),
    "a < b and c <think> d": ("", "a < b and c <think> d"),
    "<think>x</think>Write `</think>`:\n```\n</think>\n```": ("x", "Write `</think>`:\n```\n</think>\n```"),
    "<think>1 < 2 </ 3</think>4 < 5": ("1 < 2 </ 3", "4 < 5"),
    "<thinking aloud": ("", "<thinking aloud"),
    "<": ("", "<"),
    "  \n<think>x</think>y": ("x", "y"),
    "  plain": ("", "  plain"),
    "": ("", ""),
    "<think></think>": ("", ""),
}


def fed(pieces: list[str], splitter: ReasoningSplitter | None = None) -> tuple[str, str]:
    splitter = splitter or ReasoningSplitter()
    parts = [*map(splitter.feed, pieces), splitter.end()]
    return "".join(one.reasoning for one in parts), "".join(one.answer for one in parts)


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_is_split_the_same_however_it_is_cut(reply: str) -> None:
    expected = REPLIES[reply]
    assert fed([reply]) == fed(list(reply)) == expected
    assert split_reasoning(reply) == Parts(*expected)
    for cut in range(len(reply) + 1):
        assert fed([reply[:cut], reply[cut:]]) == expected


def test_tags_in_pieces_are_never_shown() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("<think>plan</th") == Parts("plan", "")
    assert splitter.feed("ink>Done") == Parts("", "Done")
    assert splitter.end() == Parts()


def test_nothing_is_lost_or_doubled_and_the_state_survives_a_break() -> None:
    source = random.Random(3)
    alphabet = [OPEN, CLOSE, "<", ">", "/", "think", "a", " ", "\n", "</th", "ink>"]
    for _ in range(2000):
        reply = "".join(source.choices(alphabet, k=source.randint(0, 12)))
        cuts = sorted(source.choices(range(len(reply) + 1), k=3))
        pieces = [reply[a:b] for a, b in zip([0, *cuts], [*cuts, len(reply)], strict=True)]
        whole = fed([reply])
        assert fed(pieces) == whole
        first = ReasoningSplitter()
        before = first.feed(pieces[0])
        resumed = fed(pieces[1:], ReasoningSplitter(state=first.state, held=first.held))
        assert (before.reasoning + resumed[0], before.answer + resumed[1]) == whole
        assert set("".join(whole)) <= set(reply)
        kept = "".join(whole).replace(" ", "").replace("\n", "")
        lost = len("".join(reply.split())) - len("".join(kept.split()))
        assert lost in (0, len(CLOSE), len(OPEN), len(OPEN) + len(CLOSE))


def test_a_reply_whose_prompt_opened_the_thinking_begins_in_thought() -> None:
    assert split_reasoning("plan</think>\n\nDone", inside=True) == Parts("plan", "Done")
