"""What only a scheduler does to a pool, done to the scripted engine from a test: preemption and pins."""

from __future__ import annotations

from typing import Any

from pagedchat.engine.request import Request

from .paged_client import PagedFakeClient


class PoolWatch:
    """Snapshots of the scripted engine between its steps, while a test runs.

    Attributes:
        snapshots: by the number of the last event before each.
    """

    def __init__(self, client: PagedFakeClient) -> None:
        self.client: Any = client
        self.snapshots: dict[int, dict[str, Any]] = {}
        self._forward = client._forward

    def __enter__(self) -> PoolWatch:
        self.client._forward = self._look
        return self

    def __exit__(self, *_: object) -> None:
        del self.client._forward

    def _look(self) -> None:
        from pagedchat.engine.inspect import pool_snapshot

        found = pool_snapshot(self.client.kv_manager, list(self.client._requests.values()))
        self.snapshots[found["seq"]] = found
        self._forward()


def preempt(client: PagedFakeClient) -> str:
    """The one running request loses its blocks, then finds what is left of them and goes on; its id."""
    held: Request = next(iter(client._requests.values()))
    kv = client.kv_manager
    kv.events.emit("preempted", [], request_id=held.request_id, labels=held.labels)
    kv.free(held)
    client._forward()
    assert kv.admit(held)
    kv.events.emit("restored", [], request_id=held.request_id, labels=held.labels)
    if held.num_to_compute > 1:
        client._compute(held, held.num_to_compute - 1)
    client._forward()
    return held.request_id


def pin(client: PagedFakeClient, blocks: list[int], on: bool) -> None:
    """Pin or unpin cached blocks."""
    client.kv_manager.set_pinned(blocks, on)
    client._forward()
