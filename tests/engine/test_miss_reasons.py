"""Why a prefix was not found: where the first token is, in which message, and what is known of the cause."""

from __future__ import annotations

from typing import Any

from pagedchat.engine import computed_before
from pagedchat.engine.computed_before import ComputedBefore
from support.chat_engine import ChatEngine, said
from support.chat_templates import CHATML

SYSTEM = said("system", "You answer questions about boats and rivers.")


def turn(number: int, answer: str = "Yes.") -> list[dict[str, Any]]:
    return [said("user", f"Is this question number {number}?"), said("assistant", answer)]


def played(**settings: Any) -> tuple[ChatEngine, list[dict[str, Any]]]:
    """An engine that has answered two questions, and the chat with a third."""
    chat = ChatEngine(CHATML, **settings)
    messages = [SYSTEM]
    for number in range(2):
        messages = [*messages, *turn(number)]
        chat.say(messages[:-1], "Yes.")
    return chat, [*messages, said("user", "And this one?")]


def told(found: dict[str, Any]) -> tuple[Any, Any, Any]:
    return found["message_index"], found["message_role"], found["reason"]


def test_only_the_newest_message_is_new() -> None:
    chat, messages = played()
    found = chat.probe(messages)
    assert told(found) == (4, "assistant", "new")  # the end of the last reply was sampled, never fed
    started = chat.prompting.start(chat.request(messages))
    assert found["first_difference"] == found["cached_tokens"] == sum(len(ids) for ids in started.segments[:5]) - 1
    assert told(chat.probe([*messages[:3], said("user", "Is this")])) == (3, "user", "new")


def test_an_edited_message_is_another_text() -> None:
    chat, messages = played()
    messages[3] = said("user", "Is this an edited question?")
    assert told(chat.probe(messages)) == (3, "user", "other_text")


def test_a_chat_that_was_never_computed_says_so() -> None:
    chat, _ = played()
    other = [said("user", "Quite another beginning."), said("assistant", "No."), said("user", "Go on.")]
    found = chat.probe(other)
    assert found["message_index"] == 0 and found["reason"] == "not_computed"


def test_evicted_blocks_are_told_from_text_that_was_never_computed() -> None:
    chat, messages = played(num_blocks=48)
    assert told(chat.probe(messages))[2] == "new"
    for number in range(6):
        chat.say([said("user", f"{number} unrelated chats that need the blocks for themselves")], "Fine, go ahead.")
    found = chat.probe(messages)
    assert found["first_difference"] < found["prompt_tokens"] - 20
    assert found["reason"] == "evicted"
    assert chat.engine.reset_cache()
    assert chat.probe(messages)["reason"] == "not_computed"


def test_the_part_filled_end_of_a_sequence_counts_as_computed_too() -> None:
    known = ComputedBefore(4)
    known.note([1, 2, 3, 4, 5, 6], "")
    assert known.reason([1, 2, 3, 4, 5, 6, 7], "", 4) == "evicted"
    assert known.reason([1, 2, 3, 4, 5, 6, 7], "", 5) == "evicted"
    assert known.reason([1, 2, 3, 4, 5, 6, 7], "", 6) != "evicted", "7 was never computed there"
    assert known.reason([1, 2, 3, 4, 5, 9], "", 5) != "evicted"
    assert known.reason([5, 6], "", 0) == "not_computed"


def test_another_salt_learns_nothing_of_what_was_computed() -> None:
    chat, messages = played()
    mine, other = chat.probe(messages), chat.probe(messages, salt="other")
    assert mine["cached_tokens"] > 0 and other["cached_tokens"] == 0
    assert told(other) == (0, "system", "not_computed")


def test_without_a_cache_that_is_the_reason() -> None:
    chat, messages = played(enable_prefix_caching=False)
    assert told(chat.probe(messages)) == (0, "system", "caching_off")


def test_turns_that_were_left_out_are_the_reason_behind_the_cut() -> None:
    chat = ChatEngine(CHATML, max_model_len=400)
    messages: list[dict[str, Any]] = [SYSTEM]
    reasons = []
    for number in range(12):
        messages.append(said("user", f"Is this question number {number}?"))
        found = chat.probe(messages, trim=True, max_tokens=60)
        reasons.append((found["reason"], found["left_out_messages"]))
        if found["reason"] == "trimmed":
            assert found["message_index"] == found["kept_from"] and found["cached_tokens"] >= 40
        started, _, output = chat.say(messages, "Yes, it is.", trim=True, max_tokens=60)
        messages = [
            {**one, "token_ids": one["token_ids"] or ids or None}
            for one, ids in zip(messages, started.segments, strict=True)
        ]
        messages.append(
            {**said("assistant", "Yes, it is.", started.generation_ids + output), "kept_from": started.kept_from}
        )
    left_out = [count for _, count in reasons]
    assert left_out == sorted(left_out) and left_out[0] == 0 < left_out[-1]
    moved = [index for index in range(1, 12) if left_out[index] != left_out[index - 1]]
    assert moved and all((reasons[index][0] == "trimmed") == (index in moved) for index in range(1, 12))


def test_a_prompt_that_is_found_whole_has_no_reason() -> None:
    chat = ChatEngine(CHATML)
    chat.engine.add_request("a", list(range(20, 40)), chat.request([SYSTEM], max_tokens=2).params)
    while chat.engine.has_unfinished():
        chat.engine.step()
    found = chat.engine.probe(list(range(20, 40)))
    assert found["first_difference"] is None and found["reason"] is None


def test_what_is_remembered_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(computed_before, "REMEMBERED_BLOCKS", 50)
    memory = ComputedBefore(4)
    for number in range(40):
        memory.note(list(range(number * 100, number * 100 + 40)), "")
    assert len(memory._blocks) == len(memory._parents) == 50
    assert memory.reason(list(range(3900, 3940)), "", 0) == "evicted"
    assert memory.reason(list(range(0, 40)), "", 0) == "not_computed"
