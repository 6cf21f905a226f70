"""The engine: requests in, tokens out, one step at a time. Single-threaded; whoever owns it calls `step` in a loop."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .cache_care import CacheCare
from .computed_before import ComputedBefore
from .config import EngineConfig
from .errors import OUT_OF_MEMORY, ContextLengthError, EngineError, RequestError, is_out_of_memory
from .generate_request import is_own_work
from .kv_cache_manager import KVCacheManager
from .metrics import EngineMetrics
from .pins import PinnedPrefixes
from .reply import Reply
from .request import Request
from .sampler import Sampled, Sampler
from .samples import Samples, member_id
from .sampling_params import SamplingParams
from .scheduler import Scheduled, Scheduler
from .step_batch import build_batch
from .step_log import StepLog
from .types import FinishReason, RequestOutput

if TYPE_CHECKING:
    from .prompt import PromptBuilder
    from .runner import ModelRunner
    from .tokenizer import Tokenizer


class Engine(CacheCare):
    """A model with its KV pool, scheduler and sampler.

    Args:
        config: settings.
        runner: gives logits for a step batch; loaded from ``config.model`` when None (then tokenizer and prompt
            builder are, too).
        clock: seconds; injectable for tests.

    Raises:
        ModelFileError, ConfigError: when the model or the pool cannot be set up.
    """

    scheduler_type: type[Scheduler] = Scheduler
    """Who plans the steps; another one where ways to plan are compared."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        runner: ModelRunner | None = None,
        tokenizer: Tokenizer | None = None,
        prompt_builder: PromptBuilder | None = None,
        num_blocks: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.config = config
        self._model_info = {}
        if runner is None:
            from .loading import load_model  # the only part that needs torch

            loaded = load_model(config)
            runner, tokenizer, prompt_builder = loaded.runner, loaded.tokenizer, loaded.prompt_builder
            num_blocks, self._model_info = loaded.runner.num_blocks, loaded.info
        assert tokenizer is not None
        self.runner, self.tokenizer, self.prompt_builder = runner, tokenizer, prompt_builder
        self.sampler = Sampler(tokenizer)
        self.max_model_len = min(config.max_model_len or runner.max_model_len, runner.max_model_len)
        self.kv = KVCacheManager(
            num_blocks or config.num_blocks or 64,
            config.block_size,
            config.enable_prefix_caching,
            windows=getattr(runner, "windows", (None,)),
            max_step_tokens=max(config.max_num_batched_tokens, config.max_num_seqs),
            clock=clock,
        )
        self.pins = PinnedPrefixes(self.kv)
        self.scheduler = self.scheduler_type(
            self.kv,
            config.max_num_seqs,
            config.max_num_batched_tokens,
            on_exhausted=self._pool_exhausted,
            give_way=self.pins.give_way,
            clock=clock,
        )
        self._clock = clock
        self.step_log = StepLog(self.scheduler.token_budget, clock)
        self._replies = {}
        self._samples: dict[str, Samples] = {}
        self._ended: list[RequestOutput] = []
        self._num_added = 0
        self.counters = EngineMetrics()
        self._uncounted = EngineMetrics()  # of requests that nobody sent
        self.computed_before = ComputedBefore(config.block_size)
        self.before_step: Callable[[int], None] = lambda num_tokens: None

    # -- requests -----------------------------------------------------------------------------------------------

    def add_request(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        params: SamplingParams,
        labels: dict[str, str] | None = None,
        salt: str = "",
        priority: int = 0,
        continues: bool = False,
        lane: str = "",
        keep: bool = True,
        begins_with: Sequence[int] = (),
    ) -> None:
        """Queue a request; with ``params.n`` above 1 it becomes so many samples, told apart by the outputs' index.

        Args:
            labels: copied into events and tables; ``session`` names whose the cached blocks are (see `cache_users`).
            salt: only requests of one salt share KV; salts take turns when requests wait.
            priority: lower runs first; background work has `BACKGROUND_PRIORITY`.
            continues: the prompt ends within a reply, so a space that the next token begins with is part of its text.
            keep: whether what it computes stays in the cache.
            lane: requests of one salt take turns by lane (a chat, say); without one the request is on its own.
            begins_with: ids that the one reply begins with, as if they had been sampled.

        Raises:
            RequestError: when it can never be served: an empty or too long prompt, an id in use, unknown tokens.
            EngineError: when too many requests are waiting.
        """
        prompt = list(prompt_token_ids)
        self._check_id(request_id, params.n)
        self._check_prompt([*prompt, *begins_with[:-1]], params.n)
        self._check_ids(begins_with)
        self.sampler.check(params)
        room, now = self.max_model_len - len(prompt), self._clock()
        seed = params.seed if params.seed is not None else int.from_bytes(os.urandom(8), "little")
        samples = Samples(request_id)
        for index in range(params.n):
            request = Request(
                request_id=member_id(request_id, index),
                prompt_token_ids=prompt,
                params=params,
                order=self._num_added,
                arrival=now,
                seed=seed + index,
                max_tokens=min(params.max_tokens or room, room),
                labels=dict(labels or {}),
                salt=salt,
                lane=lane,
                priority=priority,
                keep=keep,
                begins_with=list(begins_with),
                index=index,
                parent_id=request_id,
            )
            self._num_added += 1
            self._replies[request.request_id] = Reply(request, self.tokenizer, continues=continues)
            request.note("queued", now)
            samples.add(request)
        self._samples[request_id] = samples
        self.scheduler.add(samples.members[0])

    def cancel(self, request_id: str) -> bool:
        """End a request in whatever state it is; its blocks are free at once. False if there is no such request."""
        return self._end(request_id, "abort")

    def fail_all(self, error: Exception) -> None:
        """`step` raised: every request ends with an error, as far as the state it left behind allows that."""
        self.step_log.end(failed=True)
        cause = self.counters.note_failed_step(error)
        for request_id in list(self._samples):
            with contextlib.suppress(Exception):
                self._end(request_id, "error", cause, _sentence(error))

    def _end(self, request_id: str, reason: FinishReason, cause: str = "", sentence: str | None = None) -> bool:
        samples = self._samples.get(request_id)
        if samples is None:
            return False
        for request in samples.members:
            reply = self._replies.get(request.request_id)
            if reply is not None:
                output = self._output(request)
                output.error = sentence
                self._ended.append(self._finish(reply, output, reason, cause))
        return True

    def has_unfinished(self) -> bool:
        """Whether `step` has anything to do."""
        return bool(self._replies or self._ended)

    # -- a step -------------------------------------------------------------------------------------------------

    def step(self) -> list[RequestOutput]:
        """Run one step and return what it brought; also outputs of requests that ended since the last one."""
        outputs = self._step()
        if self._forgetting:
            self._forget_ended(outputs)
        return self._without_pinning(outputs) if self._pinning else outputs

    def _step(self) -> list[RequestOutput]:
        self.kv.events.step += 1
        self.step_log.begin(self.kv.events.step)
        plan = self.scheduler.schedule()
        self.step_log.planned(plan, len(self.scheduler.waiting), self.scheduler.preempted)
        outputs, self._ended = self._ended, []
        if not plan:
            self.step_log.end()
            return outputs
        now = self._clock()
        for one in plan:
            if one.request.admitted_at is None:
                self._note_admission(one.request, now)
        num_tokens = sum(one.num_tokens for one in plan)
        self.before_step(num_tokens)
        batch = build_batch(plan, self.kv.block_size, self.kv.copies, self.kv.windows)
        try:
            logits = self.runner.execute(batch)
        except Exception as error:
            outputs += self._fail(plan, error)
            self.kv.step_done()
            self.step_log.end(failed=True)
            return outputs
        for one in plan:
            self.kv.commit(one.request, one.num_tokens)
        self.kv.step_done()
        self.counters.note_step(num_tokens)
        for one in plan:
            if one.request.num_output_tokens == 0 and one.request.num_to_compute == 0:
                one.forks = self._fork(one.request)
        sampled = self.sampler.sample(plan, logits)
        now, gaps = self._clock(), []
        outputs += [self._advance(one, now, gaps) for one in sampled]
        self.counters.note_tokens(gaps)
        self.scheduler.pace.took(self.step_log.end())
        return outputs

    def _fork(self, source: Request) -> list[Request]:
        """The prompt of a first sample is computed: the others take its blocks, as far as there are seats."""
        samples = self._samples[source.parent_id]
        if not samples.unforked:
            return []
        forks = samples.take_unforked(max(0, self.config.max_num_seqs - len(self.scheduler.running)))
        for request in forks:
            self.kv.fork(source, request)
            self.scheduler.run_fork(request)
            self._note_admission(request, self._clock())
        for request in samples.take_unforked():
            self.scheduler.add(request)
        return forks

    def _advance(self, sampled: Sampled, now: float, gaps: list[float]) -> RequestOutput:
        """Add a token to its reply; all tokens of a step come at once. Adds to ``gaps`` how long it was awaited."""
        request, token = sampled.request, sampled.token
        reply = self._replies[request.request_id]
        output = self._output(request)
        if token is None:
            output.error = sampled.error
            return self._finish(reply, output, "error", "not_a_number")
        if request.first_token_at is None:
            request.first_token_at = now
            request.metrics.ttft_s = now - request.arrival
            request.metrics.prefill_s = now - (request.admitted_at or now)
            request.note("first_token", now)
            output.metrics = request.metrics
            self._counters_of(request).note_first_token(request)
        elif not is_own_work(request.parent_id):
            gaps.append(now - request.last_token_at)
        request.last_token_at = now
        request.token_ids.append(token)
        request.metrics.completion_tokens += 1
        request.metrics.decode_s = now - request.first_token_at
        output.token_ids = [token]
        output.logprobs = None if sampled.logprobs is None else [sampled.logprobs]
        output.prompt_logprobs = sampled.prompt_logprobs
        reason = reply.take(token, output)
        return self._finish(reply, output, reason) if reason else output

    def _output(self, request: Request) -> RequestOutput:
        return RequestOutput(request.parent_id, index=request.index)

    def _finish(self, reply: Reply, output: RequestOutput, reason: FinishReason, cause: str = "") -> RequestOutput:
        request = reply.request
        if request.keep:
            self.computed_before.note(request.token_ids[: request.num_computed], request.salt, request.user)
        self.scheduler.remove(request)
        del self._replies[request.request_id]
        output.text += reply.rest(reason)
        output.finish_reason = reason
        output.metrics = request.metrics
        output.history_ids = reply.history_ids()
        now = self._clock()
        request.note("finished", now, reason)
        self._note_end(request)
        self._counters_of(request).note_end(request, reason, now, cause)
        self._leave_samples(request, output, reason, cause)
        return output

    def _leave_samples(self, request: Request, output: RequestOutput, reason: FinishReason, cause: str) -> None:
        """A sample has ended: others may still run, or have waited for its prompt."""
        samples = self._samples[output.request_id]
        samples.num_unfinished -= 1
        output.more = samples.num_unfinished > 0
        if not output.more:
            del self._samples[output.request_id]
            self._counters_of(request).note_request_end(samples.members)
        elif reason == "error":
            for one in samples.take_unforked():
                failed = self._output(one)
                failed.error = output.error
                self._ended.append(self._finish(self._replies[one.request_id], failed, reason, cause))
        elif reason != "abort":
            for one in samples.take_unforked():
                self.scheduler.add(one)

    def _fail(self, plan: list[Scheduled], error: Exception) -> list[RequestOutput]:
        """A step went wrong: its requests end, what it may have written is not published, the engine goes on."""
        cause, outputs = self.counters.note_failed_step(error), []
        for one in plan:
            output = self._output(one.request)
            output.error = _sentence(error)
            outputs.append(self._finish(self._replies[one.request.request_id], output, "error", cause))
        return outputs

    def _pool_exhausted(self, request: Request) -> None:
        self._ended.append(self._finish(self._replies[request.request_id], self._output(request), "length"))

    def _note_admission(self, request: Request, now: float) -> None:
        request.admitted_at = now
        request.metrics.queue_s = now - request.arrival
        if request.index:
            return  # the prompt of several samples counts once
        request.metrics.prompt_tokens = request.num_tokens
        request.metrics.cached_tokens = request.num_computed
        request.metrics.computed_tokens = request.num_tokens - request.num_computed
        looked_up = self.kv.enable_caching and not request.needs_prompt_logits
        self._counters_of(request).note_admission(request, looked_up)

    def _counters_of(self, request: Request) -> EngineMetrics:
        """Who counts a request: nobody looks at what the program's own add up to."""
        return self._uncounted if is_own_work(request.parent_id) else self.counters

    def _check_id(self, request_id: str, num_samples: int) -> None:
        names = [member_id(request_id, index) for index in range(num_samples)]
        if request_id in self._samples or any(name in self._replies for name in names):
            raise RequestError(f"A request with the id {request_id!r} is already running.")

    def _check_prompt(self, prompt: list[int], num_samples: int) -> None:
        if not prompt:
            raise RequestError("The prompt is empty: it needs at least one token.")
        self._check_ids(prompt)
        if len(prompt) >= self.max_model_len:
            more = self.max_model_len < self.runner.max_model_len
            raise ContextLengthError(
                f"The prompt has {len(prompt):,} tokens, but the context holds {self.max_model_len:,} with the reply. "
                + ("Shorten it, or start with a larger --max-model-len." if more else "Shorten it.")
            )
        capacity = self.kv.demand.capacity
        if capacity is not None and len(prompt) > capacity:
            raise ContextLengthError(
                f"The prompt has {len(prompt):,} tokens, but the KV pool holds {capacity:,}. "
                "Shorten it, or start with more --num-blocks."
            )
        if len(self.scheduler.waiting) + num_samples > self.config.max_queue:
            raise EngineError(f"{len(self.scheduler.waiting):,} requests are waiting already. Try again later.")


def _sentence(error: Exception) -> str:
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    return f"The engine could not run this step ({type(error).__name__}: {error}); the request was ended."
