"""What the branches of a chat share in the block pool, and why a prompt is not found there."""

from __future__ import annotations

import asyncio

from .branch_reader import BranchReader
from .branch_tree import BranchTree, Node
from .prefix_tree import Branch, Run, listed_twice, merge, messages_of
from .preset_service import PresetService
from .service_core import ServiceCore
from .summaries import SUMMARY
from .views import View
from .why_not_cached import differs, newest_not_fed, sentence

MOST_BRANCHES = 60
"""Branches that a tree has at most."""


class PrefixService:
    """Looks at what is cached of a chat; changes nothing, recency included."""

    def __init__(self, core: ServiceCore, reader: BranchReader, presets: PresetService) -> None:
        self._core = core
        self._reader = reader
        self._presets = presets

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
        branches = list(await asyncio.gather(*(self._branch(found, end) for end in ends)))
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
        branch = await self._branch(found, end) if end and path else Branch("", [], [])
        probe = await core.engine.probe(branch.token_ids, salt=core.salt(session_id))
        told = {"tokens": probe["prompt_tokens"], "cached": probe["cached_tokens"]}
        return {**told, **await self._reason(found, branch, path, probe), **await self._differs(session_id, branch)}

    async def _reason(self, tree: BranchTree, branch: Branch, path: list[Node], probe: View) -> View:
        total, first = probe["prompt_tokens"], probe.get("first_difference")
        told: View = {"first_difference": first, "reason": probe.get("reason"), "message": None, "token": None}
        if first is not None and first == total - 1 and path[-1].role == "assistant":
            words = newest_not_fed(total, growing=path[-1].status == "streaming")
            return {**told, "reason": "new", "message": path[-1].id, "sentence": words, "plain": words}
        part = branch.part_at(first) if first is not None else None
        where = None
        if first is not None and part is not None:
            told["message"] = part.message_id
            where = name_of(tree.nodes.get(part.message_id))
            told["token"] = await self.spelled(branch.token_ids[first])
        more = {"where": where, "begins": "This branch", "temporary": self._core.is_temporary(tree.session.id)}
        return {**told, "sentence": sentence(probe, **more, token=told["token"]), "plain": sentence(probe, **more)}

    async def _branch(self, tree: BranchTree, end: str) -> Branch:
        read = await self._reader.of_tree(tree, end)
        return Branch(end, read.token_ids, read.parts)

    async def _differs(self, session_id: str, branch: Branch) -> View:
        found = await self._presets.differs(session_id, branch.token_ids)
        if found is None:
            return {"differs": None, "differs_plain": None}
        return {"differs": differs(found, True), "differs_plain": differs(found, False)}

    async def spelled(self, token_id: int) -> str:
        """What a token stands for, blanks made visible."""
        ((text, _),) = await self._core.engine.spell([token_id]) or [("", False)]
        return text.replace("\n", "↵").replace(" ", "␣") if not text.strip() else text.strip()


def name_of(node: Node | None) -> str:
    """A message in words: "reply 2 (1 of 3)"; None is the system turn."""
    if node is None:
        return "the system prompt"
    if node.kind == SUMMARY:
        return "the summary"
    name = {"user": "your message", "assistant": "reply"}.get(node.role, node.role)
    versions = f" ({node.version} of {node.versions})" if node.versions > 1 else ""
    return f"{name} {node.number}{versions}"


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
