"""Loads: what people send, as lengths and gaps, and the chats drawn from them.

A profile holds numbers only, no text. Lengths are tokens and gaps seconds, each as eleven quantiles (0 %, 10 %, …
100 %). The built-in profiles are guesses at common uses; one's own comes from ``pagedchat sessions stats
--load-profile``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

from ...engine.errors import ConfigError
from ..folders import reason_of
from .words import sentence_text

QUANTILES = 11
PROFILE_VERSION = 1
SPREADS = ("question_tokens", "reply_tokens", "turns", "gap_s")
MAY_BE_EMPTY = ("document_tokens", "history_tokens")


@dataclass(frozen=True)
class LoadProfile:
    """How a use of the server looks.

    Attributes:
        system_tokens: system prompt that all chats share; 0 for none.
        document_tokens: what is put before a chat's first question, or before each where ``documents_every_turn``.
        documents: how many different documents there are; 0: each is new.
        question_tokens, reply_tokens, turns, gap_s: quantiles; a gap is from a reply's end to the next question.
        chats: people or programs that use the server at once.
        history_tokens, regenerate_share, branch_share, percentiles: told of one's own chats, and not sent: what stood
            before a question (quantiles), the share of replies made anew and of questions asked anew, and P50, P95 and
            P99 of everything.
    """

    name: str
    question_tokens: Sequence[float]
    reply_tokens: Sequence[float]
    turns: Sequence[float]
    gap_s: Sequence[float]
    chats: int
    system_tokens: int = 0
    document_tokens: Sequence[float] = field(default_factory=list)
    documents: int = 0
    documents_every_turn: bool = False
    history_tokens: Sequence[float] = field(default_factory=list)
    regenerate_share: float = 0.0
    branch_share: float = 0.0
    percentiles: dict[str, dict[str, float]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The profile as its file has it."""
        return {"version": PROFILE_VERSION, **asdict(self)}


@dataclass(frozen=True)
class Turn:
    """One question: its text, how long the reply is at most, and how long the user waits before asking."""

    text: str
    reply_tokens: int
    gap_s: float


@dataclass(frozen=True)
class Chat:
    """One conversation as a load sends it."""

    system: str
    turns: list[Turn]


def spread(low: float, middle: float, high: float) -> list[float]:
    """Quantiles of a skewed spread: evenly from ``low`` to ``middle``, then ever faster up to ``high``."""
    below = [low + (middle - low) * place / 5 for place in range(5)]
    above = [middle + (high - middle) * (place / 5) ** 2 for place in range(6)]
    return [round(value, 3) for value in below + above]


BUILT_IN = {
    profile.name: profile
    for profile in (
        LoadProfile(
            "chat",
            question_tokens=spread(8, 40, 160),
            reply_tokens=spread(24, 80, 160),
            turns=spread(2, 4, 7),
            gap_s=spread(0.2, 1.0, 3.0),
            chats=6,
            system_tokens=300,
        ),
        LoadProfile(
            "rag",
            question_tokens=spread(8, 24, 64),
            reply_tokens=spread(24, 60, 128),
            turns=spread(1, 1, 2),
            gap_s=spread(0.2, 0.6, 2.0),
            chats=4,
            system_tokens=120,
            document_tokens=spread(600, 900, 1500),
            documents=12,
            documents_every_turn=True,
        ),
        LoadProfile(
            "agent",
            question_tokens=spread(40, 160, 500),
            reply_tokens=spread(16, 40, 100),
            turns=spread(3, 6, 10),
            gap_s=spread(0.05, 0.2, 0.8),
            chats=3,
            system_tokens=900,
        ),
        LoadProfile(
            "batch",
            question_tokens=spread(60, 200, 600),
            reply_tokens=spread(24, 64, 160),
            turns=[1.0] * QUANTILES,
            gap_s=[0.0] * QUANTILES,
            chats=16,
        ),
        LoadProfile(
            "long-document",
            question_tokens=spread(8, 24, 64),
            reply_tokens=spread(32, 80, 160),
            turns=spread(2, 3, 4),
            gap_s=spread(0.5, 1.5, 4.0),
            chats=2,
            document_tokens=spread(2500, 3500, 5000),
        ),
    )
}


