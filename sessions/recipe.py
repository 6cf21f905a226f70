"""What one run of the model for a reply takes to be made again: its prompt's ids, its parameters, and what it brought.

system ids │ ids of the messages above │ header │ run 1 │ run 2 …       a reply's stored ids begin with its header
'------------- prompt of run 1 --------------'  '-----'                 and hold all of its runs
'----------------- prompt of run 2 -------------------'  '-----'
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from . import tree, turns
from .errors import SessionError
from .prompts import prompt_messages, question_after, sent_from
from .rows import Generation, PromptPath, json_object
from .stored_facts import ids_of, runs_of
from .summaries import ASIDE, INSTRUCTION, SUMMARY


@dataclass
class Recipe:
    """One run of a stored reply.

    Attributes:
        run: 1, then one more for each continuation.
        prompt_ids: as they follow from what is stored; None where that does not tell them.
        messages: the same prompt as the engine's prompt builder takes it.
        continues: the last of ``messages`` is the reply itself.
        prompt_hash: of the ids that were sent; None for a run that is older than such hashes.
        expected_ids: what it brought; if a stop string cut it, the ids that spell what is left.
        given_ids: what it was given to begin with; the last of these comes first in ``expected_ids``.
        engine: what computed it; empty for a run that is older than this note.
    """

    message_id: str
    session_id: str
    run: int
    model: str | None
    model_fingerprint: str
    params: dict[str, Any]
    seed: int | None
    finish_reason: str | None
    begun_at: str
    prompt_ids: list[int] | None
    messages: list[dict[str, Any]]
    continues: bool
    prompt_hash: str | None
    expected_ids: list[int]
    given_ids: list[int] = field(default_factory=list)
    engine: dict[str, Any] = field(default_factory=dict)

    @property
    def ended_itself(self) -> bool:
        """Whether the model or a limit ended it, not a person."""
        return self.finish_reason in ("stop", "length")

    @property
    def was_cut(self) -> bool:
        """Whether a stop string may have cut it."""
        return self.finish_reason == "stop" and bool(self.params.get("stop") or self.params.get("stop_token_ids"))


def read_recipe(connection: sqlite3.Connection, message_id: str, run: int | None) -> Recipe:
    """The recipe of a run, the last one for None.

    Raises:
        SessionError: there is no such reply or run, or it has no ids.
    """
    reply = turns.message(connection, message_id)
    runs = runs_of(connection, message_id)
    wanted = runs[-1:] if run is None else [one for one in runs if one.run == run]
    if not wanted or not wanted[0].model_fingerprint:
        raise SessionError("No model wrote this message, or there is no such run, so there is nothing to repeat.")
    if reply.status == "streaming":
        raise SessionError("This reply is still being written; wait for its end.")
    one, fingerprint = wanted[0], wanted[0].model_fingerprint
    header, ids = ids_of(connection, message_id, fingerprint)
    later = [other for other in runs if other.run > one.run and other.model_fingerprint == fingerprint]
    path = tree.prompt_path(connection, turns.session(connection, reply.session_id), reply.parent_id, fingerprint)
    messages, message_ids = prompt_messages(path)
    if reply.kind == SUMMARY:
        messages.append(question_after(path, INSTRUCTION))
        message_ids.append(ASIDE)
    system = int(path.session.system_prompt is not None)
    start = max(system, _first_kept(connection, one, message_ids))
    carries = any("carried" in one for one in messages[system:start])
    messages = sent_from(messages, system, start)
    question = None if carries else _joined(path, message_ids[:system] + message_ids[start:])
    before = _question_tokens(runs[0], question, header, counted=reply.kind == SUMMARY or carries)
    begin = header if one.run == 1 else _begin(one, before, header)
    end = min([_begin(other, before, header) for other in later], default=len(ids))
    given = ids[begin : begin + (one.given_tokens or 0)] if one.run == 1 else []
    expected = ids[begin + max(0, len(given) - 1) : end]
    if one.run > 1:
        messages.append({"role": "assistant", "content": reply.content, "token_ids": ids[:begin]})
    if not expected:
        raise SessionError("This reply has no tokens that could be repeated.")
    return Recipe(
        message_id,
        reply.session_id,
        one.run,
        one.model,
        fingerprint,
        one.params,
        one.seed,
        one.finish_reason,
        path.session.prompt_date,
        None if question is None else question + ids[:begin],
        messages,
        one.run > 1,
        one.prompt_hash,
        expected,
        given,
        json_object(one.engine),
    )


def _first_kept(connection: sqlite3.Connection, run: Generation, message_ids: list[str]) -> int:
    """Index of the first message that a run's prompt had; in a fork, the copy of it."""
    if run.kept_from is None:
        return 0
    if run.kept_from in message_ids:
        return message_ids.index(run.kept_from)
    marks = ", ".join("?" for _ in message_ids)
    query = f"SELECT id FROM messages WHERE copied_from = ? AND id IN ({marks})"
    row = connection.execute(query, [run.kept_from, *message_ids]).fetchone()
    return message_ids.index(row[0]) if row else 0


def _joined(path: PromptPath, message_ids: list[str]) -> list[int] | None:
    """The ids of messages ("" is the system turn); None if those of one are not known."""
    found = [path.system_ids if one == "" else path.token_ids.get(one) for one in message_ids]
    if any(ids is None for ids in found):
        return None
    return [token for ids in found for token in ids or []]


def _question_tokens(first: Generation, question: list[int] | None, header: int, *, counted: bool) -> int | None:
    """How many ids come before a reply's header; None if nobody knows.

    Args:
        counted: its prompt had what is stored nowhere, an instruction or a summary that was carried on; the first run
            counted the ids of that.
    """
    if question is not None:
        return len(question)
    if not counted or first.prompt_tokens is None or first.given_tokens:
        return None
    return first.prompt_tokens - header


def _begin(run: Generation, before: int | None, header: int) -> int:
    """Where in a reply's ids a run's own begin."""
    if before is None or run.prompt_tokens is None:
        return header
    return max(header, run.prompt_tokens - before)
