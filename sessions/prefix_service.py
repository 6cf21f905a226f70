"""What the branches of a chat share in the block pool, and why a prompt is not found there."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from .branch_tree import BranchTree, Node
from .prefix_tree import Branch, Run, listed_twice, merge, messages_of
from .preset_service import PresetService
from .prompt_service import PromptService
from .service_core import ServiceCore
from .summaries import SUMMARY
from .views import View
from .why_not_cached import differs, newest_not_fed, sentence

MOST_BRANCHES = 60
"""Branches that a tree has at most."""
_KEPT_CUTS = 2 * MOST_BRANCHES


class PrefixService:
    """Looks at what is cached of a chat; changes nothing, recency included."""

    def __init__(self, core: ServiceCore, prompts: PromptService, presets: PresetService) -> None:
        self._core = core
        self._prompts = prompts
        self._presets = presets
        self._cut_ids: OrderedDict[tuple[Any, ...], list[int]] = OrderedDict()

    async def tree(self, session_id: str) -> View:
        """The block tables of a chat's branches merged into one tree of runs (see ``prefix_tree``).

        Returns:
            "branches": {"end", "tokens", "blocks", "shown"} in the order of the message tree, and "left_out", how many
            there are beside them; "messages": {"id", "role", "kind", "number", "version", "versions"}; "runs": {
            "first" logical block, "blocks" (physical, None where not in the pool), "counts" of their references,
            "tokens", "cached" tokens, "branches" (places), "parent" (place or None), "shown", "messages": [place,
            whether the run is named for it], "others" that hold a block in a request, "twice": blocks that another run
            lists too, and "cost": what the first reply that it is named for found and took}; "block_size".

        Raises:
            SessionError: there is no such chat.
            EngineError: the engine is not ready.
        """
        core = self._core
        found = await core.read(core.store.branch_trees.tree, session_id, core.fingerprint(), MOST_BRANCHES)
        places = {one: place for place, one in enumerate(found.nodes)}
        paths = {end: found.path(end) for end in found.ends}
        ends = sorted(found.ends, key=lambda end: [places[node.id] for node in paths[end]])
        branches = list(await asyncio.gather(*(self._branch(found, paths[end]) for end in ends)))
        tables = await core.engine.branches([one.token_ids for one in branches], core.salt(session_id))
        for branch, rows in zip(branches, tables, strict=True):
            branch.rows = rows
        size = int(core.engine.status.info.get("block_size", 16))
        return _view(found, branches, merge(branches, size), size)

    async def why(self, session_id: str, message_id: str | None = None) -> View:
        """Why the branch that ends with a message (None: the shown one) is not found in the cache to its end.

        Returns:
            "tokens", "cached", "first_difference", "reason", "message" (id of the one that the first token not found
            is in), "token" (what that one stands for), "sentence"; and "differs", a sentence about another chat of the
            same preset that begins otherwise, or None. "plain" and "differs_plain" are the same without any text of a
            chat.

        Raises:
            SessionError: there is no such chat.
            EngineError: the engine is not ready.
        """
        core = self._core
        end = message_id or (await core.session(session_id)).head_id
        found = await core.read(core.store.branch_trees.tree, session_id, core.fingerprint(), 0, end)
        path = found.path(end) if end else []
        branch = await self._branch(found, path) if path else Branch("", [], [])
        probe = await core.engine.probe(branch.token_ids, salt=core.salt(session_id))
        told = {"tokens": probe["prompt_tokens"], "cached": probe["cached_tokens"]}
        return {**told, **await self._reason(found, branch, path, probe), **await self._differs(session_id, branch)}

    async def _reason(self, tree: BranchTree, branch: Branch, path: list[Node], probe: View) -> View:
        total, first = probe["prompt_tokens"], probe.get("first_difference")
        told: View = {"first_difference": first, "reason": probe.get("reason"), "message": None, "token": None}
        if first is not None and first == total - 1 and path[-1].role == "assistant":
            words = newest_not_fed(total, growing=path[-1].status == "streaming")
            return {**told, "reason": "new", "message": path[-1].id, "sentence": words, "plain": words}
        place = branch.part_at(first) if first is not None else None
        where = None
        if first is not None and place is not None:
            told["message"] = branch.parts[place][0]
            where = name_of(tree.nodes.get(told["message"]))
            told["token"] = await self.spelled(branch.token_ids[first])
        more = {"where": where, "begins": "This branch", "temporary": self._core.is_temporary(tree.session.id)}
        return {**told, "sentence": sentence(probe, **more, token=told["token"]), "plain": sentence(probe, **more)}

    async def _differs(self, session_id: str, branch: Branch) -> View:
        found = await self._presets.differs(session_id, branch.token_ids)
        if found is None:
            return {"differs": None, "differs_plain": None}
        return {"differs": differs(found, True), "differs_plain": differs(found, False)}

    async def spelled(self, token_id: int) -> str:
        """What a token stands for, blanks made visible."""
        ((text, _),) = await self._core.engine.spell([token_id]) or [("", False)]
        return text.replace("\n", "↵").replace(" ", "␣") if not text.strip() else text.strip()

    async def _branch(self, tree: BranchTree, path: list[Node]) -> Branch:
        """The ids of a branch as the engine's cache may hold them, message by message."""
        end, sent = path[-1].id, _sent(path)
        job = self._core.jobs.get(end)
        lengths = _lengths(tree, sent)
        if job is not None and job.prompt_tokens:
            reply = job.reply_tokens
            ids = job.prompt_tokens + reply
            return Branch(end, ids, _aligned({**lengths, end: len(reply)}, len(ids)))
        if any(node.id in tree.cut for node in sent):
            ids = await self._cut(tree, end)
            return Branch(end, ids, _aligned(lengths, len(ids)))
        parts = _known(tree, sent)
        return Branch(end, [one for _, ids in parts for one in ids], [(name, len(ids)) for name, ids in parts if ids])

    async def _cut(self, tree: BranchTree, end: str) -> list[int]:
        """Of a branch whose beginning was left out; only the prompt builder can tell what was sent."""
        key = (end, self._core.fingerprint(), tree.session.system_prompt, len(tree.token_ids.get(end, ())))
        if key not in self._cut_ids:
            self._cut_ids[key] = await self._prompts.branch_tokens(tree.session.id, end)
            if len(self._cut_ids) > _KEPT_CUTS:
                self._cut_ids.popitem(last=False)
        return self._cut_ids[key]


