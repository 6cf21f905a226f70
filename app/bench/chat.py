"""``bench chat``: chats under one system prompt, visited in turn: what each turn computes and how soon it answers.

With ``--break-prefix`` the same chats run again with a first line that moves, which hides all that was computed before
from the prefix cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from .bench_run import forget, side_by_side, warm_up
from .figures import median, percentile, ratio
from .http_load import Answer, Ask, LoadClient
from .options import Shown
from .report import BenchResult, Plot, Table
from .words import sentence_text

_NOON = datetime(2026, 1, 5, 12)


def _timestamp(random: Random, chat: int, request: int) -> str:
    return f"Current time: {_NOON + timedelta(seconds=7 * request):%Y-%m-%d %H:%M:%S}"


def _trace_id(random: Random, chat: int, request: int) -> str:
    return f"Trace: {random.getrandbits(64):016x}"


def _user_info(random: Random, chat: int, request: int) -> str:
    return f"User: {sentence_text(Random(f'user {chat}'), 3)}"


FIRST_LINES: dict[str, Callable[[Random, int, int], str]] = {
    "timestamp": _timestamp,
    "trace-id": _trace_id,
    "user-info": _user_info,
}
"""First lines of a system prompt that move: with every request, or from user to user."""


@dataclass(frozen=True)
class ChatSpec:
    """Sizes in tokens."""

    chats: int = 4
    turns: int = 5
    system: int = 300
    question: int = 40
    reply: int = 48
    break_prefix: str = ""
    seed: int = 0


async def run_chat(clients: Sequence[LoadClient], spec: ChatSpec, result: BenchResult, shown: Shown) -> None:
    """Run the chats on every target, one request at a time, targets in turn; with a moving first line once more."""
    per_word = await warm_up(clients)
    kinds = ["", spec.break_prefix] if spec.break_prefix else [""]
    turns: list[dict[str, Any]] = []
    for kind in kinds:
        asked = len(clients) * spec.chats * spec.turns
        shown.phase(f"Chats whose first line {'is a ' + kind if kind else 'stays'}", asked)
        for client in clients:
            await forget(client)
        rooms = {client.target.name: _Room(client, spec, kind, per_word) for client in clients}
        for turn in range(spec.turns):
            for chat in range(spec.chats):
                for room in rooms.values():
                    await room.ask(chat, turn)
                    shown.advance()
        turns += [_turn(name, kind, turn, room.answers[turn]) for name, room in rooms.items() for turn in room.answers]
    result.figures["turns"] = turns
    _tell(result, [client.target.name for client in clients], spec)


class _Room:
    """All chats on one target."""

    def __init__(self, client: LoadClient, spec: ChatSpec, kind: str, per_word: float) -> None:
        self._client, self._spec, self._kind, self._per_word = client, spec, kind, per_word
        self._random = Random(f"{spec.seed} {kind}")
        self._system = self._text(spec.system)
        self._messages: list[list[dict[str, str]]] = [[] for _ in range(spec.chats)]
        self._requests = 0
        self.answers: dict[int, list[Answer]] = {turn: [] for turn in range(spec.turns)}

    def _text(self, tokens: int) -> str:
        return sentence_text(self._random, round(tokens / self._per_word))

    async def ask(self, chat: int, turn: int) -> None:
        line = FIRST_LINES[self._kind](self._random, chat, self._requests) + "\n" if self._kind else ""
        self._requests += 1
        messages = self._messages[chat]
        messages.append({"role": "user", "content": self._text(self._spec.question)})
        sent = [{"role": "system", "content": line + self._system}, *messages]
        answer = await self._client.send(Ask(self._spec.reply, messages=sent))
        messages.append({"role": "assistant", "content": answer.text or "-"})
        self.answers[turn].append(answer)


def _turn(name: str, kind: str, turn: int, answers: Sequence[Answer]) -> dict[str, Any]:
    known = [answer for answer in answers if answer.cached_tokens is not None]
    ttft = [answer.ttft * 1e3 for answer in answers if answer.ttft is not None]
    return {
        "target": name,
        "first_line": kind or "stays",
        "turn": turn + 1,
        "prompt_tokens": median([answer.prompt_tokens for answer in answers]),
        "cached_tokens": median([answer.cached_tokens or 0 for answer in known]),
        "computed_tokens": median([answer.prompt_tokens - (answer.cached_tokens or 0) for answer in known]),
        "ttft_p50_ms": percentile(ttft, 50),
        "ttft_max_ms": max(ttft, default=None),
    }


def _tell(result: BenchResult, names: Sequence[str], spec: ChatSpec) -> None:
    found = result.figures["turns"]
    columns = ["on", "first line", "turn", "prompt", "cached", "computed", "TTFT P50, ms", "TTFT max, ms"]
    result.tables.append(Table("Turns of a chat, tokens", columns, [list(one.values()) for one in found]))
    series: dict[str, list[tuple[Any, float]]] = {}
    for one in found:
        series.setdefault(f"{one['target']}, {_line_words(one)}", []).append((one["turn"], one["ttft_p50_ms"] or 0.0))
    result.plots.append(Plot("Time to the first token", "turn", "ms", series))
    if len(names) > 1:
        stays = {(one["target"], one["turn"]): one for one in found if one["first_line"] == "stays"}
        rows = [([turn], [stays[name, turn]["ttft_p50_ms"] for name in names]) for turn in range(1, spec.turns + 1)]
        result.tables.append(side_by_side("TTFT P50, ms", ["turn"], rows, names))
    result.verdict = _verdict([one for one in found if one["target"] == names[0]], spec, result)


def _line_words(turn: dict[str, Any]) -> str:
    return "first line stays" if turn["first_line"] == "stays" else f"moving {turn['first_line']}"


def _verdict(turns: Sequence[dict[str, Any]], spec: ChatSpec, result: BenchResult) -> str:
    """What later turns compute, and what a moving first line makes of that."""
    stays, moves = (
        [one for one in turns if one["turn"] > 1 and (one["first_line"] == "stays") == same] for same in (True, False)
    )
    if not stays or stays[0]["computed_tokens"] is None:
        return ""
    computed, ttft = _mean(stays, "computed_tokens"), _mean(stays, "ttft_p50_ms")
    said = f"From the second turn on a turn computes {computed:,.0f} tokens and answers after {ttft:,.0f} ms."
    if not moves:
        return said
    more, later = _mean(moves, "computed_tokens"), _mean(moves, "ttft_p50_ms")
    result.figures |= {"computed_ratio": ratio(more, computed), "ttft_ratio": ratio(later, ttft)}
    first = next(one for one in turns if one["turn"] == 1 and one["first_line"] == "stays")["computed_tokens"]
    alone = next(one for one in turns if one["turn"] == 1 and one["first_line"] != "stays")["computed_tokens"]
    if spec.break_prefix == "user-info":
        how = f"a first turn computes {alone:,.0f} tokens instead of {first:,.0f}, and later ones {more:,.0f}"
    else:
        how = f"a later turn computes {more:,.0f} tokens, {more / max(computed, 1):.1f} times as many"
    return (
        f"{said} With a moving first line ({spec.break_prefix}) {how}, and answers after {later:,.0f} ms, "
        f"{later / ttft:.1f} times as late: put what changes after what stays."
    )


def _mean(turns: Sequence[dict[str, Any]], name: str) -> float:
    values = [one[name] for one in turns if one[name] is not None]
    return sum(values) / len(values) if values else 0.0
