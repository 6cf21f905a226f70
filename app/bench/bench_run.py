"""One run of a load bench: the servers it compares, and what the result says of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.errors import PagedChatError
from ..operate.snapshot import configuration_snapshot
from .figures import ratio
from .http_load import LoadClient, clients_for
from .options import Shown, chosen_model
from .report import BenchResult, Cell, Table, warn_if_busy
from .target import Target, our_server, peer_server

if TYPE_CHECKING:
    from ..settings import Settings

WARM_UP_TOKENS = 8
NOT_FOR_BENCHES = {"host", "port", "no_browser", "allowed_host", "data_dir", "profile"}
"""Settings that a bench's server has of its own; a profile has become the settings it stands for."""


@dataclass(frozen=True)
class Setup:
    """What a load runs against.

    Attributes:
        flags: of ``pagedchat serve``.
        peer: address of another server, or ``hf``, or "".
        model: as ``--model`` names it; "" for what the settings say.
    """

    flags: Sequence[str] = ()
    peer: str = ""
    model: str = ""
    models_dir: Path | None = None

    def all_flags(self) -> list[str]:
        """Flags for the server, those of the bench's own options included."""
        own = ["--model", self.model] if self.model else []
        folder = ["--models-dir", str(self.models_dir)] if self.models_dir else []
        return [*own, *folder, *self.flags]

    def settings(self) -> Settings:
        """What the server will run with.

        Raises:
            UsageError: a flag that ``pagedchat serve`` does not have.
            ConfigError: a value that cannot work.
        """
        import typer

        from ..commands import cli
        from ..settings import load_settings

        serve: Any = typer.main.get_command(cli).commands["serve"]  # type: ignore[attr-defined]
        return load_settings(serve.make_context("serve", self.all_flags()).params)[0]


@dataclass
class Side:
    """A way to start our server that is compared with another."""

    name: str = "pagedchat"
    flags: list[str] = field(default_factory=list)


@contextmanager
def running(setup: Setup, shown: Shown, sides: Sequence[Side] = (Side(),)) -> Iterator[list[Target]]:
    """Our server once for each side, and the peer; all end with the context.

    Raises:
        PagedChatError: one of them does not come up.
    """
    settings = setup.settings()
    path = chosen_model("" if settings.model == "default" else settings.model, settings.models_dir)
    in_force = settings.model_dump(mode="json", exclude_defaults=True, exclude=NOT_FOR_BENCHES)
    with ExitStack() as stack:
        targets = []
        for side in sides:
            shown.phase(f"Starting {side.name}")
            flags = [*setup.all_flags(), *side.flags]
            targets.append(stack.enter_context(our_server(flags, side.name, in_force)))
        if setup.peer:
            shown.phase("Starting transformers" if setup.peer == "hf" else f"Looking for the peer {setup.peer}")
            targets.append(stack.enter_context(peer_server(setup.peer, path)))
        yield targets


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl+C and SIGTERM end a bench with a sentence; its servers have been ended by then.

    Raises:
        PagedChatError: in the place of KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise PagedChatError("The bench was interrupted; its servers have ended and nothing was kept.") from None


def new_result(name: str, setup: Setup, targets: Sequence[Target], **parameters: Any) -> BenchResult:
    """A result that knows what ran."""
    configuration = configuration_snapshot(setup.settings(), targets[0].info)
    peers = [{"name": one.name, "url": one.url, "model": one.model} for one in targets if not one.ours]
    asked = {"flags": setup.all_flags(), "peers": peers, **parameters}
    return BenchResult(name, configuration, parameters=asked)


