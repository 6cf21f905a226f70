"""What an engine process can be asked besides requests: its pool, prompts, pins and counters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .branch_packing import pack_lists, unpack_lists
from .generate_request import RequestStarted
from .step_log import KEPT_STEPS


class EngineCalls(ABC):
    """The part of `EngineClient` that asks and waits for the answer.

    All of them raise EngineError while there is no engine that could answer.
    """

    @abstractmethod
    async def _call(self, method: str, *args: Any) -> Any:
        """See `EngineClient`."""

    async def snapshot(self) -> dict[str, Any]:
        """The block pool as it is; ``seq`` is the last event it includes."""
        return await self._call("snapshot")

    async def books(self) -> dict[str, Any]:
        """The totals of a snapshot, and whether the books balance."""
        return await self._call("books")

    async def brief(self) -> dict[str, Any]:
        """A snapshot's states, counts and owners, in few bytes; see `pool_brief`."""
        return await self._call("brief")

    async def ages(self) -> dict[str, Any]:
        """How old all blocks are, and how often they were reused; see `block_ages`."""
        return await self._call("ages")

    async def idle(self, most: int) -> list[dict[str, Any]]:
        """Blocks that are held long and reused little, ``most`` of them at most; see `idle_rows`."""
        return await self._call("idle", most)

    async def branch(self, token_ids: list[int], salt: str = "") -> list[dict[str, Any]]:
        """What is cached of a sequence, block by block; changes no recency."""
        return await self._call("branch", token_ids, salt)

    async def branches(self, branches: list[list[int]], salt: str = "") -> list[list[dict[str, Any]]]:
        """What ``branch`` says, of several sequences at one moment; it costs least where each begins like the one
        before it."""
        return unpack_lists(await self._call("branches", pack_lists(branches), salt))

    async def block(self, block: int) -> dict[str, Any]:
        """All that is known of one block: its row of the snapshot, tokens, the blocks before and after it, who has it,
        its last events.

        Raises:
            RequestError: the pool has no such block.
        """
        return await self._call("block", block)

    async def probe(
        self,
        token_ids: list[int] | None = None,
        *,
        prompt: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        template_args: dict[str, Any] | None = None,
        begun_at: str | None = None,
        trim: bool = False,
        max_tokens: int | None = None,
        salt: str = "",
    ) -> dict[str, Any]:
        """How much of a prompt is cached: prompt_tokens, cached_tokens, to_compute, first_difference, and the rest of
        what ``Prompting.probe`` says.

        Args:
            template_args, begun_at, trim, max_tokens: as the request would have them.

        Raises:
            RequestError: with ``trim``, if the prompt can never be served.
        """
        source = {
            "prompt_token_ids": token_ids,
            "prompt": prompt,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
            "template_args": template_args or {},
            "begun_at": begun_at,
            "trim": trim,
            "max_tokens": max_tokens,
        }
        return await self._call("probe", source, salt)

    async def reset_cache(self) -> None:
        """Forget all cached blocks.

        Raises:
            EngineError: while requests hold blocks.
        """
        await self._call("reset_cache")

    async def forget(self, session: str) -> dict[str, int]:
        """Forget a session: the blocks that only it has used are free at once, or when its requests have ended, and
        neither events nor requests name it any more.

        Returns:
            "blocks": how many are free now.
        """
        return await self._call("forget", session)

    async def pin(
        self,
        name: str,
        token_ids: list[int] | None = None,
        *,
        prompt: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        template_args: dict[str, Any] | None = None,
        salt: str = "",
    ) -> None:
        """Keep a prefix in the cache whatever else needs room, in the place of one that had the name; it is computed
        first if it is not there. Of ``messages``, what every chat that begins with them has in common is pinned.
        `stats` lists the pins and their cost.

        Raises:
            RequestError: all pins together would take too much of the pool.
        """
        source = {
            "prompt_token_ids": token_ids,
            "prompt": prompt,
            "messages": messages,
            "template_args": template_args or {},
        }
        await self._call("pin", name, source, salt)

    async def unpin(self, name: str) -> bool:
        """Let a prefix be evicted again; False if no pin has the name."""
        return await self._call("unpin", name)

    async def tokenize(self, text: str) -> list[int]:
        """Ids of a text, special tokens not recognised."""
        return await self._call("tokenize", text)

    async def spell(self, token_ids: list[int]) -> list[tuple[str, bool]]:
        """What ids stand for: texts, and apart from them, marked True, the names of control tokens."""
        return [(text, control) for text, control in await self._call("spell", token_ids)]

    async def pieces(self, token_ids: list[int]) -> list[tuple[bytes, bool]]:
        """The bytes of each id, which may be a part of a character, and whether it is left out of visible text."""
        return [(spelled.encode("latin-1"), hidden) for spelled, hidden in await self._call("pieces", token_ids)]

    async def build_prompt(
        self, messages: list[dict[str, Any]], add_generation_prompt: bool = True, begun_at: str | None = None
    ) -> RequestStarted:
        """The ids that ``messages`` would be sent as."""
        source = {"messages": messages, "add_generation_prompt": add_generation_prompt, "begun_at": begun_at}
        return RequestStarted(**await self._call("build_prompt", source))

    async def stats(self) -> dict[str, Any]:
        """Counters of the engine."""
        return await self._call("stats")

    async def steps_since(self, step: int, most: int = KEPT_STEPS) -> list[dict[str, Any]]:
        """What the newest steps after number ``step`` ran, ``most`` of them at most (see `StepLog.since`)."""
        return await self._call("steps_since", step, most)

    async def list_requests(self) -> list[dict[str, Any]]:
        """Live requests and the newest that have ended: state, timings, and a timeline of what happened when."""
        return await self._call("requests")

    async def events_since(self, seq: int) -> list[dict[str, Any]] | None:
        """Events after ``seq``; None when some are no longer kept or belong to an engine that is gone."""
        return await self._call("events_since", seq)
