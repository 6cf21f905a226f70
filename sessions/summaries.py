"""Summaries: messages that stand for all that is above them in the prompts of later turns.

::

    system │ q1 │ r1 │ q2 │ r2 │ "Sum up…" ──> summary         the instruction is in this prompt only
    '------ found cached -----'
                     │
    system │ summary and q3 │ r3 │ q4 …                        what is above stays in the tree, and is sent no more

A summary is given with the first question after it, so that templates that want questions and answers in turn take
it, and so that the prefix of later turns stays the same. Where that question is left out of a prompt because the chat
has outgrown the context, the summary goes on with the first one that is sent (see ``engine.context_policy``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
_CARRIED = "What we said so far, summed up:\n\n{summary}\n\nWe go on from here.\n\n"


def carried_by(summary: Message) -> str:
    """What stands at the beginning of the first question after a summary, or of the first one that still is sent."""
    return _CARRIED.format(summary=summary.content.strip())
