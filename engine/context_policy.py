"""Which messages are sent once a chat has outgrown the context.

    system   turn   turn   turn   turn   turn   question
    ■■■■■■   □□□□   □□□□   □□□□   ■■■■   ■■■■   ■■■■■■■■  reply …
             '--- left out ---'   '- the cut

Sent are the system prompt and the newest whole turns; a turn begins with a question. A prompt *fits* if it leaves room
for the reply (`Room.reserve`). Behind a cut that moves every token gets another position, so only the system prompt is
found in the cache then. Therefore:

1. The cut of the chat's last reply stays for as long as the prompt fits with it: these turns hit the cache.
2. A chat that is cut for the first time, or whose last cut nobody knows, loses the fewest whole turns it can.
3. A cut that must move on leaves some slack beside, so that the next turns need not move it again: a third of the
   budget, but at most sixteen tokens for each that the prompt is too long by. So one token too many costs one turn,
   and no more.
4. Where the cut had to move for the last reply already, the slack is the whole third. A chat whose turns are each a
   token too long would never hit otherwise.
5. A cut that leaves out more than these rules would (the context has grown since) is made anew.
6. What a question carries (a summary of what came before it) stays: where the question is left out, it stands at the
   beginning of the first one that is sent.

The same chat always gets the same cut: it depends on nothing but the messages, what they say of earlier cuts, and the
room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .errors import ContextLengthError
from .prompt import BuiltPrompt, LeftOut, PromptMessage
from .template_sandbox import ChatTemplateError

RESERVE_SHARE = 4
SLACK_SHARE = 3
SLACK_FACTOR = 16
MARKERS = 16
"""Tokens that a template may write around a message; a generous guess, for messages whose prompt nobody knows."""


@dataclass(frozen=True)
class Room:
    """What a prompt may fill, in tokens.

    Attributes:
        context: what prompt and reply may have together.
        reserve: what a prompt leaves for its reply.
        longest: the longest prompt that can be served at all.
        holder: what sets these limits, for sentences.
    """

    context: int
    reserve: int
    longest: int
    holder: str = "context"

    @property
    def budget(self) -> int:
        """The longest prompt that leaves the reserve."""
        return min(self.context - self.reserve, self.longest)

    @property
    def slack(self) -> int:
        """Most tokens that a move of the cut leaves free beyond the reserve."""
        return self.budget // SLACK_SHARE


def room_for(max_model_len: int, pool_tokens: int | None, max_tokens: int | None) -> Room:
    """The room of a prompt.

    The reserve is the reply's limit, at most a quarter of the context; a quarter for a reply without a limit.

    Args:
        pool_tokens: tokens of the longest sequence that the KV pool holds; None if its length does not matter.
        max_tokens: the reply's limit.
    """
    pool_tokens = max_model_len if pool_tokens is None else pool_tokens
    context = min(max_model_len, pool_tokens)
    quarter = max(1, context // RESERVE_SHARE)
    reserve = min(max_tokens or quarter, quarter)
    holder = "context" if max_model_len <= pool_tokens else "KV pool"
    return Room(context, reserve, min(max_model_len - 1, pool_tokens), holder)


Build = Callable[[Sequence[PromptMessage]], BuiltPrompt]


def build_to_fit(
    build: Build, messages: Sequence[PromptMessage], room: Room, count: Callable[[str], int]
) -> BuiltPrompt:
    """The prompt for a chat, without the oldest turns if it would not fit with them.

    Args:
        build: gives the prompt of some of the messages; called with several cuts where the chat is too long.
        messages: the whole chat; what its replies say in ``kept_from`` is where earlier cuts were. Those at its
            beginning may say no more than their length.
        count: tokens of a text; asked for messages that were left out before and came without ids.

    Returns:
        The prompt; its ``segments`` are empty for messages that were left out, its ``left_out`` counts them.

    Raises:
        ChatTemplateError: the template does not take this chat.
        ContextLengthError: the newest turn alone, or the system prompt alone, is too long for any reply.
    """
    return _Fitting(build, messages, room, count).fit()


class _Fitting:
    """The search for one prompt's cut. Cuts are counted by their place among ``_cuts``: 0 leaves out nothing."""

    def __init__(
        self, build: Build, messages: Sequence[PromptMessage], room: Room, count: Callable[[str], int]
    ) -> None:
        self._build = build
        self._count = count
        self._messages = messages
        self._room = room
        self._start = 1 if messages and messages[0].role == "system" else 0
        self._cuts = _turn_starts(messages, self._start)
        known_by_length = [index for index, one in enumerate(messages) if one.num_tokens is not None]
        self._lowest = bisect_left(self._cuts, known_by_length[-1] + 1) if known_by_length else 0
        self._built: dict[int, BuiltPrompt] = {}
        self._carrier = next((index for index, one in enumerate(messages) if one.carried), len(messages))

    def fit(self) -> BuiltPrompt:
        place, moved = self._remembered()
        if place and self._leaves_out_too_much(place):
            place = 0
        place = max(place, self._lowest)
        overflow = self._size(place) - self._room.budget
        if overflow > 0:
            place = self._least(place, self._room.budget - self._slack(overflow, place, moved))
            if self._size(place) > self._room.longest:
                raise self._refusal(self._size(place), self._carrier < len(self._messages))
        return self._whole(place)

    def _slack(self, overflow: int, place: int, moved: bool) -> int:
        """Tokens to leave free beyond the reserve when the cut moves from ``place``."""
        if place == 0:
            return 0
        return self._room.slack if moved else min(SLACK_FACTOR * overflow, self._room.slack)

    def _remembered(self) -> tuple[int, bool]:
        """Place of the last reply's cut, 0 where nobody knows, and whether it was new for that reply."""
        known = [one.kept_from for one in self._messages if one.role == "assistant" and one.kept_from is not None]
        if not known:
            return 0, False
        place = bisect_left(self._cuts, known[-1])
        if place == len(self._cuts) or self._cuts[place] != known[-1]:
            return 0, False
        return place, len(known) > 1 and known[-2] != known[-1]

    def _leaves_out_too_much(self, place: int) -> bool:
        """Whether all would fit, or one turn more with all the slack there can be."""
        size = self._size(place)
        one_more = size + self._tokens_between(place - 1, place)
        everything = size + self._tokens_between(0, place)
        return everything <= self._room.budget or one_more <= self._room.budget - self._room.slack

    def _least(self, low: int, wanted: int) -> int:
        """The first place from ``low`` on whose prompt has at most ``wanted`` tokens; the last place if none has."""
        last = len(self._cuts) - 1
        place, size = low, self._size(low)
        while place < last and size > wanted:
            size -= self._tokens_between(place, place + 1)
            place += 1
        while place < last and self._size(place) > wanted:
            place += 1
        while place > low and self._size(place - 1) <= wanted:
            place -= 1
        return place

    def _size(self, place: int) -> int:
        return len(self._at(place).token_ids)

    def _at(self, place: int) -> BuiltPrompt:
        if place not in self._built:
            system, sent = self._messages[: self._start], list(self._messages[self._cuts[place] :])
            if carried := self._carried(place):
                sent[0] = sent[0].after(carried)
            self._built[place] = self._build([*system, *sent])
        return self._built[place]

    def _carried(self, place: int) -> str:
        """What the first question at a cut gets of one that is left out."""
        return (self._messages[self._carrier].carried or "") if self._carrier < self._cuts[place] else ""

    def _tokens_between(self, first: int, second: int) -> int:
        """Tokens of the messages that the second cut leaves out beyond the first, as far as is known beforehand."""
        return sum(self._tokens_of(index) for index in range(self._cuts[first], self._cuts[second]))

    def _tokens_of(self, index: int) -> int:
        ids, known = self._messages[index].token_ids, self._messages[index].num_tokens
        if known is not None:
            return known
        if ids is not None:
            return len(ids)
        for place, built in self._built.items():
            if self._cuts[place] <= index and built.segments:
                return len(built.segments[index - self._cuts[place] + self._start])
        return self._count(self._messages[index].content) + MARKERS

    def _whole(self, place: int) -> BuiltPrompt:
        """The prompt at a cut as one of the whole chat."""
        built, cut = self._at(place), self._cuts[place]
        count = cut - self._start
        if not count:
            return built
        tokens = self._tokens_between(0, place)
        segments = [*built.segments[: self._start], *([] for _ in range(count)), *built.segments[self._start :]]
        note = f"{count:,} earlier messages ({tokens:,} tokens) no longer fit into the context and were not sent."
        note = f"{note} {built.note}" if built.note else note
        rewritten = [place if place < self._start else place + count for place in built.rewritten]
        left_out = LeftOut(count, tokens, cut)
        return replace(built, segments=segments, note=note, rewritten=rewritten, left_out=left_out)

    def _refusal(self, size: int, carries: bool) -> ContextLengthError:
        holds = f"but the {self._room.holder} holds {self._room.context:,} with the reply"
        alone = self._system_size()
        if alone > self._room.longest:
            return ContextLengthError(
                f"The system prompt alone has {alone:,} tokens, {holds}. Shorten the system prompt."
            )
        continues = self._messages[-1].role == "assistant"
        subject = "Your last message and its reply have" if continues else "Your message has"
        parts = [*(["system prompt"] if self._start else []), *(["the summary before it"] if carries else [])]
        included = f", {' and '.join(parts)} included" if parts else ""
        return ContextLengthError(f"{subject} {size:,} tokens{included}, {holds}. Shorten the message.")

    def _system_size(self) -> int:
        """Tokens of a prompt with nothing but the system prompt; 0 without one."""
        if not self._start:
            return 0
        try:
            return len(self._build(self._messages[:1]).token_ids)
        except ChatTemplateError:  # a template that wants a question
            return self._count(self._messages[0].content)


def _turn_starts(messages: Sequence[PromptMessage], start: int) -> list[int]:
    """Where a chat can be cut: at its beginning, and before each question that follows something else."""
    starts = [
        index
        for index in range(start + 1, len(messages))
        if messages[index].role == "user" and messages[index - 1].role not in ("user", "system")
    ]
    return [start, *starts]
