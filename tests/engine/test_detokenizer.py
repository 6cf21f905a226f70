"""Streaming text: whole characters only, stop strings across tokens, spaces where they belong."""

from __future__ import annotations

import random

import pytest

from pagedchat.engine.detokenizer import IncrementalDetokenizer
from pagedchat.engine.tokenizer import Tokenizer
from support.tiny_tokenizers import byte_level_tokenizer, sentencepiece_tokenizer

FAMILY = "👨‍👩‍👧"


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    """Byte-level, with a few tokens of several letters."""
    return byte_level_tokenizer(words=["QR", "TU", "...stop!", " hello", "ab"])


@pytest.fixture(scope="module")
def pieces() -> Tokenizer:
    """SentencePiece."""
    return sentencepiece_tokenizer()


def named(tokenizer: Tokenizer, *tokens: str) -> list[int]:
    """Ids of tokens by name."""
    ids = [tokenizer.token_id(token.replace(" ", "Ġ") if token.startswith(" ") else token) for token in tokens]
    assert None not in ids
    return [number for number in ids if number is not None]


def stream(
    tokenizer: Tokenizer, ids: list[int], stop: tuple[str, ...] = ()
) -> tuple[list[str], IncrementalDetokenizer]:
    """Deltas of ids fed one by one, the last one from `finish`."""
    detokenizer = IncrementalDetokenizer(tokenizer, stop)
    deltas = [detokenizer.append([number]) for number in ids]
    return [*deltas, detokenizer.finish()], detokenizer


@pytest.mark.parametrize("text", [FAMILY, "안녕하세요", "Příliš žluťoučký kůň", "日本語", "\U0001f1e8\U0001f1ff flag"])
@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_characters_that_span_tokens_come_out_whole(request: pytest.FixtureRequest, kind: str, text: str) -> None:
    tokenizer = request.getfixturevalue(kind)
    ids = tokenizer.encode(text)
    assert len(ids) > len(text)
    deltas, _ = stream(tokenizer, ids)
    assert "".join(deltas) == tokenizer.decode(ids) == text
    assert not any("\ufffd" in delta for delta in deltas)


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_a_reply_cut_inside_a_character_ends_before_it(request: pytest.FixtureRequest, kind: str) -> None:
    tokenizer = request.getfixturevalue(kind)
    ids = tokenizer.encode(f"ok {FAMILY}")
    for cut in range(len(ids)):
        deltas, _ = stream(tokenizer, ids[:cut])
        text = "".join(deltas)
        assert "\ufffd" not in text and text == tokenizer.decode(ids[:cut])
        assert f"ok {FAMILY}".startswith(text)


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_joined_deltas_equal_the_decoding_of_any_ids(request: pytest.FixtureRequest, kind: str) -> None:
    tokenizer = request.getfixturevalue(kind)
    source = random.Random(7)
    for _ in range(300):
        ids = [source.randrange(tokenizer.num_tokens) for _ in range(source.randrange(1, 30))]
        deltas, detokenizer = stream(tokenizer, ids, ("never there",))
        assert "".join(deltas) == tokenizer.decode(ids)
        assert "\ufffd" not in "".join(deltas)
        assert detokenizer.text_token_count == len(ids)


def test_spaces_between_sentencepiece_tokens_stay(pieces: Tokenizer) -> None:
    ids = named(pieces, "▁Hello", "▁world", "!", "▁", "▁x")
    deltas, _ = stream(pieces, ids)
    assert deltas == ["Hello", " world", "!", " ", " x", ""]
    assert "".join(deltas) == pieces.decode(ids) == transformers_text(pieces, ids)


def transformers_text(tokenizer: Tokenizer, ids: list[int]) -> str:
    """What the tokenizers library makes of ids."""
    return tokenizer._backend.decode(ids)


def test_a_continued_reply_keeps_its_leading_space(pieces: Tokenizer) -> None:
    ids = named(pieces, "▁Hello", "▁world", "▁x")
    first = IncrementalDetokenizer(pieces)
    text = first.append(ids[:1]) + first.finish()
    second = IncrementalDetokenizer(pieces, continues=True)
    assert text + second.append(ids[1:]) + second.finish() == pieces.decode(ids) == "Hello world x"


