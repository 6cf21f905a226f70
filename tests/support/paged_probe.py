"""What a scripted engine with real blocks says of a prompt that was not sent yet: as the real one, reasons included."""

from __future__ import annotations

from typing import Any

from pagedchat.engine.computed_before import ComputedBefore
from pagedchat.engine.generate_request import RequestStarted
from pagedchat.engine.kv_cache_manager import KVCacheManager
from pagedchat.engine.prompting import _message_at, _reason_in_chat


def probed(
    manager: KVCacheManager,
    computed: ComputedBefore,
    ids: list[int],
    salt: str,
    messages: list[dict[str, Any]] | None,
    built: RequestStarted | None,
) -> dict[str, Any]:
    """The part of a probe's answer that is about blocks."""
    found = manager.match(ids, salt).num_tokens(manager.block_size)
    cached = max(0, min(found, len(ids) - 1))
    whole = found >= len(ids)
    told: dict[str, Any] = {
        "cached_tokens": cached,
        "to_compute": len(ids) - cached,
        "first_difference": None if whole else found,
        "reason": None if whole else computed.reason(ids, salt, found),
        "message_index": None,
        "message_role": None,
        "token_id": None if whole else ids[found],
    }
    if messages and built is not None and not whole:
        index = told["message_index"] = _message_at(built.segments, found)
        told["message_role"] = None if index is None else messages[index]["role"]
        told["reason"] = _reason_in_chat(told["reason"], messages, built, index, found)
    return told
