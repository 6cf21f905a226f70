"""``pagedchat sessions stats``: how chats are used, in numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.errors import PagedChatError
from ...sessions.wording import counted
from ..folders import reason_of, write_whole
from ..options import AsJson, DataDir

if TYPE_CHECKING:
    from ...sessions.usage import Usage

LEAST_QUESTIONS = 5
LABELS = {
    "question_tokens": "tokens of a question",
    "history_tokens": "tokens that stood before it",
    "reply_tokens": "tokens of a reply",
    "turns": "questions of a chat",
    "gap_s": "seconds before the next question",
}


def stats(
    load_profile: Annotated[
        Path | None,
        typer.Option(help="Write a load for `bench serve --load` to this file, - for stdout: numbers, no text."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """How long chats are, how many turns they have, how long you pause. Reads lengths and times only."""
    from ...sessions.usage import read_usage
    from ..settings import load_settings

    usage = read_usage(load_settings({"data_dir": data_dir})[1].database)
    if load_profile is not None:
        _write(load_profile, json.dumps(load_profile_of(usage).to_dict(), indent=1))
    elif as_json:
        print(json.dumps(summary(usage), indent=2))
    else:
        print("\n".join(stats_lines(usage)))


def load_profile_of(usage: Usage):
    """A load like these chats.

    Raises:
        PagedChatError: there are too few questions to say anything.
    """
    from ..bench.figures import median
    from ..bench.loads import LoadProfile, quantiles

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
        history_tokens=quantiles(usage.history_tokens) if usage.history_tokens else [],
        regenerate_share=_share(usage.regenerated, len(usage.reply_tokens)),
        branch_share=_share(usage.branched, len(usage.question_tokens)),
        percentiles=spreads(usage),
    )


def spreads(usage: Usage) -> dict[str, dict[str, Any]]:
    """P50, P95 and P99 of everything that has a spread."""
    from ..bench.figures import percentiles

    return {name: percentiles(getattr(usage, name), (50, 95, 99)) for name in LABELS}


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _write(file: Path, text: str) -> None:
    """Raises: PagedChatError: the file cannot be written."""
    if str(file) == "-":
        print(text)
        return
    try:
        write_whole(file, text + "\n")
    except OSError as error:
        raise PagedChatError(f"{file} cannot be written ({reason_of(error)}).") from error


def summary(usage: Usage) -> dict[str, Any]:
    """Counts, shares, and P50, P95 and P99 of what has a spread."""
    return {
        "chats": usage.chats,
        "questions": len(usage.question_tokens),
        "replies": len(usage.reply_tokens),
        "replies_at_once": usage.at_once,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "regenerate_share": _share(usage.regenerated, len(usage.reply_tokens)),
        "branch_share": _share(usage.branched, len(usage.question_tokens)),
        **spreads(usage),
    }


def stats_lines(usage: Usage) -> list[str]:
    """The summary for people."""
    from ..bench.report import cell_text

    found = summary(usage)
    share = usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0
    lines = [
        f"{counted(usage.chats, 'chat')}, {counted(found['questions'], 'question')}, "
        f"{counted(found['replies'], 'reply', 'replies')}, at most "
        f"{usage.at_once} at once",
        f"{usage.prompt_tokens:,} prompt tokens, {share:.0%} of them from the cache",
    ]
    lines.append(
        f"{found['regenerate_share']:.0%} of the replies made anew, {found['branch_share']:.0%} of the questions asked "
        "anew or from an earlier place"
    )
    for name, label in LABELS.items():
        shown = "   ".join(f"{point.upper()} {cell_text(value):>8}" for point, value in found[name].items())
        lines.append(f"{label:<34} {shown}")
    return lines
