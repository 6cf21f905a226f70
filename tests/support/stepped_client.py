"""An engine client that steps an engine in its own event loop: real sampling behind the HTTP interfaces, no process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from pagedchat.engine import wire
from pagedchat.engine.client_metrics import ClientMetrics
from pagedchat.engine.engine import Engine
from pagedchat.engine.generate_request import GenerateRequest, RequestStarted
from pagedchat.engine.types import RequestOutput
from support.fake_client import FakeEngineClient


class SteppedClient(FakeEngineClient):
    """Requests and outputs go through the lines of the wire, as between the processes; a chat is its texts joined."""

    def __init__(self, engine: Engine, **options: Any) -> None:
        super().__init__(**options)
        self.stepped = engine
        self._outputs: dict[str, list[RequestOutput]] = {}

    async def metrics(self) -> dict[str, Any]:
        told = ClientMetrics()
        told.heard(self.stepped.metrics())
        return told.told(up=True, held=0)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[RequestStarted | RequestOutput, None]:
        self.requests.append(request)
        sent = wire.request_from_wire(wire.decode(wire.encode(wire.request_to_wire(request))))
        text = sent.prompt if sent.messages is None else "".join(one["content"] for one in sent.messages)
        ids = self.stepped.tokenizer.encode(text) if sent.prompt_token_ids is None else sent.prompt_token_ids
        name = request.request_id
        try:
            self.stepped.add_request(name, ids, sent.params)
        except Exception as error:
            raise wire.error_from_wire(wire.decode(wire.encode(wire.error_to_wire(error)))) from error
        outputs = self._outputs[name] = []
        try:
            yield RequestStarted(name, ids)
            while True:
                while outputs:
                    output = outputs.pop(0)
                    yield output
                    if output.finish_reason and not output.more:
                        return
                self._advance()
                await asyncio.sleep(0)
        finally:
            self.stepped.cancel(name)
            del self._outputs[name]

    def _advance(self) -> None:
        for output in self.stepped.step():
            line = wire.decode(wire.encode({"output": wire.output_to_wire(output)}))
            if output.request_id in self._outputs:
                self._outputs[output.request_id].append(wire.output_from_wire(line["output"]))
