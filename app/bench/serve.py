"""``bench serve``: a load in phases, as people would send it, and what they and the server's owner see of it.

::

    cold         first questions, one at a time, into an empty cache
    steady       the load's users, each with a chat after another and pauses between turns
    burst        many first questions in the same moment
    long-output  a few chats with long replies

Every phase ends by the clock: nothing new is sent after its share of the duration, and what runs is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .bench_run import forget
from .http_load import Answer, Ask, LoadClient
from .loads import Chat, Load
from .options import Shown
from .server_watch import Watch

BURST_AT_LEAST = 12
BURST_AT_FEWEST = 4
BURST_PER_USER = 2
LONG_CHATS = 4
LONG_TOKENS = 320
LONG_TOKENS_AT_FEWEST = 160
COLD_AT_MOST = 8


@dataclass
class PhaseRun:
    """One phase on one target.

    Attributes:
        seconds: from the first request to the end of the last one.
    """

    phase: str
    target: str
    answers: list[Answer] = field(default_factory=list)
    watch: Watch | None = None
    began: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Pace:
    """How much the phases that send at once may send, so that a slow machine ends in time too; the same on all
    targets: requests in a burst, and tokens of a long reply."""

    burst: int = BURST_AT_LEAST
    long_tokens: int = LONG_TOKENS


Phase = Callable[[LoadClient, Load, float, Pace], Awaitable[list[Answer]]]


async def run_phases(
    clients: Sequence[LoadClient],
    load: Load,
    duration: float,
    shown: Shown,
    names: Sequence[str] = ("cold", "steady", "burst", "long-output"),
    pace: Pace | None = None,
) -> list[PhaseRun]:
    """All phases on all targets, which take turns within a phase; ``duration`` seconds on each target.

    Args:
        pace: how much the later phases send; without it, as much as the steady phase showed to be possible.
    """
    runs: list[PhaseRun] = []
    whole = sum(PHASES[name][1] for name in names)
    for name in names:
        phase, share = PHASES[name]
        seconds = duration * share / whole
        sends = pace or pace_for(runs, load, seconds)
        for client in clients:
            shown.phase(f"{name} phase on {client.target.name}")
            if name == "cold":
                await forget(client)
            run = PhaseRun(name, client.target.name, began=time.monotonic())
            async with Watch(client) as run.watch:
                run.answers = await phase(client, load, run.began + seconds, sends)
                run.seconds = time.monotonic() - run.began
            runs.append(run)
    return runs


def pace_for(runs: Sequence[PhaseRun], load: Load, seconds: float) -> Pace:
    """What the slowest target got done in the steady phase, for as many seconds; all there is before that phase."""
    full = Pace(max(BURST_AT_LEAST, BURST_PER_USER * load.profile.chats))
    steady = [run for run in runs if run.phase == "steady" and run.seconds]
    if not steady:
        return full
    requests = min(len(run.answers) / run.seconds for run in steady) * seconds
    tokens = min(sum(one.completion_tokens for one in run.answers) / run.seconds for run in steady) * seconds
    each = tokens / min(LONG_CHATS, load.profile.chats)
    return Pace(
        min(full.burst, max(BURST_AT_FEWEST, round(requests))),
        min(full.long_tokens, max(LONG_TOKENS_AT_FEWEST, round(each))),
    )


async def _cold(client: LoadClient, load: Load, deadline: float, pace: Pace) -> list[Answer]:
    answers = []
    for chat, _ in zip(load.chats("cold"), range(COLD_AT_MOST), strict=False):
        answers.append(await client.send(_first(chat)))
        if time.monotonic() >= deadline:
            break
    return answers


async def _steady(client: LoadClient, load: Load, deadline: float, pace: Pace) -> list[Answer]:
    users = [load.chats(f"steady user {number}") for number in range(load.profile.chats)]
    found = await asyncio.gather(*(_user(client, chats, deadline) for chats in users))
    return [answer for answers in found for answer in answers]


async def _user(client: LoadClient, chats: Iterator[Chat], deadline: float) -> list[Answer]:
    """One user: chat after chat, each turn after a pause to read and write; so users do not begin all at once."""
    answers: list[Answer] = []
    for chat in chats:
        messages = _system(chat)
        for turn in chat.turns:
            if time.monotonic() + turn.gap_s >= deadline and answers:
                return answers
            await asyncio.sleep(turn.gap_s)
            messages = [*messages, {"role": "user", "content": turn.text}]
            answer = await client.send(Ask(turn.reply_tokens, messages=messages))
            answers.append(answer)
            if answer.error:  # nobody goes on talking to an error; a pause keeps a broken server from a storm
                await asyncio.sleep(max(0.5, turn.gap_s))
                break
            messages = [*messages, {"role": "assistant", "content": answer.text or "-"}]
        if time.monotonic() >= deadline:
            return answers
    return answers


async def _burst(client: LoadClient, load: Load, deadline: float, pace: Pace) -> list[Answer]:
    chats, answers = load.chats("burst"), []
    while not answers or time.monotonic() < deadline:
        began = time.monotonic()
        answers += await client.send_all([_first(next(chats)) for _ in range(pace.burst)])
        if time.monotonic() + (time.monotonic() - began) / 2 > deadline or any(one.error for one in answers):
            break
    return answers


async def _long(client: LoadClient, load: Load, deadline: float, pace: Pace) -> list[Answer]:
    chats, answers = load.chats("long-output"), []
    while not answers or time.monotonic() < deadline:
        began = time.monotonic()
        asks = [_first(next(chats), pace.long_tokens) for _ in range(min(LONG_CHATS, load.profile.chats))]
        answers += await client.send_all(asks)
        if time.monotonic() + (time.monotonic() - began) / 2 > deadline or any(one.error for one in answers):
            break
    return answers


PHASES: Mapping[str, tuple[Phase, float]] = {
    "cold": (_cold, 0.12),
    "steady": (_steady, 0.5),
    "burst": (_burst, 0.2),
    "long-output": (_long, 0.18),
}
"""How each phase sends, and its share of the duration."""


def _system(chat: Chat) -> list[dict[str, str]]:
    return [{"role": "system", "content": chat.system}] if chat.system else []


def _first(chat: Chat, reply_tokens: int | None = None) -> Ask:
    turn = chat.turns[0]
    messages = [*_system(chat), {"role": "user", "content": turn.text}]
    return Ask(reply_tokens or turn.reply_tokens, messages=messages)


def merged(runs: Sequence[PhaseRun]) -> PhaseRun:
    """All phases of one target as one."""
    whole = PhaseRun("all", runs[0].target, began=runs[0].began)
    whole.answers = [answer for run in runs for answer in run.answers]
    whole.seconds = sum(run.seconds for run in runs)
    whole.watch = Watch(runs[0].watch.client) if runs[0].watch else None
    for run in runs:
        if whole.watch is not None and run.watch is not None:
            _add(whole.watch, run.watch)
    return whole


def _add(total: Watch, one: Watch) -> None:
    total.samples += one.samples
    total.rows |= one.rows
    total.resident = max(total.resident or 0, one.resident or 0) or None
    for name in ("cpu_s", "preemptions"):
        value: Any = getattr(one, name)
        if value is not None:
            setattr(total, name, (getattr(total, name) or 0) + value)
