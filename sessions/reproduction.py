"""Makes a stored reply again and says whether the same ids come, and if not, what has changed.

Nothing of it is stored, and nothing of it stays in the cache. The same ids are promised where the engine is the same
and computes in float32, or deterministically; elsewhere a reply may depend on what ran beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from ..engine.errors import EngineError
from ..engine.generate_request import OWN_WORK, GenerateRequest
from ..engine.sampling_params import SamplingParams
from ..engine.types import BACKGROUND_PRIORITY, RequestOutput
from .fingerprints import engine_facts, prompt_hash
from .ids import new_id
from .recipe import Recipe
from .service_core import ServiceCore
from .views import View


class Reproduction:
    """Runs of replies, told and made again."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def recipe(self, message_id: str, run: int | None = None) -> Recipe:
        """What a run takes to be made again; the last one for None.

        Raises:
            SessionError: no model wrote this message, there is no such run, or its ids are not known.
        """
        return await self._core.read(self._core.store.recipe, message_id, run)

    async def reproduction(self, message_id: str, run: int | None = None) -> View:
        """The recipe as plain values."""
        return asdict(await self.recipe(message_id, run))

    async def reproduce(
        self, message_id: str, run: int | None = None, progress: Callable[[int], None] | None = None
    ) -> View:
        """Make a run again, at background priority. Cancelling it ends the request.

        Args:
            progress: told how many tokens there are, after each step that brought some.

        Returns:
            "same": whether the same ids came; None where nothing could run. "first_difference": index of the first id
            that differs, among those it brought. "tokens": how many there were. "changed": which of "model", "engine"
            and "prompt" are no longer what they were; with another model or prompt nothing runs. "engine": by name,
            [then, now] of what has changed. "promised": whether this engine promises the same ids at all. "verified":
            whether the prompt's ids are known to be the ones that were sent.

        Raises:
            SessionError: see ``recipe``.
            EngineError: the engine is not ready, or ended it.
        """
        recipe = await self.recipe(message_id, run)
        status = self._core.engine.status
        if status.state != "ready":
            raise EngineError(status.message or "The engine is not ready yet; try again in a moment.")
        facts = engine_facts(status.info)
        differs = {
            name: [recipe.engine.get(name), facts.get(name)]
            for name in sorted({*recipe.engine, *facts} if recipe.engine else ())
            if recipe.engine.get(name) != facts.get(name)
        }
        result: View = {
            "message_id": recipe.message_id,
            "run": recipe.run,
            "same": None,
            "first_difference": None,
            "tokens": len(recipe.expected_ids),
            "changed": ["engine"] if differs else [],
            "engine": differs,
            "promised": bool(facts.get("deterministic")) or facts.get("dtype") == "float32",
            "verified": recipe.prompt_hash is not None,
        }
        if recipe.model_fingerprint != self._core.fingerprint():
            result["changed"].insert(0, "model")
            return result
        prompt = await self.prompt(recipe)
        if prompt is None:
            result["changed"].append("prompt")
            return result
        difference = await self._first_difference(recipe, prompt, progress)
        return {**result, "same": difference is None, "first_difference": difference}

    async def prompt(self, recipe: Recipe) -> list[int] | None:
        """The ids that were sent; None if nobody can tell them any more."""
        known = recipe.prompt_ids
        if known is not None and recipe.prompt_hash in (None, prompt_hash(known)):
            return known
        built = await self._core.engine.build_prompt(recipe.messages, not recipe.continues, recipe.begun_at)
        if recipe.prompt_hash in (None, prompt_hash(built.prompt_token_ids)):
            return built.prompt_token_ids
        return None

    async def _first_difference(
        self, recipe: Recipe, prompt: list[int], progress: Callable[[int], None] | None
    ) -> int | None:
        request = _request(recipe, prompt, self._core.salt(recipe.session_id))
        ids: list[int] = []
        async with aclosing(self._core.engine.generate(request)) as items:
            async for item in items:
                if not isinstance(item, RequestOutput):
                    continue
                ids += item.token_ids
                if progress is not None:
                    progress(len(ids))
                if item.finish_reason in ("abort", "error"):
                    raise EngineError(item.error or "The engine ended the repetition; try again in a moment.")
                if item.finish_reason is not None:
                    ids = ids if item.history_ids is None else item.history_ids[len(recipe.given_ids[:-1]) :]
                elif recipe.was_cut or _difference(ids, recipe.expected_ids[: len(ids)]) is None:
                    continue
                break
        return _difference(ids, recipe.expected_ids)


def _request(recipe: Recipe, prompt: list[int], salt: str) -> GenerateRequest:
    params: dict[str, Any] = {**recipe.params, "seed": recipe.seed}
    if not recipe.ended_itself:
        params["max_tokens"] = len(recipe.given_ids[:-1]) + len(recipe.expected_ids)
    return GenerateRequest(
        params=SamplingParams(**params),
        request_id=f"{OWN_WORK}again-{new_id()}",
        prompt_token_ids=prompt,
        begins_with=recipe.given_ids,
        labels={"session": recipe.session_id},
        salt=salt,
        priority=BACKGROUND_PRIORITY,
        keep=False,
    )


def _difference(ids: list[int], expected: list[int]) -> int | None:
    """Index of the first id that differs, one that is there in one of the two only included."""
    for place, (one, other) in enumerate(zip(ids, expected, strict=False)):
        if one != other:
            return place
    return None if len(ids) == len(expected) else min(len(ids), len(expected))
