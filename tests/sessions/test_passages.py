"""Documents in passages, and the passages that fit a question, with FTS5 and without."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedchat.sessions.passage_search import PassageSearch
from pagedchat.sessions.passages import OVERLAP, TARGET, Passage, estimate, split

SENTENCE = "The harbour is quiet in winter, and the boats lie under their covers. "
FACTS = [
    "Payments are due on the third of March.",
    "Die Brücke über die Moldau wurde 1402 fertig.",
    "本合同的付款期限是三月三日。",
    "The deadlines of all projects moved twice.",
    "call merge_intervals(spans) to join them",
]
DOCUMENT = "\n\n".join(f"{SENTENCE * 9}{fact}" for fact in FACTS)


def spelled(text: str, passages: list[Passage]) -> list[str]:
    return [text[one.start : one.end] for one in passages]


def test_a_passage_ends_where_a_paragraph_does_if_it_is_full_enough() -> None:
    text = "\n\n".join([SENTENCE * 8, SENTENCE * 8, SENTENCE * 20])
    first, *_ = spelled(text, split(text))
    assert first == f"{SENTENCE * 8}".strip()


def test_neighbours_share_a_few_last_words() -> None:
    text = SENTENCE * 100
    passages = split(text)
    for one, after in pairwise(passages):
        assert one.start < after.start < one.end < after.end
        assert 0 < estimate(text[after.start : one.end]) <= OVERLAP
        assert text[after.start :].startswith("The harbour")


@pytest.mark.parametrize("text", ["x" * 5_000, "我爱北京天安门" * 400, "word " * 3_000, "a\n" * 3_000, "é" * 3_000])
def test_no_passage_is_longer_than_it_may_be_whatever_the_text_is_made_of(text: str) -> None:
    passages = split(text)
    assert len(passages) > 3
    assert all(0 < estimate(one) <= TARGET for one in spelled(text, passages))


@given(st.text(st.characters(codec="utf-8"), max_size=400).map(lambda text: text * 5))
def test_passages_have_all_of_a_text_in_order(text: str) -> None:
    passages = split(text)
    end = 0
    for one in passages:
        assert not text[end : one.start].strip() and one.start < one.end
        end = max(end, one.end)
    assert not text[end:].strip()
    assert passages == sorted(set(passages))


@pytest.mark.parametrize("fts5", [True, False])
@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("When are the payments due?", 0),
        ("Wann wurde die BRUCKE fertig?", 1),
        ("付款期限是什么时候？", 2),
        ("what does merge_intervals do", 4),
    ],
)
def test_the_passage_that_answers_comes_first(fts5: bool, question: str, fact: int) -> None:
    passages = split(DOCUMENT)
    found = PassageSearch(fts5=fts5).best("x", DOCUMENT, passages, question, 3)
    assert FACTS[fact] in spelled(DOCUMENT, passages)[found[0]]
    assert len(found) == len(set(found)) <= 3


def test_fts5_finds_words_in_their_other_forms() -> None:
    passages = split(DOCUMENT)
    found = PassageSearch(fts5=True).best("x", DOCUMENT, passages, "Which deadline moved?", 1)
    assert FACTS[3] in spelled(DOCUMENT, passages)[found[0]]


@pytest.mark.parametrize("fts5", [True, False])
@pytest.mark.parametrize("question", ["", "???", "the harbour is quiet", 'zebra "NEAR" OR *'])
def test_a_question_that_says_nothing_of_a_document_gets_passages_from_all_over_it(fts5: bool, question: str) -> None:
    text = "\n\n".join(SENTENCE * 9 for _ in range(40))
    passages = split(text)
    found = PassageSearch(fts5=fts5).best("x", text, passages, question, 4)
    assert found == [len(passages) * part // 4 for part in range(4)]
    assert PassageSearch(fts5=fts5).best("x", text, passages[:2], question, 4) == [0, 1]


@pytest.mark.parametrize("fts5", [True, False])
def test_an_index_is_of_the_passages_there_are_now(fts5: bool) -> None:
    passages, search = split(DOCUMENT), PassageSearch(fts5=fts5)
    assert search.best("x", DOCUMENT, [], "payments", 1) == []
    (found,) = search.best("x", DOCUMENT, passages[2:], "payments", 1)
    assert FACTS[0] not in DOCUMENT[slice(*passages[2:][found])]
    (found,) = search.best("x", DOCUMENT, passages, "payments", 1)
    assert FACTS[0] in DOCUMENT[slice(*passages[found])], "it was made anew"
