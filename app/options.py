"""What commands share: options, and serve's flags on a command that is not serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

DataDir = Annotated[Path | None, typer.Option(help="Folder of chats, config and state.", show_default=False)]
ModelsDir = Annotated[Path | None, typer.Option(help="Folder of the models.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SERVE_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Context settings of a command that takes serve's flags beside its own."""


def serve_flags(context: typer.Context) -> dict[str, Any]:
    """The values of serve's flags among a command's further arguments.

    Raises:
        typer.BadParameter (or another usage error): as serve itself would.
    """
    return dict(_serve_context(context).params)


def serve_flags_and_words(context: typer.Context) -> tuple[dict[str, Any], list[str]]:
    """The values of serve's flags among a command's further arguments, and the arguments that are no flags.

    Raises:
        typer.BadParameter (or another usage error): as serve itself would.
    """
    found = _serve_context(context, allow_extra_args=True)
    return dict(found.params), list(found.args)


def _serve_context(context: typer.Context, **settings: Any) -> Any:
    serve = context.find_root().command.commands["serve"]  # type: ignore[attr-defined]
    return serve.make_context(context.info_name or "", list(context.args), **settings)
