"""What an engine is told about its cache: which prefixes to keep, and what to forget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .errors import RequestError
from .generate_request import PIN_WORK
from .inspection import EngineInspection
from .sampling_params import SamplingParams
from .types import BACKGROUND_PRIORITY, RequestOutput


class CacheCare(EngineInspection):
    """The part of `Engine` that keeps and forgets cached content on request."""

    add_request: Callable[..., None]
    cancel: Callable[[str], bool]
    _check_prompt: Callable[[list[int], int], None]

    def __init__(self) -> None:
        super().__init__()
        self._pinning: dict[str, str] = {}
        self._forgetting: set[str] = set()

    # -- pins ---------------------------------------------------------------------------------------------------

    def pin(self, name: str, token_ids: Sequence[int], salt: str = "") -> None:
        """Keep a prefix (a system prompt) in the cache, whatever else needs room; computed first if it is not there.

        Raises:
            RequestError: when it is too long, pins would take too much of the pool, or prefix caching is off; a pin
                that has the name stays then.
        """
        if not self.kv.enable_caching:
            raise RequestError("Nothing can be pinned while prefix caching is off; start with --enable-prefix-caching.")
        self._check_prompt(list(token_ids), 1)
        is_cached = self.pins.add(name, token_ids, salt)
        request_id, params = PIN_WORK + name, SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
        self.cancel(request_id)
        if not is_cached:
            self._pinning[request_id] = name
            self.add_request(request_id, token_ids, params, salt=salt, priority=BACKGROUND_PRIORITY)

    def unpin(self, name: str) -> bool:
        """Let a prefix be evicted again; False if no pin has the name."""
        self.cancel(PIN_WORK + name)
        return self.pins.remove(name)

    def _without_pinning(self, outputs: list[RequestOutput]) -> list[RequestOutput]:
        """Requests of our own that compute what is pinned: when one has ended its blocks are there to pin, or the pin
        is dropped (a step failed, say)."""
        for output in outputs:
            name = self._pinning.get(output.request_id)
            if name is not None and output.request_id not in self._replies and not self.pins.settle(name):
                self.pins.remove(name)
        others = [output for output in outputs if output.request_id not in self._pinning]
        self._pinning = {one: name for one, name in self._pinning.items() if one in self._replies}
        return others

    # -- forgetting ---------------------------------------------------------------------------------------------

    def reset_cache(self) -> bool:
        """Forget all cached blocks; False while blocks are in use."""
        done = self.kv.reset()
        if done:
            self.computed_before.forget()
            self.pins.clear()
        return done

    def forget(self, session: str) -> dict[str, int]:
        """Forget a session: blocks that only it has computed or used are free at once, and neither events nor requests
        that have ended name it any more. Pins of a prefix that only it has go, too.

        What its requests still hold goes when they have ended: stop them first. Blocks that another session has used,
        or a request without one, stay, but for tokens that nobody else has.

        Returns:
            "blocks": how many are free now.
        """
        if not session:
            return {"blocks": 0}
        num_blocks = len(self.pins.forget(session))
        ids = {request.request_id for request in self._requests() if request.labels.get("session") == session}
        if ids or self.kv.users.knows(session):
            self._forgetting.add(session)
        else:
            self._forgetting.discard(session)
        ids |= self.kv.events.forget(session)
        self.step_log.forget(session, ids)
        if self.prompt_builder is not None:
            self.prompt_builder.forget_texts()
        self.computed_before.forget_user(session)
        self._forget_requests(session, ids)
        return {"blocks": num_blocks}

    def _forget_ended(self, outputs: list[RequestOutput]) -> None:
        """After a step: if requests have ended, forget sessions of which none is left."""
        if any(output.finish_reason for output in outputs):
            live = {request.labels.get("session") for request in self._requests()}
            for session in self._forgetting - live:
                self.forget(session)
