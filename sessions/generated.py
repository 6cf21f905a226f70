"""The tokens of a stored reply, as a look at single ones, or a branch at one, needs them.

question │ header │ run 1 │ run 2 …      stored with a reply are its header and all its runs
'- prompt of run 1 -'
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from . import turns
from .errors import SessionError
from .recipe import Recipe, read_recipe
from .rows import Generation, Message
from .stored_facts import ids_of, runs_of

_NO_TOKENS = "The loaded model did not write this reply, so its tokens are not known; regenerate it with this model."


@dataclass
class GeneratedReply:
    """A reply that the loaded model wrote.

    Attributes:
        recipe: of its first run: what its ids follow.
        header_ids: what asked for the reply, or a beginning that a person or another model wrote.
        ids: those that were generated, by all runs.
        runs: of this model, oldest first.
        begins: where in ``ids`` each of them begins.
    """

    message: Message
    recipe: Recipe
    header_ids: list[int]
    ids: list[int]
    runs: list[Generation]
    begins: list[int]

    def run_at(self, index: int) -> tuple[Generation, int]:
        """The run that brought a token, and where in ``ids`` it begins."""
        place = max(place for place, begin in enumerate(self.begins) if begin <= index)
        return self.runs[place], self.begins[place]


def read_generated(connection: sqlite3.Connection, message_id: str, fingerprint: str) -> GeneratedReply:
    """The tokens of a reply.

    Args:
        fingerprint: of the model whose they have to be.

    Raises:
        SessionError: there is no such reply, it is still being written, or that model did not write it.
    """
    message = turns.kept_message(connection, message_id)
    if message.status == "streaming":
        raise SessionError("This reply is still being written; wait for its end or stop it.")
    runs = [one for one in runs_of(connection, message_id) if one.model_fingerprint == fingerprint]
    header, ids = ids_of(connection, message_id, fingerprint)
    if not runs or len(ids) <= header:
        raise SessionError(_NO_TOKENS)
    begins = [0, *(_begin(runs[0], one, header, len(ids)) for one in runs[1:])]
    recipe = read_recipe(connection, message_id, runs[0].run)
    return GeneratedReply(message, recipe, ids[:header], ids[header:], runs, begins)


def _begin(first: Generation, run: Generation, header: int, end: int) -> int:
    """Where the ids of a later run begin, behind the header."""
    if first.prompt_tokens is None or run.prompt_tokens is None:
        return 0
    question = first.prompt_tokens - header - max(0, (first.given_tokens or 0) - 1)
    return min(max(0, run.prompt_tokens - question - header), end - header - 1)
