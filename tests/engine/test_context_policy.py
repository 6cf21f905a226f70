"""What is sent once a chat has outgrown the context: which messages, how stable, how it is told, what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from pagedchat.engine.context_policy import Room, build_to_fit, room_for
from pagedchat.engine.errors import RequestError
from pagedchat.engine.prompt import BuiltPrompt, PromptBuilder, PromptMessage
from support.chat_templates import ALL, CHATML, CHATML_WITH_DEFAULT, GEMMA
from support.prompts import builder_of, builder_of_a_kept_chat, spelled

# A message of n tokens is n - 1 letters and an end; nothing asks for the reply.
BARE = "{% for m in messages %}{{ m.content + '<|im_end|>' }}{% endfor %}"
ROOM = Room(context=1000, reserve=200, longest=999)


def message(role: str, tokens: int) -> PromptMessage:
    return PromptMessage(role, "z" * (tokens - 1))


def alternating(count: int, tokens: int = 100, system: int = 50) -> list[PromptMessage]:
    chat = [message("system", system)] if system else []
    return chat + [message("assistant" if index % 2 else "user", tokens) for index in range(count)]


def fit(builder: PromptBuilder, messages: list[PromptMessage], room: Room = ROOM) -> BuiltPrompt:
    return build_to_fit(builder.build, messages, room, lambda text: len(builder._tokenizer.encode(text)))


def left(built: BuiltPrompt) -> tuple[int, int, int] | None:
    return (
        None if built.left_out is None else (built.left_out.messages, built.left_out.tokens, built.left_out.first_kept)
    )


class Chat:
    """A chat as a store keeps it: each question and reply with its ids, each reply with its cut."""

    def __init__(self, builder: PromptBuilder, room: Room = ROOM, system: int | None = 50) -> None:
        self.builder, self.room = builder, room
        self.messages = [message("system", system)] if system else []
        self.fed: list[int] = []
        self.cuts: list[int] = []

    def turn(self, question: int = 100, reply: int = 100) -> int:
        """Ask and answer; returns how many ids of the prompt were fed before, from its beginning on."""
        built = fit(self.builder, [*self.messages, message("user", question)], self.room)
        assert len(built.token_ids) <= self.room.budget
        cut = (
            built.left_out.first_kept
            if built.left_out
            else int(bool(self.messages) and self.messages[0].role == "system")
        )
        kept = [
            one if one.role == "system" or one.token_ids is not None else replace(one, token_ids=ids or None)
            for one, ids in zip([*self.messages, message("user", question)], built.segments, strict=True)
        ]
        text = "y" * (reply - 1)
        output = [*self.builder._tokenizer.encode(text), self.builder._tokenizer.token_id("<|im_end|>") or 0]
        answer = PromptMessage("assistant", text, built.generation_ids + output, kept_from=cut)
        hit = next((i for i, (a, b) in enumerate(zip(built.token_ids, self.fed, strict=False)) if a != b), None)
        hit = min(len(built.token_ids), len(self.fed)) if hit is None else hit
        self.messages = [*kept, answer]
        self.fed = built.token_ids + output
        self.cuts.append(cut)
        return hit


# The figures of one message too many


def test_a_chat_that_outgrew_the_context_keeps_the_system_prompt_and_the_newest_turns_that_fit() -> None:
    builder = builder_of(BARE)
    messages = alternating(21)
    built = fit(builder, messages)
    assert len(built.token_ids) == 750
    assert left(built) == (14, 1400, 15)
    assert [len(ids) for ids in built.segments] == [50] + [0] * 14 + [100] * 7
    assert messages[15].role == "user"
    assert built.note == "14 earlier messages (1,400 tokens) no longer fit into the context and were not sent."


@pytest.mark.parametrize("place", ["system", "oldest kept", "newest"])
def test_one_more_token_never_costs_more_than_one_turn(place: str) -> None:
    builder = builder_of(BARE)
    kept = 7
    for more in range(0, 300, 3):
        for step in (0, 1):
            messages = alternating(21)
            index = {"system": 0, "oldest kept": 15, "newest": 21}[place]
            messages[index] = message(messages[index].role, 100 + more + step - 50 * (place == "system"))
            built = fit(builder, messages)
            now = 21 - (built.left_out.messages if built.left_out else 0)
            assert kept - now in (0, 2)
            assert now % 2 == 1
            kept = now
    assert kept == (5 if place == "oldest kept" else 3)


def test_in_a_running_chat_one_token_costs_one_turn_too() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(6):
        chat.turn()
    while chat.cuts[-1] != chat.cuts[-2]:
        chat.turn()
    before = None
    for tokens in range(2, 700):
        built = fit(chat.builder, [*chat.messages, message("user", tokens)])
        cut = built.left_out.messages if built.left_out else 0
        assert before is None or cut - before in (0, 2)
        before = cut


def test_what_fits_to_the_token_is_sent_whole() -> None:
    builder = builder_of(BARE)
    messages = [*alternating(6), message("user", 150)]
    built = fit(builder, messages)
    assert len(built.token_ids) == 800 and built.left_out is None and built.note is None
    messages[-1] = message("user", 151)
    assert left(fit(builder, messages)) == (2, 200, 3)


# A running chat


def test_a_running_chat_keeps_what_the_same_chat_keeps_as_text() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(10):
        chat.turn()
    built = fit(chat.builder, [*chat.messages, message("user", 100)])
    assert len(built.token_ids) == 750 and left(built) == (14, 1400, 15)


@pytest.mark.parametrize(("question", "reply"), [(100, 100), (20, 30), (40, 61), (151, 50)])
def test_after_the_context_is_full_most_turns_find_all_that_was_fed_before(question: int, reply: int) -> None:
    chat = Chat(builder_of(BARE))
    fed, hits, full = 0, 0, 0
    for _ in range(80):
        hit = chat.turn(question, reply)
        if chat.cuts[-1] > 1:
            full += 1
            hits += hit == fed
            assert hit == fed or chat.cuts[-1] != chat.cuts[-2]
            assert hit >= 50
        fed = len(chat.fed)
    expected = {(100, 100): 0.6, (20, 30): 0.8, (40, 61): 0.7, (151, 50): 0.3}[question, reply]
    assert full > 30 and hits / full >= expected


def test_a_chat_that_overflows_by_one_token_each_turn_hits_all_the_same() -> None:
    chat = Chat(builder_of(BARE))
    chat.turn(50, 101)  # 50 + 151 + 3 x 200 is one too many
    moves = 0
    for _ in range(40):
        chat.turn(100, 100)
        moves += chat.cuts[-1] != chat.cuts[-2]
    assert 0 < moves <= 22


def test_the_cut_leaves_out_no_more_than_is_needed_and_the_slack() -> None:
    source = random.Random(5)
    builder = builder_of(BARE)
    for _ in range(20):
        chat = Chat(builder, system=source.choice([None, 50]))
        for _ in range(25):
            sizes = [len(one.token_ids or one.content) for one in chat.messages]
            question = source.randint(2, 150)
            chat.turn(question, source.randint(2, 150))
            cut = chat.cuts[-1]
            if len(chat.cuts) > 1 and cut != chat.cuts[-2]:
                starts = [i for i, one in enumerate(chat.messages) if one.role == "user" and i < cut]
                one_turn_more = sum(sizes[starts[-1] :]) + question + (50 if len(chat.messages[0].content) == 49 else 0)
                assert one_turn_more > ROOM.budget - ROOM.slack


def test_the_same_chat_gets_the_same_cut_again() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(12):
        chat.turn()
    question = message("user", 77)
    assert (
        fit(chat.builder, [*chat.messages, question]).token_ids
        == fit(chat.builder, [*chat.messages, question]).token_ids
    )


def test_a_larger_context_takes_the_older_turns_in_again() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(12):
        chat.turn()
    assert chat.cuts[-1] > 1
    chat.room = Room(4000, 200, 3999)
    chat.turn()
    assert chat.cuts[-1] == 1
    built = fit(chat.builder, [*chat.messages, message("user", 100)], Room(2000, 200, 1999))
    assert left(built) == (10, 1000, 11)


def test_a_cut_of_messages_that_are_gone_is_not_trusted() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(12):
        chat.turn()
    for one in chat.messages:
        one.kept_from = None if one.kept_from is None else 99
    assert len(fit(chat.builder, [*chat.messages, message("user", 100)]).token_ids) == 750


def test_a_chat_whose_older_messages_have_no_ids_keeps_its_cut() -> None:
    chat = Chat(builder_of(BARE))
    for _ in range(12):
        chat.turn()
    while chat.cuts[-1] != chat.cuts[-2]:
        chat.turn()
    bare = [replace(one, token_ids=None) for one in chat.messages]
    built = fit(chat.builder, [*bare, message("user", 10)])
    assert built.left_out is not None and built.left_out.first_kept == chat.cuts[-1]


@pytest.mark.parametrize("name", ALL)
def test_a_trimmed_prompt_is_that_of_the_kept_messages(name: str) -> None:
    builder = builder_of_a_kept_chat(ALL[name])
    for system in (True, False):
        messages = [PromptMessage("system", "Be brief.")] if system else []
        for number in range(8):
            messages += [PromptMessage("user", f"Question {number}?"), PromptMessage("assistant", f"Answer {number}.")]
        messages.append(PromptMessage("user", "And now?"))
        built = fit(builder, messages, Room(200, 50, 199))
        assert built.left_out is not None
        cut = built.left_out.first_kept
        assert messages[cut].role == "user"
        assert built.token_ids == builder.build([*messages[: int(system)], *messages[cut:]]).token_ids
        assert len(built.token_ids) <= 150
        one_more = builder.build([*messages[: int(system)], *messages[cut - 2 :]])
        assert len(one_more.token_ids) > 150


@pytest.mark.parametrize("template", [CHATML, CHATML_WITH_DEFAULT, GEMMA])
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_kept_ids_stay_when_the_beginning_of_the_chat_goes(template: str, system: str | None) -> None:
    builder = builder_of(template)
    messages = [] if system is None else [PromptMessage("system", system)]
    fed: list[list[int]] = []
    for number in range(12):
        question = PromptMessage("user", f"Question {number}?")
        built = fit(builder, [*messages, question], Room(300, 60, 299))
        cut = built.left_out.first_kept if built.left_out else int(system is not None)
        output = [*builder._tokenizer.encode("Non-canonical."), *(builder._tokenizer.token_id("<|im_end|>"),)]
        kept = [
            one if one.role == "system" or one.token_ids is not None else replace(one, token_ids=ids)
            for one, ids in zip([*messages, question], built.segments, strict=True)
        ]
        messages = [*kept, PromptMessage("assistant", "Non-canonical.", built.generation_ids + output, kept_from=cut)]
        fed.append(built.token_ids)
        text = spelled(builder, built.token_ids)
        assert text.count("Question") == text.count("Non-canonical.") + 1
        if system is not None:
            assert text.count("Be brief.") == 1
        elif template == CHATML_WITH_DEFAULT:
            assert text.count("Be kind.") == 1
    assert len(messages) > cut > 3
    assert any(later[: len(earlier)] == earlier for earlier, later in pairwise(fed[6:]))


# What is refused


def test_a_message_longer_than_the_context_is_refused_with_both_numbers() -> None:
    builder = builder_of(BARE)
    with pytest.raises(RequestError, match=r"Your message has 1,250 tokens.* context holds 1,000 .*Shorten"):
        fit(builder, [*alternating(4), message("user", 1200)])
    with pytest.raises(RequestError, match=r"1,000 tokens.* 1,000 "):
        fit(builder, [message("user", 1000)])
    assert len(fit(builder, [message("user", 999)]).token_ids) == 999


def test_a_system_prompt_longer_than_the_context_is_named() -> None:
    builder = builder_of(BARE)
    with pytest.raises(RequestError, match=r"The system prompt alone has 1,300 tokens.* 1,000 .*the system prompt\."):
        fit(builder, alternating(3, system=1300))


def test_the_newest_message_may_take_of_the_replys_room() -> None:
    built = fit(builder_of(BARE), [*alternating(4), message("user", 900)])
    assert len(built.token_ids) == 950 and left(built) == (4, 400, 5)


def test_a_reply_that_is_continued_stays_with_its_question() -> None:
    builder = builder_of(BARE)
    messages = [*alternating(21), PromptMessage("assistant", "y" * 60, builder._tokenizer.encode("y" * 60))]

    def build(part):
        return builder.build(part, continue_last=True)

    built = build_to_fit(build, messages, ROOM, len)
    assert left(built) == (16, 1600, 17) or left(built) == (14, 1400, 15)
    assert len(built.token_ids) <= 800
    assert built.token_ids[-60:] == messages[-1].token_ids
    with pytest.raises(RequestError, match="Your last message and its reply have"):
        build_to_fit(build, [message("user", 500), PromptMessage("assistant", "y", [70] * 600)], ROOM, len)


# The room


def test_the_reserve_is_the_replys_limit_but_a_quarter_at_most() -> None:
    assert room_for(1000, 5000, 200) == Room(1000, 200, 999)
    assert room_for(1000, 5000, 4000).reserve == 250
    assert room_for(1000, 5000, None).reserve == 250
    assert room_for(1000, 5000, 200).budget == 800


def test_a_pool_smaller_than_the_context_is_the_limit() -> None:
    room = room_for(4096, 640, 100)
    assert (room.context, room.longest, room.holder) == (640, 640, "KV pool")
    with pytest.raises(RequestError, match="the KV pool holds 640"):
        fit(builder_of(BARE), [message("user", 641)], room)
