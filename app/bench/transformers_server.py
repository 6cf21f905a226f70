"""transformers' ``generate`` behind OpenAI's API, for comparison; a program of its own, which `target` starts.

The weights are the checkpoint's, in the numbers that plain torch is quick in on this CPU. Requests that arrive together
form one batch, padded on the left, which runs until its longest reply has ended; others wait meanwhile (static
batching). Nothing is kept between batches. It ends when the process that started it is gone.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from ...engine.detokenizer import IncrementalDetokenizer
from ...engine.errors import PagedChatError
from ...engine.prompt import PromptBuilder, PromptMessage, load_prompt_builder
from ...kernels.choose import plain_cpu_dtype
from .models import BenchModel
from .transformers_peer import transformers_model

MOST_AT_ONCE = 16
GATHER_S = 0.02
PARENT_EVERY_S = 0.5


@dataclass
class Job:
    """A prompt that waits or runs; ``out`` gets each token id, then None, or an error's sentence."""

    ids: list[int]
    max_tokens: int
    whole: bool
    out: queue.Queue[int | str | None] = field(default_factory=queue.Queue)
    left: int = 0

    def take(self, token: int, ends: frozenset[int]) -> None:
        """One more token; nothing once it has ended."""
        if self.left <= 0:
            return
        self.out.put(token)
        self.left = 0 if token in ends and not self.whole else self.left - 1
        if self.left <= 0:
            self.out.put(None)


class _Running(StoppingCriteria):
    """Hands each step's tokens to the jobs of a batch; it is streamer and stopping rule in one."""

    def __init__(self, jobs: list[Job], ends: frozenset[int]) -> None:
        self._jobs, self._ends, self._prompt = jobs, ends, True

    def put(self, value: torch.Tensor) -> None:
        if self._prompt:  # generate shows the prompt first
            self._prompt = False
            return
        for job, token in zip(self._jobs, value.tolist(), strict=True):
            job.take(token, self._ends)

    def end(self) -> None:
        pass

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> Any:
        over = all(job.left <= 0 for job in self._jobs)
        return torch.full((input_ids.shape[0],), over, dtype=torch.bool, device=input_ids.device)


class Generator:
    """The model and the one thread that runs it."""

    def __init__(self, model: BenchModel, dtype: torch.dtype) -> None:
        self.tokenizer = model.tokenizer
        self._model = transformers_model(model, dtype)
        self._model.generation_config.eos_token_id = None
        self._ends = frozenset(model.tokenizer.end_ids)
        self._waiting: queue.Queue[Job] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    @cached_property
    def prompts(self) -> PromptBuilder:
        """The model's chat template."""
        return load_prompt_builder(self.tokenizer)

    def submit(self, job: Job) -> None:
        """Queue a job."""
        job.left = job.max_tokens
        self._waiting.put(job)

    def _work(self) -> None:
        while True:
            jobs = [self._waiting.get()]
            time.sleep(GATHER_S)
            while len(jobs) < MOST_AT_ONCE and not self._waiting.empty():
                jobs.append(self._waiting.get_nowait())
            try:
                self._run(jobs)
            except Exception as error:
                for job in jobs:
                    job.out.put(f"transformers failed: {error}")

    def _run(self, jobs: list[Job]) -> None:
        longest = max(len(job.ids) for job in jobs)
        ids = torch.tensor([[0] * (longest - len(job.ids)) + job.ids for job in jobs])
        mask = torch.tensor([[0] * (longest - len(job.ids)) + [1] * len(job.ids) for job in jobs])
        running = _Running(jobs, self._ends)
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=max(job.max_tokens for job in jobs),
                do_sample=False,
                pad_token_id=0,
                streamer=running,
                stopping_criteria=StoppingCriteriaList([running]),
            )


def make_server(generator: Generator, port: int = 0) -> ThreadingHTTPServer:
    """A server on loopback, listening, not yet serving."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer({"object": "list", "data": [{"id": "hf", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            job = Job(_prompt_ids(generator, body), body["max_tokens"], bool(body.get("ignore_eos")))
            generator.submit(job)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for chunk in _chunks(generator, job, "messages" in body):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _answer(self, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


def _prompt_ids(generator: Generator, body: dict[str, Any]) -> list[int]:
    if "messages" in body:
        messages = [PromptMessage(one["role"], one["content"]) for one in body["messages"]]
        return generator.prompts.build(messages).token_ids
    prompt = body["prompt"]
    return generator.tokenizer.encode_prompt(prompt) if isinstance(prompt, str) else prompt


def _chunks(generator: Generator, job: Job, chat: bool) -> Iterator[dict[str, Any]]:
    """The reply as OpenAI's chunks, one a token, and its usage."""
    text, count, finish = IncrementalDetokenizer(generator.tokenizer), 0, "length"
    while isinstance(token := job.out.get(), int):
        count += 1
        if token in generator.tokenizer.end_ids and not job.whole:
            finish = "stop"
        yield {"choices": [_choice(text.append([token]), chat, [token], None)]}
    if isinstance(token, str):
        yield {"error": {"message": token}}
        return
    yield {"choices": [_choice(text.finish(), chat, [], finish)]}
    usage = {"prompt_tokens": len(job.ids), "completion_tokens": count, "total_tokens": len(job.ids) + count}
    yield {"choices": [], "usage": usage}


def _choice(text: str, chat: bool, ids: list[int], finish: str | None) -> dict[str, Any]:
    said = {"delta": {"content": text}} if chat else {"text": text}
    return {"index": 0, **said, "token_ids": ids, "finish_reason": finish}


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_EVERY_S)
    os._exit(0)


def main(path: str) -> None:
    """Load and serve; prints where once requests are taken."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    server = make_server(Generator(BenchModel.open(Path(path)), plain_cpu_dtype(torch.bfloat16)))
    print(f"transformers is ready at http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except PagedChatError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        os._exit(1)
