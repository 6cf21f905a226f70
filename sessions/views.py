"""Sessions and messages as the page gets them: plain dictionaries, ready for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .rows import Generation, Message, Session, json_object
from .search import Found
from .sent_files import MORE, read_sources
from .titles import UNTITLED
from .trash import DeletedBranch

if TYPE_CHECKING:
    from .presets import Preset

View = dict[str, Any]

FEWEST_FOR_SPEED = 4
"""Tokens of a reply; the speed of fewer says nothing."""

_GENERATION_SHOWN = (
    "model",
    "prompt_tokens",
    "cached_tokens",
    "computed_tokens",
    "completion_tokens",
    "queue_s",
    "prefill_s",
    "decode_s",
    "ttft_s",
    "finish_reason",
    "preemptions",
    "blocks_new",
    "blocks_shared",
    "blocks_copied",
    "seed",
    "note",
    "kept_from",
    "left_out",
    "left_out_tokens",
    "given_tokens",
)


def session_view(session: Session, usual_params: dict[str, Any], *, running: bool, temporary: bool = False) -> View:
    """A session: ``params`` as they act, ``own_params`` those chosen for it, ``running`` while a reply is written,
    ``temporary`` if it is on no disk and ends with the server.

    Args:
        usual_params: the sampling of a session that has chosen nothing; see ``effective_params``.
    """
    return {
        "id": session.id,
        "title": session.title or UNTITLED,
        "head_id": session.head_id,
        "system_prompt": session.system_prompt,
        "params": {**usual_params, **session.params},
        "own_params": session.params,
        "model": session.model,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "pinned": session.pinned,
        "archived": session.archived,
        "deleted_at": session.deleted_at,
        "folder_id": session.folder_id,
        "preset_id": session.preset_id,
        "forked_from": session.forked_from,
        "version": session.version,
        "running": running,
        "temporary": temporary,
    }


def preset_view(preset: Preset) -> View:
    """A preset, and ``system_turn``: the system prompt of a chat that begins with it; None if it says nothing."""
    return {**asdict(preset), "system_turn": preset.system_turn}


def deleted_branch_view(branch: DeletedBranch) -> View:
    """A branch in the trash; ``within`` is the deletion that has to be restored first, None if none."""
    return {**asdict(branch), "title": branch.title or UNTITLED}


def message_view(message: Message) -> View:
    """A message with its place among its siblings (1-based; 0 when it is hidden) and how it came to be."""
    place = message.siblings.index(message.id) + 1 if message.id in message.siblings else 0
    return {
        "id": message.id,
        "session_id": message.session_id,
        "parent_id": message.parent_id,
        "role": message.role,
        "content": message.content,
        "reasoning": message.reasoning,
        "status": message.status,
        "created_at": message.created_at,
        "error": message.error,
        "hidden": message.hidden,
        "deleted_at": message.deleted_at,
        "copied_from": message.copied_from,
        "kind": message.kind,
        **files_view(message),
        "siblings": message.siblings,
        "sibling_index": place,
        "generation": generation_view(message.generation) if message.generation else None,
    }


def files_view(message: Message) -> View:
    """{"files", "sources"}: what was sent with a message and how each is in its prompt, and the passages quoted there:
    {"n", "file", "name", "number"}, ``file`` None where it is gone or another message has it. Such files of other
    messages have no id, and the number of their first ``passage``."""
    if not message.files and not message.sources:
        return {"files": [], "sources": []}
    sources = read_sources(message.sources)
    told = {(one.sha256, one.name): one for one in sources}
    files = []
    for file in message.files:
        source = told.get((file.sha256, file.name))
        how = {"tokens": source.tokens, "how": source.words} if source else {"tokens": None, "how": None}
        files.append({"id": file.id, "name": file.name, "media_type": file.media_type, "size": file.size, **how})
    for source in sources:
        if source.how == MORE and source.passages:
            more = {"id": None, "name": source.name, "media_type": "", "size": 0, "passage": source.passages[0].n}
            files.append({**more, "tokens": source.tokens, "how": source.words})
    ids = {(one.sha256, one.name): one.id for one in message.files}
    quoted = [
        {"n": passage.n, "file": ids.get((one.sha256, one.name)), "name": one.name, "number": passage.number}
        for one in sources
        for passage in one.passages
    ]
    return {"files": files, "sources": quoted}


def generation_view(generation: Generation) -> View:
    """How a reply came to be; ``own`` holds the parameters chosen for it alone, where there are some."""
    view: View = {name: getattr(generation, name) for name in _GENERATION_SHOWN}
    view["tokens_per_second"] = tokens_per_second(generation)
    if generation.own:
        view["own"] = json_object(generation.own)
    return view


def run_view(run: Generation) -> View:
    """All that is known of a run: every column, and ``tokens_per_second``."""
    own, engine = json_object(run.own), json_object(run.engine)
    return {**asdict(run), "own": own, "engine": engine, "tokens_per_second": tokens_per_second(run)}


def tokens_per_second(generation: Generation) -> float | None:
    """The speed from the first token on; None where too few came to tell one."""
    tokens, seconds = generation.completion_tokens, generation.decode_s
    return (tokens - 1) / seconds if tokens and tokens >= FEWEST_FOR_SPEED and seconds else None


def found_view(found: Found) -> View:
    """The answer to a search. A snippet is a list of [text, whether it was looked for], as the text was written."""
    hits = [
        {
            "session_id": one.session_id,
            "title": one.title or UNTITLED,
            "archived": one.archived,
            "message_id": one.message_id,
            "role": one.role,
            "model": one.model,
            "created_at": one.created_at,
            "part": one.part,
            "snippet": [list(part) for part in one.snippet],
        }
        for one in found.hits
    ]
    return {"hits": hits, "total": found.total, "more": found.more, "note": found.note}