def test_markers_are_not_shown_but_the_same_characters_are(words: Tokenizer) -> None:
    end = named(words, "<|im_end|>")
    deltas, _ = stream(words, [*words.encode("a<|im_end|>"), *end])
    assert "".join(deltas) == "a<|im_end|>"


# Stop strings


def test_a_stop_string_that_spans_tokens_is_never_shown(words: Tokenizer) -> None:
    ids = named(words, "P", "QR", "S", "TU", "V", "W")
    deltas, detokenizer = stream(words, ids, ("QRSTUV",))
    assert deltas == ["P", "", "", "", "", "", ""]
    assert detokenizer.stopped
    assert detokenizer.history_ids(ids) == ids[:1] and detokenizer.text_token_count == 1


def test_a_near_miss_is_shown_whole(words: Tokenizer) -> None:
    ids = named(words, "P", "QR", "S", "TU", "X")
    deltas, detokenizer = stream(words, ids, ("QRSTUV",))
    assert deltas == ["P", "", "", "", "QRSTUX", ""]
    assert not detokenizer.stopped and detokenizer.history_ids(ids) == ids


def test_a_begun_stop_string_is_shown_when_nothing_follows(words: Tokenizer) -> None:
    deltas, detokenizer = stream(words, named(words, "P", "QR", "S"), ("QRSTUV",))
    assert deltas == ["P", "", "", "QRS"]
    assert not detokenizer.stopped


def test_of_two_stops_the_shorter_beginning_decides(words: Tokenizer) -> None:
    for stops in (("QR", "QRS"), ("QRS", "QR")):
        deltas, detokenizer = stream(words, named(words, "P", "QR", "S"), stops)
        assert "".join(deltas) == "P" and detokenizer.stopped


def test_a_stop_inside_one_token_keeps_that_tokens_beginning(words: Tokenizer) -> None:
    ids = named(words, "ab", "...stop!", "W")
    deltas, detokenizer = stream(words, ids, ("stop",))
    assert "".join(deltas) == "ab..."
    assert detokenizer.text_token_count == 1
    assert words.decode(detokenizer.history_ids(ids)) == "ab..."


def test_a_token_shown_in_part_before_the_stop_was_complete_is_accounted_for(words: Tokenizer) -> None:
    ids = named(words, "ab", "...stop!", "Q", "W")
    deltas, detokenizer = stream(words, ids, ("!Q",))
    assert "".join(deltas) == "ab...stop" and detokenizer.stopped
    assert words.decode(detokenizer.history_ids(ids)) == "ab...stop"


def test_a_multi_byte_stop_is_found_across_its_bytes(words: Tokenizer) -> None:
    ids = words.encode("ok終了 more")
    deltas, detokenizer = stream(words, ids, ("終了",))
    assert "".join(deltas) == "ok" and detokenizer.stopped
    assert words.decode(detokenizer.history_ids(ids)) == "ok"
    assert detokenizer.text_token_count == len(words.encode("ok"))


def test_nothing_is_shown_after_a_stop(words: Tokenizer) -> None:
    detokenizer = IncrementalDetokenizer(words, ["S"])
    assert detokenizer.append(named(words, "P", "S", "W")) == "P"
    assert detokenizer.append(named(words, "W")) == "" and detokenizer.finish() == ""


def test_random_stops_are_found_wherever_the_tokens_fall(words: Tokenizer) -> None:
    source = random.Random(11)
    for _ in range(300):
        text = "".join(source.choice(["a", "b", "é", " "]) for _ in range(12))
        stops = tuple("".join(source.choice(["a", "b", "é"]) for _ in range(source.randrange(1, 4))) for _ in range(2))
        ids = words.encode(text)
        deltas, detokenizer = stream(words, ids, stops)
        found = [place for stop in stops if (place := text.find(stop)) >= 0]
        shown = "".join(deltas)
        assert detokenizer.stopped == bool(found)
        assert not found or len(shown) >= min(found)
        assert text.startswith(shown) and not any(stop in shown for stop in stops)
        assert words.decode(detokenizer.history_ids(ids)) == shown
