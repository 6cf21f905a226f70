"""Text as the index holds it: folded, in tokens, and found again in the text as it was written."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagedchat.sessions.search_snippet import beginning, snippet
from pagedchat.sessions.search_text import LONGEST, Places, Term, fold, index_text, pieces
from support.searched import marks_of, text_of

MIXED = st.text(
    alphabet="abÉßİıﬁ½ｶﾞガ한국ㄱ\u1100\u1161ก้าकि👍🏽\u200d—日本。\u0301\u3099\U000e0100 _+#`:/", max_size=200
)


def tokens(text: str) -> list[str]:
    return index_text(text).split()


@pytest.mark.parametrize(
    ("written", "folded"),
    [
        ("Café CAFÉ cafe\u0301", "cafe cafe cafe"),
        ("Müller MÜLLER Straße GROẞ", "muller muller strasse gross"),
        ("İstanbul ILGIN ısı", "istanbul ilgin isi"),
        ("Łódź øre Æsir đakovo", "lodz ore aesir dakovo"),
        ("ﬁne ｆｕｌｌ ①²", "fine full 12"),
        ("ΣΊΣΥΦΟΣ Ёж Йод", "σισυφοσ еж иод"),
        ("מְנוֹרָה مُحَمَّدٌ آب", "מנורה محمد اب"),
        ("Donau\u00addampf", "donaudampf"),
    ],
)
def test_case_accents_ligatures_and_widths_are_folded(written: str, folded: str) -> None:
    assert " ".join(fold(written).split()) == folded
    assert fold(folded) == folded


def test_words_are_parted_at_signs_and_blanks_and_by_nothing_else() -> None:
    assert tokens("snake_case, e.g. don't\tA\0B — “quoted”…") == [
        *("snake", "case", "e", "g", "don", "t", "a", "b", "quoted"),
    ]


def test_names_of_languages_code_blocks_and_links_keep_their_signs() -> None:
    assert tokens("C++ and c# or F#, a+b # ## 1 +") == ["c", "++", "and", "c", "#", "or", "f", "#", "a", "b", "1"]
    assert tokens("```py\nx``` https://a.b") == ["```", "py", "x", "```", "https", "://", "a", "b"]


def test_scripts_without_spaces_become_pairs_and_the_last_character() -> None:
    assert tokens("我爱北京") == ["我爱", "爱北", "北京", "京"]
    assert tokens("iPhone手机x") == ["iphone", "手机", "机", "x"]
    assert tokens("ภาษา") == ["ภา", "าษ", "ษา", "า"]
    assert tokens("ｶﾞｽ 한글") == ["ガス", "ス", "한글", "글"]


def test_indic_vowels_and_emoji_are_kept_apart() -> None:
    assert len(set(tokens("कि की कु"))) == 3
    assert tokens("👍🏽👨\u200d👩 ok") == ["👍", "🏽", "👨", "👩", "ok"]


def test_a_word_counts_up_to_its_limit_and_a_run_in_full() -> None:
    assert tokens("x" * 1000 + " y") == ["x" * LONGEST, "y"]
    assert len(tokens("字" * 1000)) == 1000
    assert tokens("é" * 1000 + "字字") == ["e" * LONGEST, "字字", "字"]


def test_a_megabyte_on_one_line_is_read_in_a_moment() -> None:
    began = time.monotonic()
    for text in ("x" * 1_000_000, "é+" * 500_000, "字" * 300_000, "\u0301" * 1_000_000, "`" * 1_000_000):
        index_text(text)
    assert time.monotonic() - began < 10


@given(MIXED)
def test_a_place_in_the_folded_text_leads_back_to_the_text(text: str) -> None:
    folded, places = fold(text), Places(text)
    found = [places.original(at) for at in range(len(folded) + 1)]
    assert found == sorted(found) and found[-1] == len(text)
    for at in range(0, len(folded), 5):
        start, end = found[at], max(found[at] + 1, next((one for one in found[at:] if one > found[at]), len(text)))
        assert folded[at] in fold(text[start:end])


@given(MIXED)
def test_pieces_say_the_same_as_the_index(text: str) -> None:
    parts = pieces(text)
    if parts:
        held = f" {' '.join(tokens(text))} "
        wanted, goes_on = Term(tuple(parts)).tokens()
        assert f" {' '.join(wanted)}" + ("" if goes_on else " ") in held


def term(text: str, *, prefix: bool = False) -> Term:
    return Term(tuple(pieces(text)), prefix)


def test_a_snippet_shows_the_text_as_it_was_written_with_the_words_marked() -> None:
    text = "x " * 3000 + "Ein Café in 北京大学, und noch ein CAFÉ." + " y" * 3000
    shown = snippet(text, (term("cafe"), term("京大")))
    assert shown is not None and marks_of(shown) == ["Café", "京大", "CAFÉ"]
    assert text_of(shown).strip("…") in text and len(text_of(shown)) < 300
    assert text_of(shown).startswith("…x ") and text_of(shown).endswith(" y…")


def test_a_snippet_is_taken_where_most_words_stand_together() -> None:
    text = "apple. " + "filler " * 100 + "pear and apple. " + "filler " * 100 + "pear"
    shown = snippet(text, (term("apple"), term("pear")))
    assert shown is not None and marks_of(shown) == ["pear", "apple"]


def test_a_beginning_is_marked_as_far_as_it_was_typed_and_words_elsewhere_are_not() -> None:
    shown = snippet("scattered cats catalogue", (term("cat", prefix=True),))
    assert shown is not None and marks_of(shown) == ["cat", "cat"]
    assert snippet("scattered", (term("cat", prefix=True),)) is None
    assert snippet("nothing", ()) is None


def test_a_snippet_never_cuts_a_character_from_its_marks() -> None:
    shown = snippet("cafe\u0301s for e\u0301veryone", (term("cafe", prefix=True), term("e", prefix=True)))
    assert shown is not None and marks_of(shown)[0] == "cafe\u0301"
    assert text_of(beginning("short\ntext")) == "short\ntext"
