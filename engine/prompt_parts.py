"""A chat cut into the parts that its template made of it: for each turn a header, a body and a closing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .chat_template import ChatTemplate
from .turns import TurnLayout, find_bodies


@dataclass
class Turn:
    """One message on its way into a prompt.

    Attributes:
        place: index of the message in the chat.
        content: its text, control tokens marked.
        ids: its segment, where known from an earlier prompt.
        sampled: ids of the reply alone, where a history came back without ids.
        shown: the template shows this message apart.
        header, body, closing: text before the content, what the template made of the content, text that ends the turn.
        rewritten: the body is not the content, or nobody knows.
        isolated: a control token stands at the end of the turn, so what follows is tokenized apart.
    """

    place: int
    role: str
    content: str
    ids: list[int] | None = None
    sampled: list[int] | None = None
    shown: bool = False
    header: str = ""
    body: str = ""
    closing: str = ""
    isolated: bool = False
    rewritten: bool = False

    @property
    def known(self) -> bool:
        """Whether its ids need no tokenizing."""
        return self.ids is not None or self.sampled is not None

    @property
    def text(self) -> str:
        """All of it, as the template writes it."""
        return self.header + self.body + self.closing


@dataclass
class ChatParts:
    """A rendered chat and its parts.

    Attributes:
        text: the whole, control tokens of contents marked.
        turns: all messages, those that are not shown too.
        tail: what follows the last turn; the header of the reply where one is asked for.
        joined: the parts together are the whole, to the letter.
        placed: each part could be told; without this there is only the whole.
    """

    text: str
    turns: list[Turn]
    tail: str
    joined: bool
    placed: bool

    @property
    def shown(self) -> list[Turn]:
        """The turns that the template shows."""
        return [turn for turn in self.turns if turn.shown]


def lay_out(template: ChatTemplate, layout: TurnLayout, turns: Sequence[Turn], ask: bool) -> ChatParts:
    """Render a chat and tell its parts.

    Args:
        ask: end with the header of a reply.

    Raises:
        ChatTemplateError: the template does not take this chat.
    """
    turns = [replace(turn) for turn in turns]
    chat = [{"role": turn.role, "content": turn.content} for turn in turns]
    text = template.render(chat, add_generation_prompt=ask)
    skeleton = layout.skeleton([turn.role for turn in turns], add_generation_prompt=ask)
    if skeleton is None:
        return ChatParts(text, turns, "", joined=False, placed=False)
    shown = [turns[place] for place in skeleton.places]
    bodies = find_bodies(text, skeleton, [turn.content for turn in shown], layout.control)
    taken = 0
    for number, (turn, body) in enumerate(zip(shown, bodies, strict=True)):
        closing = layout.closing(turn.role, skeleton.gaps[number + 1])
        turn.shown = True
        turn.header = skeleton.gaps[number][taken:]
        turn.body = turn.content if body is None else body
        turn.rewritten = body != turn.content
        turn.closing, turn.isolated = closing.text, closing.isolated
        taken = len(closing.text)
    tail = skeleton.gaps[-1][taken:]
    whole = "".join(turn.text for turn in shown) + tail
    return ChatParts(text, turns, tail, joined=whole == text, placed=True)


def join_neighbours(turns: Sequence[Turn]) -> list[Turn]:
    """Turns of one role that follow each other as one; it takes the last one's place and ids.

    What is neither a reply nor the system turn at the beginning counts as a question: answers of tools, later system
    messages, and a reply that stands before any question.
    """
    joined: list[Turn] = []
    asked = False
    for turn in turns:
        if turn.role != "system" or joined:
            question = turn.role != "assistant" or not (asked or turn is turns[-1])
            asked = asked or question
            role = "user" if question else "assistant"
            turn = turn if role == turn.role else replace(turn, role=role, ids=None)
        if joined and joined[-1].role == turn.role:
            turn = replace(turn, content=f"{joined.pop().content}\n\n{turn.content}")
        joined.append(turn)
    return joined
