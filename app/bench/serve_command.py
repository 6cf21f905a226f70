"""The command ``pagedchat bench serve``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.errors import ConfigError
from ..options import AsJson, ModelsDir
from ..terminal import say
from .options import ModelName, Output, Peer, Seed, ServeFlags, finish, progress

if TYPE_CHECKING:
    from .bench_run import Setup
    from .http_load import LoadClient
    from .loads import LoadProfile
    from .options import Shown
    from .report import BenchResult
    from .serve_modes import Keep, ServeSpec


def serve(
    load: Annotated[
        str,
        typer.Option(help="chat, rag, agent, batch, long-document, or a file of `sessions stats --load-profile`."),
    ] = "chat",
    duration: Annotated[float, typer.Option(min=0.5, help="Seconds of load on each server.")] = 120.0,
    slo: Annotated[str, typer.Option(help="Limits in ms for goodput: ttft, itl, tpot, e2e.")] = "ttft=1000,itl=100",
    compare: Annotated[str, typer.Option(help="Run twice, with and without: prefix-caching.")] = "",
    sweep: Annotated[str, typer.Option(help="Run for several sizes: num-blocks, or num-blocks=64,128,256.")] = "",
    interfere: Annotated[
        bool, typer.Option("--interfere", help="Only this: four replies stream, a 4,000-token prompt arrives.")
    ] = False,
    save_baseline: Annotated[
        bool, typer.Option("--save-baseline", help="Keep the figures as the baseline of alerts.")
    ] = False,
    seed: Seed = 0,
    peer: Peer = "",
    model: ModelName = "",
    models_dir: ModelsDir = None,
    output: Output = None,
    as_json: AsJson = False,
    serve_flags: ServeFlags = None,
) -> None:
    """A load in phases: latencies, throughput, KV use, and whether paging is worth it for such a load."""
    from .bench_run import Setup, interruptible
    from .figures import parse_slo
    from .serve_modes import ServeSpec

    _check(compare, sweep, interfere, save_baseline, peer)
    spec = ServeSpec(chosen_profile(load), duration, parse_slo(slo), seed)
    setup = Setup(serve_flags or [], peer, model, models_dir)
    with interruptible(), progress() as shown:
        keep = functools.partial(keep_baseline, setup=setup) if save_baseline else None
        result = _run(spec, setup, shown, compare, sweep, interfere, keep)
    finish(result, as_json, output)


def _run(
    spec: ServeSpec, setup: Setup, shown: Shown, compare: str, sweep: str, interfere: bool, keep: Keep | None
) -> BenchResult:
    from .serve_modes import bench_phases, bench_sweep, sweep_values

    if interfere:
        return _run_interfere(spec, setup, shown)
    if sweep:
        values = sweep_values(sweep, spec.profile, spec.seed, setup.settings().block_size)
        return bench_sweep(spec, setup, shown, values)
    return bench_phases(spec, setup, shown, compare, keep)


def _run_interfere(spec: ServeSpec, setup: Setup, shown: Shown) -> BenchResult:
    from .bench_run import run_load
    from .interfere import InterfereSpec, run_interfere

    asked = InterfereSpec(seconds=spec.duration, seed=spec.seed)

    async def run(clients: Sequence[LoadClient], result: BenchResult) -> None:
        await run_interfere(clients, asked, result, shown)

    return run_load("serve-interfere", run, setup, shown, seed=spec.seed)[0]


def _check(compare: str, sweep: str, interfere: bool, save_baseline: bool, peer: str) -> None:
    """Refuse options that do not go together."""
    from .serve_modes import COMPARISONS

    given = [name for name, on in (("--compare", compare), ("--sweep", sweep), ("--interfere", interfere)) if on]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} are runs of their own; ask for one of them.")
    if compare and compare not in COMPARISONS:
        raise ConfigError(f"--compare can be {', '.join(COMPARISONS)}, not {compare!r}.")
    if given and save_baseline:
        raise ConfigError(f"--save-baseline keeps a plain run, not one with {given[0]}.")
    if sweep and peer:
        raise ConfigError("--sweep changes our own pool; leave out --peer.")


def chosen_profile(load: str) -> LoadProfile:
    """A built-in load by its name, or one from a file.

    Raises:
        ConfigError: it is neither.
    """
    from .loads import BUILT_IN, read_profile

    if load in BUILT_IN:
        return BUILT_IN[load]
    if not Path(load).exists():
        raise ConfigError(f"--load can be {', '.join(BUILT_IN)} or a file, and there is no file {load!r}.")
    return read_profile(Path(load))


def keep_baseline(result: BenchResult, info: dict[str, Any], setup: Setup) -> None:
    """Make P95s and hit rate of our server's steady phase what alerts compare with; nothing if requests failed."""
    from ..settings import load_settings
    from ..watch.baseline import baseline_key
    from ..watch.baseline_file import save_bench_baseline
    from .report import is_busy

    found = next(one for one in result.figures["phases"] if one["phase"] == "steady")
    if result.figures["errors"]:
        say("Not kept as a baseline, because requests failed.", sys.stderr)
        return
    p95s = [found[name]["p95"] for name in ("ttft_ms", "tpot_ms")]
    ttft, tpot = (None if value is None else value / 1e3 for value in p95s)
    hits = found["cached_total"] / found["prompt_total"] if found["prompt_total"] and found["cached_total"] else None
    key, folders = baseline_key(info, setup.settings()), load_settings({})[1]
    kept = save_bench_baseline(folders, key, ttft, tpot, hits, replies=found["requests"], busy=is_busy(result))
    doubts = f"{kept.doubts}: alerts may mislead; measure longer, on a quiet computer" if kept.doubts else ""
    say(f"Kept as the baseline of this model and configuration{doubts}.", sys.stderr)
