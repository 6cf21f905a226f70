"""``pagedchat sessions``: what the chat database holds, in numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..engine.errors import PagedChatError
from .options import AsJson, DataDir
from .terminal import counted

if TYPE_CHECKING:
    from ..sessions.usage import Usage

sessions_cli = typer.Typer(help="The chats of this computer.", rich_markup_mode=None)
LEAST_QUESTIONS = 5


@sessions_cli.callback()
def _group() -> None:
    """The chats of this computer."""


@sessions_cli.command("stats")
def stats(
    load_profile: Annotated[
        bool, typer.Option("--load-profile", help="Print a load for `bench serve --load`: numbers, no text.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """How long chats are, how many turns they have, how long you pause. Reads lengths and times only."""
    from ..sessions.usage import read_usage
    from .settings import load_settings

    usage = read_usage(load_settings({"data_dir": data_dir})[1].database)
    if load_profile:
        print(json.dumps(load_profile_of(usage).to_dict(), indent=1))
    elif as_json:
        print(json.dumps(summary(usage), indent=2))
    else:
        print("\n".join(stats_lines(usage)))


def load_profile_of(usage: Usage):
    """A load like these chats.

    Raises:
        PagedChatError: there are too few questions to say anything.
    """
    from .bench.figures import median
    from .bench.loads import LoadProfile, quantiles

    if len(usage.question_tokens) < LEAST_QUESTIONS or not usage.reply_tokens:
        raise PagedChatError(
            f"Your chats have {counted(len(usage.question_tokens), 'question')} and "
            f"{counted(len(usage.reply_tokens), 'reply', 'replies')}; a "
            f"load profile needs at least {LEAST_QUESTIONS} questions with replies."
        )
    return LoadProfile(
        name="my chats",
        question_tokens=quantiles(usage.question_tokens),
        reply_tokens=quantiles(usage.reply_tokens),
        turns=quantiles(usage.turns),
        gap_s=quantiles(usage.gap_s or [0.0]),
        chats=max(1, usage.at_once),
        system_tokens=round(median(usage.system_tokens) or 0),
    )


def summary(usage: Usage) -> dict[str, Any]:
    """Counts, medians and P95s."""
    from .bench.figures import percentiles

    spreads = {name: getattr(usage, name) for name in ("question_tokens", "reply_tokens", "turns", "gap_s")}
    return {
        "chats": usage.chats,
        "questions": len(usage.question_tokens),
        "replies": len(usage.reply_tokens),
        "replies_at_once": usage.at_once,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        **{name: percentiles(values, (50, 95)) for name, values in spreads.items()},
    }


def stats_lines(usage: Usage) -> list[str]:
    """The summary for people."""
    from .bench.report import cell_text

    found = summary(usage)
    share = usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0
    lines = [
        f"{counted(usage.chats, 'chat')}, {counted(found['questions'], 'question')}, "
        f"{counted(found['replies'], 'reply', 'replies')}, at most "
        f"{usage.at_once} at once",
        f"{usage.prompt_tokens:,} prompt tokens, {share:.0%} of them from the cache",
    ]
    labels = {
        "question_tokens": "tokens of a question",
        "reply_tokens": "tokens of a reply",
        "turns": "questions of a chat",
        "gap_s": "seconds before the next question",
    }
    for name, label in labels.items():
        lines.append(f"{label:<34} P50 {cell_text(found[name]['p50']):>8}   P95 {cell_text(found[name]['p95']):>8}")
    return lines
