"""The commands ``pagedchat bench decode``, ``prefill``, ``chat`` and ``branch``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ...engine.errors import ConfigError
from ..options import AsJson, ModelsDir
from .options import ModelName, Output, Peer, Seed, ServeFlags, finish, progress

if TYPE_CHECKING:
    from .bench_run import Setup
    from .http_load import LoadClient
    from .options import Shown
    from .report import BenchResult

    Run = Callable[[Sequence[LoadClient], Any, BenchResult, Shown], Awaitable[None]]

Repeats = Annotated[int, typer.Option(min=1, help="Times each figure is taken; the median counts.")]


def decode(
    chats: Annotated[str, typer.Option(help="How many chats write at once.")] = "1,8,16",
    contexts: Annotated[str, typer.Option(help="Prompt lengths in tokens.")] = "32,1000",
    tokens: Annotated[int, typer.Option(min=8, help="Tokens each chat writes.")] = 64,
    repeats: Repeats = 3,
    seed: Seed = 0,
    peer: Peer = "",
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
    serve_flags: ServeFlags = None,
) -> None:
    """How fast do chats write, alone and together, on short and long prompts?"""
    from .bench_run import Setup
    from .decode import DecodeSpec, run_decode

    spec = DecodeSpec(numbers(chats, "--chats"), numbers(contexts, "--contexts"), tokens, repeats, seed)
    run_bench("decode", run_decode, spec, Setup(serve_flags or [], peer, model, models_dir), as_json, output)


def prefill(
    lengths: Annotated[str, typer.Option(help="Prompt lengths in tokens.")] = "128,512,1024,4096",
    repeats: Repeats = 3,
    seed: Seed = 0,
    peer: Peer = "",
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
    serve_flags: ServeFlags = None,
) -> None:
    """How soon does a prompt that nobody sent before get its first token?"""
    from .bench_run import Setup
    from .prefill import PrefillSpec, run_prefill

    spec = PrefillSpec(numbers(lengths, "--lengths"), repeats, seed)
    run_bench("prefill", run_prefill, spec, Setup(serve_flags or [], peer, model, models_dir), as_json, output)


def chat(
    chats: Annotated[int, typer.Option(min=1, help="Chats, visited in turn.")] = 4,
    turns: Annotated[int, typer.Option(min=2, help="Turns of each chat.")] = 5,
    system: Annotated[int, typer.Option(min=1, help="Tokens of the system prompt that all share.")] = 300,
    question: Annotated[int, typer.Option(min=1, help="Tokens of a question.")] = 40,
    reply: Annotated[int, typer.Option(min=2, help="Tokens of a reply.")] = 48,
    break_prefix: Annotated[
        str, typer.Option(help="Also with a first line that moves: timestamp, trace-id or user-info.")
    ] = "",
    seed: Seed = 0,
    peer: Peer = "",
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
    serve_flags: ServeFlags = None,
) -> None:
    """What does each turn of a chat compute, and how soon does it answer?"""
    from .bench_run import Setup
    from .chat import FIRST_LINES, ChatSpec, run_chat

    if break_prefix and break_prefix not in FIRST_LINES:
        raise ConfigError(f"--break-prefix can be {', '.join(FIRST_LINES)}, not {break_prefix!r}.")
    spec = ChatSpec(chats, turns, system, question, reply, break_prefix, seed)
    run_bench("chat", run_chat, spec, Setup(serve_flags or [], peer, model, models_dir), as_json, output)


def branch(
    regenerations: Annotated[int, typer.Option("-n", "--regenerations", min=1, help="Regenerations.")] = 8,
    history: Annotated[int, typer.Option(min=1, help="Tokens before the reply.")] = 1000,
    reply: Annotated[int, typer.Option(min=2, help="Tokens of a reply.")] = 48,
    seed: Seed = 0,
    peer: Peer = "",
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
    serve_flags: ServeFlags = None,
) -> None:
    """What does regenerating a reply compute, hold and wait?"""
    from .bench_run import Setup
    from .branch import BranchSpec, run_branch

    spec = BranchSpec(regenerations, history, reply, seed)
    run_bench("branch", run_branch, spec, Setup(serve_flags or [], peer, model, models_dir), as_json, output)


def run_bench(name: str, run: Run, spec: Any, setup: Setup, as_json: bool, output: Any) -> NoReturn:
    """Start the servers, run the bench, end them, and tell its result."""
    from dataclasses import asdict

    from .bench_run import interruptible, run_load

    with interruptible(), progress() as shown:
        result, _ = run_load(name, lambda clients, into: run(clients, spec, into, shown), setup, shown, **asdict(spec))
    finish(result, as_json, output)


def numbers(text: str, option: str) -> list[int]:
    """``1,8,16`` as numbers.

    Raises:
        ConfigError: anything else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"{option} takes numbers above zero with commas between them, such as 1,8,16, not {text!r}.")
    return sorted({int(part) for part in parts})