def name_of(node: Node | None) -> str:
    """A message in words: "reply 2 (1 of 3)"; None is the system turn."""
    if node is None:
        return "the system prompt"
    if node.kind == SUMMARY:
        return "the summary"
    name = {"user": "your message", "assistant": "reply"}.get(node.role, node.role)
    versions = f" ({node.version} of {node.versions})" if node.versions > 1 else ""
    return f"{name} {node.number}{versions}"


def _sent(path: list[Node]) -> list[Node]:
    """What prompts have of a path: all behind its last summary."""
    begin = 0
    for place, node in enumerate(path):
        if node.kind == SUMMARY and node.status != "streaming":
            begin = place + 1
    return path[begin:]


def _known(tree: BranchTree, sent: list[Node]) -> list[tuple[str, list[int]]]:
    """The stored ids of a branch, up to the first message without any."""
    parts: list[tuple[str, list[int]]] = []
    if tree.session.system_prompt is not None:
        if tree.system_ids is None:
            return []
        parts.append(("", tree.system_ids))
    for node in sent:
        if not node.empty and node.id not in tree.token_ids:
            break
        parts.append((node.id, tree.token_ids.get(node.id, [])))
    return parts


def _lengths(tree: BranchTree, sent: list[Node]) -> dict[str, int | None]:
    """Tokens of each message of a branch; None where they are not stored yet."""
    lengths: dict[str, int | None] = {}
    if tree.session.system_prompt is not None:
        lengths[""] = None if tree.system_ids is None else len(tree.system_ids)
    for node in sent:
        ids = tree.token_ids.get(node.id)
        lengths[node.id] = len(ids) if ids is not None else 0 if node.empty else None
    return lengths


def _aligned(lengths: dict[str, int | None], total: int) -> list[tuple[str, int]]:
    """Parts of ``total`` tokens from the end up; a message whose length is not known, and then the first one, has what
    the others leave."""
    system = lengths.get("") or 0
    left = total - system
    known = sum(length or 0 for name, length in lengths.items() if name)
    parts: list[tuple[str, int]] = []
    for name, length in reversed([one for one in lengths.items() if one[0]]):
        count = min(left, max(0, total - system - known) if length is None else length)
        if count:
            parts.append((name, count))
        left -= count
    parts.reverse()
    if left and parts and "" not in lengths:
        parts[0] = (parts[0][0], parts[0][1] + left)
    elif system + left:
        parts.insert(0, ("", system + left))
    return parts


def _view(tree: BranchTree, branches: list[Branch], runs: list[Run], size: int) -> View:
    head = tree.session.head_id
    shown = {place for place, one in enumerate(branches) if one.end == head}
    twice = listed_twice(runs)
    messages: dict[str, int] = {}
    views = []
    for run, inside in zip(runs, messages_of(runs, branches, size), strict=True):
        first_reply = next((one for one, named in inside if named and one in tree.costs), None)
        views.append(
            {
                "first": run.first,
                "blocks": run.blocks,
                "counts": [row["ref_count"] for row in run.rows],
                "tokens": run.num_tokens,
                "cached": sum(row["cached_tokens"] for row in run.rows),
                "branches": run.branches,
                "parent": run.parent,
                "shown": not shown.isdisjoint(run.branches),
                "messages": [[messages.setdefault(one, len(messages)), named] for one, named in inside],
                "others": sorted({one for row in run.rows for one in row["sharers"]} - {tree.session.id}),
                "twice": sorted(block for block in set(run.blocks) if block in twice),
                "cost": None if first_reply is None else {"message": messages[first_reply], **tree.costs[first_reply]},
            }
        )
    return {
        "session": tree.session.id,
        "block_size": size,
        "branches": [
            {"end": one.end, "tokens": len(one.token_ids), "blocks": len(one.rows), "shown": place in shown}
            for place, one in enumerate(branches)
        ],
        "left_out": tree.left_out,
        "messages": [_message_view(tree.nodes.get(one)) for one in messages],
        "runs": views,
    }


def _message_view(node: Node | None) -> View:
    if node is None:
        return {"id": "", "role": "system", "kind": None, "number": 0, "version": 1, "versions": 1}
    names = ("id", "role", "kind", "number", "version", "versions")
    return {name: getattr(node, name) for name in names}
