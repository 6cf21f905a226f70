"""Summaries: messages that stand for all that is above them in the prompts of later turns.

::

    system │ q1 │ r1 │ q2 │ r2 │ "Sum up…" ──> summary         the instruction is in this prompt only
    '------ found cached -----'
                     │
    system │ summary and q3 │ r3 │ q4 …                        what is above stays in the tree, and is sent no more

A summary is given with the first question after it, so that templates that want questions and answers in turn take
it, and so that the prefix of later turns stays the same.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..engine.errors import PagedChatError

if TYPE_CHECKING:
    from .prompts import Prompt
    from .rows import Message

SUMMARY = "summary"
"""``Message.kind`` of a summary."""

ASIDE = "aside"
"""In place of the id of a message that is in one prompt only, and stored nowhere."""

INSTRUCTION = (
    "Sum up our conversation so far, so that it can go on from your summary alone. Keep what I want, what was decided, "
    "names, numbers and open questions; keep code, commands and quotations that are still needed word for word. Leave "
    "out courtesies and what was given up. Write in the language of the conversation, as plain notes, and write "
    "nothing but the summary."
)
_EARLIER = "{instruction}\n\nWhat came before this conversation, already summed up:\n\n{summary}"
_GIVEN = "What we said so far, summed up:\n\n{summary}\n\nWe go on from here.\n\n{text}"


def given_with(summary: Message, text: str) -> str:
    """A question with the summary that it follows."""
    return _GIVEN.format(summary=summary.content.strip(), text=text)


async def keep_earlier(engine: Any, prompt: Prompt, earlier: Message | None) -> None:
    """Where an earlier summary would be left out of the prompt of the next one, put it into the instruction.

    Args:
        engine: an ``EngineClient`` or what behaves like one.
        earlier: None where there is none.
    """
    request = prompt.request
    if earlier is None or ASIDE not in prompt.message_ids or request.messages is None:
        return
    with contextlib.suppress(PagedChatError):
        found = await engine.probe(
            messages=request.messages,
            add_generation_prompt=request.add_generation_prompt,
            begun_at=request.begun_at,
            trim=True,
            max_tokens=request.params.max_tokens,
            salt=request.salt,
        )
        if found.get("left_out_messages"):
            told = _EARLIER.format(instruction=INSTRUCTION, summary=earlier.content.strip())
            request.messages[prompt.message_ids.index(ASIDE)]["content"] = told
