"""``pagedchat bench``: measurements a user can repeat.

Each command's function lives in a light module of its own, which loads everything heavy when it is called.
"""

from __future__ import annotations

import typer

from .http_commands import branch, chat, decode, prefill
from .paper_commands import ablate, block_size, claims, long, memory, published
from .quality_command import quality
from .regress_command import regress
from .scheduling_command import scheduling
from .serve_command import serve
from .sessions_bench_command import sessions

bench_cli = typer.Typer(help="Measure this installation.", rich_markup_mode=None)
for _name, _command in {
    "decode": decode,
    "prefill": prefill,
    "chat": chat,
    "branch": branch,
    "serve": serve,
    "claims": claims,
    "published": published,
    "ablate": ablate,
    "memory": memory,
    "block-size": block_size,
    "long": long,
    "regress": regress,
    "quality": quality,
    "scheduling": scheduling,
    "sessions": sessions,
}.items():
    bench_cli.command(_name)(_command)