def run_load(
    name: str,
    run: Callable[[Sequence[LoadClient], BenchResult], Awaitable[None]],
    setup: Setup,
    shown: Shown,
    sides: Sequence[Side] = (Side(),),
    **parameters: Any,
) -> tuple[BenchResult, list[Target]]:
    """Start the servers, let ``run`` put its figures into the result, end the servers.

    Returns:
        The result with what failed and what could not be measured, and the targets, which have ended.

    Raises:
        PagedChatError: a server does not come up or cannot answer.
    """
    with running(setup, shown, sides) as targets:
        result = new_result(name, setup, targets, **parameters)

        async def measure() -> None:
            async with clients_for(targets) as clients:
                await run(clients, result)
                close_result(result, clients)

        asyncio.run(measure())
        shown.phase("Ending the servers")
    return result, targets


async def warm_up(clients: Sequence[LoadClient]) -> float:
    """First replies of all, which nobody measures; tokens a word has for the first one's model.

    Raises:
        PagedChatError: one of them cannot answer.
    """
    from .http_load import Ask

    for client in clients:
        found = await client.send(Ask(WARM_UP_TOKENS, messages=[{"role": "user", "content": "Hello"}]))
        if found.error:
            raise PagedChatError(f"{client.target.name} could not answer the first request: {found.error}")
    return await clients[0].tokens_per_word()


async def forget(client: LoadClient) -> None:
    """Empty the cache of a server of ours; a peer that takes salts finds nothing under the next one."""
    if client.target.ours:
        await client.http.post("/api/kv/reset")
    else:
        client.salt = secrets.token_hex(8)


def side_by_side(
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[Sequence[Cell], Sequence[float | None]]],
    names: Sequence[str],
    note: str = "",
) -> Table:
    """A table of what was measured on each target, with the first's ratio to every other.

    Args:
        heads: column names of what tells rows apart.
        rows: (cells under ``heads``, one figure for each target).
        names: of the targets.
    """
    ratios = [f"{names[0]} / {name}" for name in names[1:]]
    columns = [*heads, *names, *ratios]
    body: list[list[Cell]] = [
        [*cells, *figures, *(ratio(figures[0], other) for other in figures[1:])] for cells, figures in rows
    ]
    return Table(title, columns, body, note)


def against(table: Table, names: Sequence[str]) -> str:
    """The lowest and highest ratio of a table of `side_by_side` to each other target, as a sentence; "" for one."""
    said = []
    for at, name in enumerate(names[1:]):
        place = table.columns.index(f"{names[0]} / {name}", len(table.columns) - len(names) + 1 + at)
        found = [cell for row in table.rows if isinstance(cell := row[place], float)]
        if found:
            low, high = min(found), max(found)
            said.append(f"{low:.2f} to {high:.2f} times {name}" if low != high else f"{low:.2f} times {name}")
    return f" That is {' and '.join(said)}." if said else ""


def not_measured(targets: Sequence[Target]) -> Table | None:
    """What a peer does not tell, so that an empty cell is not taken for a zero."""
    rows: list[list[Cell]] = [[one.name, what] for one in targets for what in one.missing]
    return Table("Not measured", ["on", "what"], rows) if rows else None


def failures(clients: Sequence[LoadClient]) -> Table | None:
    """Requests that failed, a few of them in words."""
    rows: list[list[Cell]] = []
    for client in clients:
        failed = [answer.error for answer in client.answers if answer.error]
        for sentence in dict.fromkeys(failed):
            rows.append([client.target.name, failed.count(sentence), sentence])
    return Table("Failed requests", ["on", "count", "reason"], rows[:8]) if rows else None


def close_result(result: BenchResult, clients: Sequence[LoadClient]) -> BenchResult:
    """Add what failed and what could not be measured."""
    total = sum(len(client.answers) for client in clients)
    failed = sum(bool(answer.error) for client in clients for answer in client.answers)
    result.figures |= {"requests": total, "errors": failed}
    for table in (failures(clients), not_measured([client.target for client in clients])):
        if table is not None:
            result.tables.append(table)
    if failed:
        result.passed = False
        result.verdict = f"{failed} of {total} requests failed. {result.verdict}".strip()
    warn_if_busy(result)
    return result.finish()
