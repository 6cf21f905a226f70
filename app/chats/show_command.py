"""``pagedchat sessions show``: one chat, as a tree or as the text of its shown branch."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import AsJson, DataDir
from ..terminal import local_time
from .printing import print_json, print_lines

if TYPE_CHECKING:
    from ...sessions.lookup import Branching
    from ...sessions.rows import Session

Chat = Annotated[str, typer.Argument(metavar="CHAT", help="Id, the beginning of an id, or title.")]


def show(
    chat: Chat,
    branch: Annotated[bool, typer.Option("--branch", help="The text of the branch that is shown.")] = False,
    trash: Annotated[bool, typer.Option("--trash", help="A chat in the trash.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print a chat: its messages as a tree, or its branch as text."""
    from ...sessions import tree
    from ...sessions.lookup import find_session, whole_tree
    from ...sessions.reading import reading
    from ..settings import load_settings
    from .tree_text import drawn, tree_lines

    with reading(load_settings({"data_dir": data_dir})[1].database) as connection:
        session = find_session(connection, chat, trash=trash)
        roots = whole_tree(connection, session.id)
        path = tree.path_ids(connection, session.head_id) if session.head_id else []
    messages = [message for _, message in drawn(roots, session.head_id)]
    if branch:
        messages = [one for one in messages if one.id in path]
    if as_json:
        print_json({**_session(session), "messages": [_message(one) for one in messages]})
    elif branch:
        print_lines(*(line for one in messages for line in _text(one)))
    else:
        width = max(20, shutil.get_terminal_size((100, 24)).columns - 50) if sys.stdout.isatty() else 60
        print_lines(f"{session.title or 'New chat'}  ({session.id})", *tree_lines(roots, session.head_id, width))


def _session(session: Session) -> dict[str, Any]:
    names = ("id", "title", "head_id", "system_prompt", "model", "params", "created_at", "updated_at", "deleted_at")
    return {name: getattr(session, name) for name in names}


def _message(one: Branching) -> dict[str, Any]:
    names = ("id", "parent_id", "role", "content", "reasoning", "status", "error", "created_at", "model")
    return {name: getattr(one, name) for name in names}


def _text(one: Branching) -> list[str]:
    parts = [one.role, *([one.model] if one.model else []), local_time(one.created_at)]
    if one.status != "done":
        parts.append(one.status)
    return [f"[{', '.join(parts)}]", *one.content.splitlines(), ""]
