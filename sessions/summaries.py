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

from typing import TYPE_CHECKING, Any

from .sampling import REPLY_LIMIT

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
HIGHEST_TEMPERATURE = 0.3
LIMIT = REPLY_LIMIT
"""Most tokens of a summary."""
_CALM = ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed")
"""What a summary takes of its chat's sampling: penalties and the like belong to the voice of the chat."""

_CARRIED = "What we said so far, summed up:\n\n{summary}\n\nWe go on from here.\n\n"


def carried_by(summary: Message) -> str:
    """What stands at the beginning of the first question after a summary, or of the first one that still is sent."""
    return _CARRIED.format(summary=summary.content.strip())


def calm(chosen: dict[str, Any]) -> dict[str, Any]:
    """Sampling that a chat has chosen, as far as it holds for its summaries."""
    return {name: value for name, value in chosen.items() if name in _CALM}


def bounded(params: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Sampling of a summary that keeps to the point, whatever its chat has. ``own``, chosen for it alone, acts."""
    temperature, limit = params.get("temperature", 1.0), params.get("max_tokens", LIMIT)
    most = {"temperature": min(temperature, HIGHEST_TEMPERATURE), "max_tokens": min(limit, LIMIT)}
    held = {name: value for name, value in most.items() if name not in own}
    return {name: value for name, value in {**params, **held}.items() if name != "stop"}
