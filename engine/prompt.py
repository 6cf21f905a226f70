"""Prompts for chats, built so that each turn's token ids extend the ids of the turn before.

    segments[0]        segments[1]                   segments[2]                 generation_ids
    ┌─────────────┐┌──────────────────────────┐┌──────────────────────────┐┌─────────────────────┐
    system turn    user turn                   assistant turn, as sampled   header of the reply

Which ids are sent, in this order: text of people never becomes control tokens; ids that were fed or generated before
stay as they are; then the template. Only what is new is tokenized.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .chat_template import CHATML, PLAIN_TURNS, ChatTemplate, ChatTemplateError
from .control_text import ChatEncoder, control_pattern
from .errors import RequestError
from .prompt_ids import PromptAssembler, PromptIds
from .prompt_parts import ChatParts, Turn, join_neighbours, lay_out
from .reasoning import CLOSE, OPEN, ReasoningSplitter, header_state
from .turns import TurnLayout

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

REMEMBERED_REPLIES = 1000
KEPT_VARIANTS = 8
OWN_VARIABLES = {"messages", "tools", "documents", "add_generation_prompt"}


@dataclass
class PromptMessage:
    """One message of a chat.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
        content: text as typed or shown.
        token_ids: its segment of an earlier prompt, kept as it is; for a reply the header that asked for it
            (`BuiltPrompt.generation_ids`) and the ids as sampled.
        kept_from: of a reply: index of the first message after the system prompt that its own prompt had; see
            `context_policy`.
        num_tokens: of a message that cannot be sent because far too much follows it: its length, in place of its
            text and ids.
        carried: of a question: the part of its content that goes on with the chat where the question itself is left
            out, at the beginning of the first one that is sent. A summary of what came before, say.
    """

    role: str
    content: str
    token_ids: list[int] | None = None
    kept_from: int | None = None
    num_tokens: int | None = None
    carried: str | None = None

    @classmethod
    def of(cls, message: dict[str, Any]) -> PromptMessage:
        """A message as a request has it; see ``GenerateRequest``."""
        optional = ("token_ids", "kept_from", "num_tokens", "carried")
        return cls(message["role"], message["content"], **{name: message.get(name) for name in optional})

    def after(self, carried: str) -> PromptMessage:
        """This question as the first one that is sent, with what another one carried."""
        return replace(self, content=carried + self.content, token_ids=None)


@dataclass(frozen=True)
class LeftOut:
    """What of a chat was not sent; see `context_policy`.

    Attributes:
        messages: how many.
        tokens: how many they have.
        first_kept: index of the first message after the system prompt that was sent.
    """

    messages: int
    tokens: int
    first_kept: int


@dataclass
class BuiltPrompt:
    """A prompt, in the parts that a store keeps.

    Attributes:
        token_ids: the whole prompt: all segments, then ``generation_ids``.
        segments: ids of each message, from the end of the one before to its own end; empty for a message that the
            template does not show apart.
        generation_ids: what asks for a reply.
        first_difference: index of the first id at which the kept ids spell another text than the template would write
            today; None if they agree.
        note: a sentence about that, or about messages that had to be joined or left out.
        rewritten: indices of replies without known ids whose content the template writes in another way.
        left_out: what did not fit into the context; None if all of it did.
    """

    token_ids: list[int]
    segments: list[list[int]]
    generation_ids: list[int]
    first_difference: int | None = None
    note: str | None = None
    rewritten: list[int] = field(default_factory=list)
    left_out: LeftOut | None = None


class PromptBuilder:
    """Builds the prompts of one model.

    Also tells the tokenizer which control token ends the template's turns, and adds what is odd about the template to
    the tokenizer's warnings.

    Args:
        template: None for a model that came without one: ChatML if the model knows its tokens, else plain lines.

    Attributes:
        default_system_prompt: what the template puts in where a chat has no system message; None if nothing.
    """

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None = None) -> None:
        self._tokenizer = tokenizer
        self._template = template or self._fallback()
        self._replies: OrderedDict[str, list[int]] = OrderedDict()
        self._variants: dict[str, PromptBuilder] = {}
        try:
            control = control_pattern(tokenizer, self._template)
        except ChatTemplateError as error:
            tokenizer.warnings.append(f"{error} A plain ChatML template is used instead.")
            self._template = ChatTemplate(CHATML, tokenizer.special_tokens)
            control = control_pattern(tokenizer, self._template)
        self._encoder = ChatEncoder(tokenizer, control)
        self._layout = TurnLayout(self._template, control)
        self.default_system_prompt = self._layout.default_system_prompt
        end = self._layout.turn_end()
        number = None if end is None else tokenizer.token_id(end)
        tokenizer.add_end_ids([] if number is None else [number])

    def build(
        self, messages: Sequence[PromptMessage], add_generation_prompt: bool = True, *, continue_last: bool = False
    ) -> BuiltPrompt:
        """The prompt for a chat.

        A system message with an empty content is an empty system turn; without one the template may insert its own.
        Replies without any text and ids are left out. Neighbours of one role are joined where the template insists on
        alternation.

        Args:
            continue_last: the last message is a reply to go on with, so nothing closes it.

        Raises:
            ChatTemplateError: the template does not take this chat.
        """
        ask = add_generation_prompt and not continue_last
        turns = [self._turn(place, message) for place, message in enumerate(messages) if _says_something(message)]
        parts, note = self._lay_out(turns, ask)
        self._drop_stale(parts)
        assembler = PromptAssembler(parts, self._encoder, self._reply_header, ask=ask, continue_last=continue_last)
        ids = assembler.assemble()
        bos = self._add_bos(ids)
        token_ids = ids.all()
        difference = None
        if any(turn.known for turn in parts.turns):
            difference = self._first_difference(token_ids, bos + self._encoder.unmark(parts.text))
        if difference is not None and note is None:
            note = (
                f"The model's chat template would write this chat in another way from token {difference} on; "
                "earlier turns are sent as they were first computed."
            )
        segments = [ids.segments.get(place, []) for place in range(len(messages))]
        rewritten = [
            turn.place for turn in parts.shown if turn.role == "assistant" and not turn.known and turn.rewritten
        ]
        return BuiltPrompt(token_ids, segments, ids.generation_ids, difference, note, rewritten)

    @property
    def writes_dates(self) -> bool:
        """Whether the template asks for the date; see `chat_date`."""
        return self._template.writes_dates

    def with_variables(self, variables: Mapping[str, Any]) -> PromptBuilder:
        """The same builder, whose template is given more variables (``enable_thinking``, say).

        Raises:
            RequestError: a variable that is not the caller's to set.
        """
        if not variables:
            return self
        taken = sorted(OWN_VARIABLES & set(variables))
        if taken:
            raise RequestError(f"The chat template's variable {taken[0]} follows from the request; leave it out.")
        key = json.dumps(variables, sort_keys=True, default=str)
        if key not in self._variants:
            if len(self._variants) >= KEPT_VARIANTS:
                del self._variants[next(iter(self._variants))]
            other = copy(self)
            other.__dict__.pop("_reply_header", None)
            other._template = self._template.with_variables(variables)
            other._layout = TurnLayout(other._template, self._layout.control)
            self._variants[key] = other
        return self._variants[key]

    def reasoning(self, built: BuiltPrompt, *, continue_last: bool = False) -> ReasoningSplitter | None:
        """The splitter of thinking and answer for the text that follows a prompt.

        Only for a model that marks its thinking: its template writes one of the tags, or its tokenizer has both as
        tokens. The header decides where a reply begins, a reply to continue where it stood.

        Returns:
            None for any other model.
        """
        if not self._marks_thinking:
            return None
        if not continue_last:
            header = self._tokenizer.join_bytes(built.generation_ids).decode("utf-8", "ignore")
            return ReasoningSplitter(state=header_state(header))
        splitter = ReasoningSplitter(state=header_state(self._reply_header))
        splitter.feed(self._tokenizer.decode(self._without_header(built.segments[-1])))
        return splitter

    def _without_header(self, reply: Sequence[int]) -> Sequence[int]:
        """The ids of a kept reply behind those that spell the header it began with."""
        left, count = len(self._reply_header.encode()), 0
        while left > 0 and count < len(reply):
            left -= len(self._tokenizer.token_bytes(reply[count]))
            count += 1
        return reply[count:]

    @cached_property
    def _marks_thinking(self) -> bool:
        if any(tag in self._template.literal_text for tag in (OPEN, CLOSE)):
            return True
        return {OPEN, CLOSE} <= set(self._tokenizer.added_tokens.values())

    def remember(self, ids: Sequence[int], text: str) -> None:
        """Keep the ids of a reply by its text, for histories that come back as text alone."""
        self._replies[text] = list(ids)
        self._replies.move_to_end(text)
        if len(self._replies) > REMEMBERED_REPLIES:
            self._replies.popitem(last=False)

    def forget_texts(self) -> None:
        """Keep no text of a chat that was tokenized."""
        self._encoder.forget()

    def _turn(self, place: int, message: PromptMessage) -> Turn:
        turn = Turn(place, message.role, self._encoder.mark(message.content or ""))
        if message.token_ids is not None:
            turn.ids = list(message.token_ids)
        elif message.role == "assistant":
            turn.sampled = self._replies.get(message.content)
        return turn

    def _lay_out(self, turns: list[Turn], ask: bool) -> tuple[ChatParts, str | None]:
        try:
            return lay_out(self._template, self._layout, turns, ask), None
        except ChatTemplateError:
            joined = join_neighbours(turns)
            if [one.role for one in joined] == [one.role for one in turns]:
                raise
        note = "The model's chat template wants questions and answers in turn, so neighbours were joined."
        return lay_out(self._template, self._layout, joined, ask), note

    @cached_property
    def _reply_header(self) -> str:
        try:
            return self._layout.generation_text()
        except ChatTemplateError:
            return ""

    def _drop_stale(self, parts: ChatParts) -> None:
        """Forget the first question's ids where they carry a system prompt that the chat has no more."""
        turns = parts.turns
        system = turns[0] if turns and turns[0].role == "system" else None
        first = next((turn for turn in turns if turn.role != "system"), None)
        if first is None or first.ids is None:
            return
        preamble, default = self._layout.preamble, self._layout.default_system_prompt
        spelled = self._tokenizer.join_bytes(first.ids).decode("utf-8", "ignore")
        if system is None:
            stale = bool(default) and default not in spelled[: 2 * len(preamble)]
        elif system.shown and system.isolated:
            stale = default is not None and spelled.startswith(preamble)
        else:
            stale = system.shown and self._encoder.unmark(system.content).strip() not in spelled
        if stale:
            first.ids = None

    def _add_bos(self, ids: PromptIds) -> str:
        """Begin with the beginning-of-text token where the model wants one and the template wrote none.

        Decided for each rendered prompt, since templates differ. Returns the text that was added.
        """
        bos = self._tokenizer.bos_id
        if not self._tokenizer.add_bos or bos is None or ids.all()[:1] == [bos]:
            return ""
        for segment in (*ids.segments.values(), ids.generation_ids):
            if segment:
                segment.insert(0, bos)
                return self._tokenizer.join_bytes([bos]).decode("utf-8", "ignore")
        return ""

    def _first_difference(self, ids: list[int], expected: str) -> int | None:
        """Index of the first id whose text is not what the template writes; None if ``ids`` spell its beginning."""
        wanted = expected.encode("utf-8", "surrogatepass")
        if wanted.startswith(self._tokenizer.join_bytes(ids)):
            return None
        pieces = [self._tokenizer.token_bytes(number) for number in ids]
        if self._tokenizer.strips_leading_space:  # SentencePiece puts spaces where the text has none
            pieces = [piece.replace(b" ", b"") for piece in pieces]
            wanted = wanted.replace(b" ", b"")
        position = 0
        for number, piece in enumerate(pieces):
            if not wanted.startswith(piece, position):
                return number
            position += len(piece)
        return None

    def _fallback(self) -> ChatTemplate:
        tokenizer = self._tokenizer
        if tokenizer.token_id("<|im_start|>") is not None:
            tokenizer.warnings.append("The model came without a chat template; ChatML is used.")
            return ChatTemplate(CHATML, tokenizer.special_tokens)
        tokenizer.warnings.append(
            "The model came without a chat template; plain 'User:' and 'Assistant:' lines are used."
        )
        return ChatTemplate(PLAIN_TURNS, tokenizer.special_tokens)


def _says_something(message: PromptMessage) -> bool:
    return bool(message.content or message.token_ids or message.role != "assistant")


def load_prompt_builder(tokenizer: Tokenizer) -> PromptBuilder:
    """The prompt builder for a tokenizer, with the chat template that came with it."""
    source = tokenizer.chat_template
    return PromptBuilder(tokenizer, ChatTemplate(source, tokenizer.special_tokens) if source else None)
