"""The samples of a request with ``n`` above 1: their prompt is computed once, by the first, and the others fork it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .request import Request


@dataclass
class Samples:
    """The requests that one request became.

    Attributes:
        request_id: the id that outputs carry.
        members: all samples, by index.
        unforked: those that wait for the first one's prompt; they are in no queue yet.
        num_unfinished: samples that have not ended.
    """

    request_id: str
    members: list[Request] = field(default_factory=list)
    unforked: list[Request] = field(default_factory=list)
    num_unfinished: int = 0

    def add(self, request: Request) -> None:
        """Another sample; all but the first wait for its prompt."""
        if self.members:
            self.unforked.append(request)
        self.members.append(request)
        self.num_unfinished += 1

    def take_unforked(self, count: int | None = None) -> list[Request]:
        """Samples that wait no longer, ``count`` at most."""
        taken, self.unforked = self.unforked[:count], self.unforked[:0] if count is None else self.unforked[count:]
        return taken


def member_id(request_id: str, index: int) -> str:
    """The id of one sample in tables and events; the first keeps the request's."""
    return request_id if index == 0 else f"{request_id}#{index}"