def read_profile(path: Path) -> LoadProfile:
    """A profile from a file that ``pagedchat sessions stats --load-profile`` wrote.

    Raises:
        ConfigError: it cannot be read, or is not such a file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The load profile {path} cannot be read ({reason_of(error)}).") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The load profile {path} is no JSON: {error}.") from error
    problem = _problem(found)
    if problem:
        raise ConfigError(
            f"The load profile {path} cannot be used: {problem}; `pagedchat sessions stats --load-profile FILE` writes "
            "one."
        )
    return LoadProfile(**{one.name: found[one.name] for one in fields(LoadProfile) if one.name in found})


def _problem(found: Any) -> str:
    if not isinstance(found, dict) or found.get("version") != PROFILE_VERSION:
        return f"it has no version {PROFILE_VERSION}"
    for name in (*SPREADS, *MAY_BE_EMPTY):
        values = found.get(name)
        if name in MAY_BE_EMPTY and not values:
            continue
        if not isinstance(values, list) or len(values) != QUANTILES or not all(_is_amount(one) for one in values):
            return f"{name} must be {QUANTILES} numbers from the least to the greatest"
        if values != sorted(values):
            return f"{name} does not rise"
    if not isinstance(found.get("name"), str):
        return "it has no name"
    for name, least in (("chats", 1), ("system_tokens", 0), ("documents", 0)):
        value = found.get(name, least)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            return f"{name} must be a whole number of at least {least}"
    for name in ("regenerate_share", "branch_share"):
        if not _is_amount(found.get(name, 0)) or found.get(name, 0) > 1:
            return f"{name} must be a number from 0 to 1"
    return "" if isinstance(found.get("percentiles", {}), dict) else "percentiles must be an object"


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9


def quantiles(values: Sequence[float]) -> list[float]:
    """The eleven quantiles of measured values, as a profile has them."""
    from .figures import percentile

    return [round(percentile(values, 10 * place) or 0.0, 3) for place in range(QUANTILES)]


def draw(random: Random, spread_of: Sequence[float]) -> float:
    """A value whose distribution has these quantiles."""
    place = random.random() * (len(spread_of) - 1)
    low = int(place)
    return spread_of[low] + (spread_of[low + 1] - spread_of[low]) * (place - low)


class Load:
    """Chats of one profile, the same for the same seed.

    Args:
        longest: tokens that a whole chat may have; turns that would go beyond it are left out.
        tokens_per_word: of the model, so that lengths in tokens become lengths in words.
    """

    def __init__(self, profile: LoadProfile, seed: int, longest: int, tokens_per_word: float = 1.0) -> None:
        self.profile = profile
        self._seed = seed
        self._longest = longest
        self._per_word = tokens_per_word
        self._system_tokens = min(profile.system_tokens, longest // 4)
        self.system = self.text(Random(f"{seed} system"), self._system_tokens) if self._system_tokens else ""

    def text(self, random: Random, tokens: float) -> str:
        """Text of about so many tokens."""
        return sentence_text(random, round(tokens / self._per_word))

    def chats(self, stream: str) -> Iterator[Chat]:
        """Chats without end; every ``stream`` (a phase, a user) has its own."""
        number = 0
        while True:
            yield self._chat(Random(f"{self._seed} {stream} {number}"))
            number += 1

    def _chat(self, random: Random) -> Chat:
        room, turns = self._longest - self._system_tokens - 32, []
        for place in range(max(1, round(draw(random, self.profile.turns)))):
            asked, replied = draw(random, self.profile.question_tokens), draw(random, self.profile.reply_tokens)
            text = self.text(random, min(asked, room / 2))
            if self.profile.document_tokens and (place == 0 or self.profile.documents_every_turn):
                document, tokens = self._document(random, room / 2)
                text, asked = f"{document}\n\n{text}", asked + tokens
            reply = max(2, min(round(replied), int(room / 4)))
            room -= min(asked, self._longest) + reply + 16
            if room < 0 and turns:
                break
            turns.append(Turn(text, reply, draw(random, self.profile.gap_s)))
        return Chat(self.system, turns)

    def _document(self, random: Random, most: float) -> tuple[str, float]:
        source = random
        if self.profile.documents:
            source = Random(f"{self._seed} document {random.randrange(self.profile.documents)}")
        tokens = min(draw(source, self.profile.document_tokens), most)
        return self.text(source, tokens), tokens
