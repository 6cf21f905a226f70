"""The commands. ``pagedchat`` alone serves; heavy modules load only in the command that needs them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .. import __version__
from ..engine.errors import PagedChatError
from ..engine.sizes import size_in_words
from .bench.commands import bench_cli
from .chats.chat_command import OPTIONS as CHAT_OPTIONS
from .chats.chat_command import chat
from .chats.group import sessions_cli
from .end_signals import on_end_signals
from .operate.commands import add_commands
from .options import SERVE_FLAGS, AsJson, DataDir, ModelsDir
from .terminal import say
from .watch.commands import alerts_cli

OWN_OPTIONS = ("--help", "-h", "--version")
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's UsageError; some releases of Typer carry their own click

cli = typer.Typer(
    name="pagedchat",
    help="A local chat app on its own PagedAttention engine. Without a command it serves.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
models_cli = typer.Typer(help="The models on this computer.", rich_markup_mode=None)
config_cli = typer.Typer(help="Folders and settings.", rich_markup_mode=None)
cli.add_typer(models_cli, name="models")
cli.add_typer(config_cli, name="config")
cli.add_typer(bench_cli, name="bench")
cli.add_typer(sessions_cli, name="sessions")
cli.add_typer(alerts_cli, name="alerts")


def _size(text: str) -> int:
    from .settings import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@cli.callback(invoke_without_command=True)
def _root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        print(f"pagedchat {__version__}")
        raise typer.Exit
    if context.invoked_subcommand != "serve":
        on_end_signals(_interrupt)


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Loopback address to serve on.  [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port.  [default: 7861, or the next free]")] = None,
    no_browser: Annotated[bool | None, typer.Option("--no-browser", help="Do not open the page.")] = None,
    allowed_host: Annotated[list[str] | None, typer.Option(help="One more Host name to answer to.")] = None,
    data_dir: DataDir = None,
    models_dir: ModelsDir = None,
    model: Annotated[
        str | None, typer.Option(help="GGUF file, Hugging Face folder, or a name in the models folder.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Settings for a purpose: long-context, many-chats or low-memory.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or mps.  [default: auto]")] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32, bfloat16 or float16.  [default: auto]")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Longest chat in tokens.  [default: the model's]")] = None,
    block_size: Annotated[int | None, typer.Option(help="Tokens per KV block.  [default: 16]")] = None,
    num_blocks: Annotated[int | None, typer.Option(help="KV blocks; beats the two options below.")] = None,
    kv_cache_memory: Annotated[
        int | None, typer.Option(parser=_size, metavar="SIZE", help="KV memory, for example 512MiB or 2GiB.")
    ] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="Share of the device's memory, under 1.")] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Requests that run at once.  [default: 32]")] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Tokens per step.  [default: 512]")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of the CPU kernels.  [default: the cores this process may use]")
    ] = None,
    enable_prefix_caching: Annotated[
        bool | None,
        typer.Option("--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse KV blocks.  [default: on]"),
    ] = None,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic/--no-deterministic",
            help="The same ids alone and in company; prompts are slower.  [default: off]",
        ),
    ] = None,
    context_policy: Annotated[
        str | None,
        typer.Option(help="Chats longer than the context: trim their oldest turns, or refuse them.  [default: trim]"),
    ] = None,
    hang_timeout_s: Annotated[
        float | None,
        typer.Option(help="Seconds without progress until the engine starts anew; 0: never.  [default: 60]"),
    ] = None,
    titles: Annotated[str | None, typer.Option(help="What names a chat: words or model.  [default: words]")] = None,
) -> None:
    """Serve the page and the API on this computer (the default)."""
    flags = dict(locals())
    from . import server
    from .operate.recovery import load_or_way_back

    configuration = load_or_way_back(flags)
    try:
        on_end_signals(_interrupt)
        leave(server.run(configuration))
    except KeyboardInterrupt:  # before the server handles signals itself
        leave(0)


@models_cli.command("list")
def list_models(models_dir: ModelsDir = None, as_json: AsJson = False) -> None:
    """List the models of the folder."""
    found = _store(models_dir).models()
    if as_json:
        rows = [
            {"name": m.name, "path": str(m.path), "size": m.size, "format": m.format, "default": m.default}
            for m in found
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for model in found:
        mark = "  (default)" if model.default else ""
        print(f"{model.name:<40} {size_in_words(model.size):>9}  {model.format}{mark}")
    if not found:
        print("No models yet; `pagedchat models pull` fetches the default one.")


@models_cli.command("pull")
def pull_model(
    name: Annotated[str, typer.Argument(help="Model to fetch.")] = "default", models_dir: ModelsDir = None
) -> None:
    """Fetch the default model, or check it if it is here."""
    from .model_fetch import ModelFetch
    from .terminal import fetch_display

    store = _store(models_dir)
    if name not in ("default", store.default.name, store.default.file_name):
        raise PagedChatError(
            f"{name!r} cannot be fetched: only {store.default.name} can; put other GGUF files into {store.folder}."
        )
    with fetch_display() as show:
        path = ModelFetch(store, show).run()
    print(path)


@models_cli.command("rm")
def remove_model(
    name: Annotated[str, typer.Argument(help="Name as `models list` shows it.")], models_dir: ModelsDir = None
) -> None:
    """Delete a model from the folder."""
    from .operate.known_good import KnownGoodStore

    removed = _store(models_dir).remove(name)
    KnownGoodStore(_load(models_dir=models_dir)[1].state).forget_model(removed.path)
    print(f"Deleted {removed.path}")


@config_cli.command("path")
def config_path(data_dir: DataDir = None, models_dir: ModelsDir = None, as_json: AsJson = False) -> None:
    """Print where data, config, logs, cache and models are."""
    paths = _load(data_dir=data_dir, models_dir=models_dir)[1].as_dict()
    if as_json:
        print(json.dumps(paths, indent=2, ensure_ascii=False))
        return
    for name, path in paths.items():
        print(f"{name:<12} {path}")


cli.command("chat", context_settings=SERVE_FLAGS, options_metavar=CHAT_OPTIONS)(chat)
add_commands(cli, config_cli)


def run(arguments: Sequence[str]) -> NoReturn:
    """Run one command and exit: 0 fine, 1 could not do it, 2 wrong usage."""
    try:
        status = cli(args=with_default_command(list(arguments)), prog_name="pagedchat", standalone_mode=False)
    except USAGE_ERROR as error:
        leave(_complain(usage_sentence(error), 2))
    except PagedChatError as error:
        leave(_complain(str(error), 1))
    except (KeyboardInterrupt, typer.Abort):
        leave(1)
    leave(status if isinstance(status, int) else 0)


def with_default_command(arguments: list[str]) -> list[str]:
    """``serve`` goes before arguments that name no command."""
    if arguments and (arguments[0] in OWN_OPTIONS or not arguments[0].startswith("-")):
        return arguments
    return ["serve", *arguments]


def usage_sentence(error: Any) -> str:
    """What is wrong with a command line; a group without a command is told its commands."""
    message = error.format_message().rstrip(".")
    names = list(getattr(getattr(error.ctx, "command", None), "commands", {})) if error.ctx else []
    if message == "Missing command" and names:
        listed = ", ".join(names[:-1]) + (" or " if names[:-1] else "") + names[-1]
        return f"`{error.ctx.command_path}` needs a command: {listed}; `{error.ctx.command_path} --help` explains them."
    return f"{message}; `pagedchat --help` shows the usage."


def leave(status: int) -> NoReturn:
    """End the process without waiting for threads that still read or import."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _complain(sentence: str, status: int) -> int:
    say(f"pagedchat: {sentence}", sys.stderr)
    return status


def _interrupt(number: int, frame: Any) -> None:
    """There is something to give back by now: a signal unwinds the command instead of ending the process."""
    raise KeyboardInterrupt


def _load(**flags: Any):
    from .settings import load_settings

    return load_settings(flags)


def _store(models_dir: Path | None):
    from .model_store import ModelStore

    return ModelStore(_load(models_dir=models_dir)[1].models)
