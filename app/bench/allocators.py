"""Four ways to give sequences room for their KV, told apart by what they waste. All count in slots: room for a token.

reserve      the longest possible sequence, from admission to end
doubling     the next power of two; a sequence that outgrows its region moves to one of twice the size
virtual      addresses for the longest sequence, memory only for pages that were written (as vAttention does)
paged        blocks by table (the engine's own `KVCacheManager`), shared prefixes once
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...engine.kv_cache_manager import KVCacheManager
from ...engine.request import Request
from ...engine.sampling_params import SamplingParams
from .replay import live_slots


@dataclass(frozen=True)
class Usage:
    """Slots at a moment.

    Attributes:
        live: tokens with live KV, shared ones once.
        in_use: slots that nobody else can have.
        reserved: of these, those that their sequence will fill before it ends.
        internal: of these, those that nobody will ever fill.
    """

    live: int
    in_use: int
    reserved: int
    internal: int


class Allocator(ABC):
    """Room for sequences out of ``budget`` slots; each has a key, and the length it will end with is known."""

    name: str

    def __init__(self, budget: int, longest: int) -> None:
        self.budget, self.longest = budget, longest
        self.lengths: dict[int, int] = {}
        self.ends: dict[int, int] = {}

    def admit(self, key: int, tokens: Sequence[int], end: int) -> bool:
        """Give a sequence room for ``tokens``; False, and nothing changed, when there is none."""
        if not self._take(key, tokens):
            return False
        self.lengths[key], self.ends[key] = len(tokens), end
        return True

    def append(self, key: int, token: int) -> bool:
        """Give it room for one more token; False, and nothing changed, when there is none."""
        if not self._grow(key, token):
            return False
        self.lengths[key] += 1
        return True

    def release(self, key: int) -> None:
        """Take all its room back."""
        self._release(key)
        del self.lengths[key], self.ends[key]

    def usage(self) -> Usage:
        """The slots of this moment."""
        live, in_use = self.live(), self.in_use()
        to_come = min(self._to_come(), in_use - live)
        return Usage(live, in_use, to_come, in_use - live - to_come)

    def external(self, wanted: int) -> int:
        """Free slots that are enough for the ``wanted`` tokens of a sequence that was just refused, and of no use to
        it as they lie."""
        free = self.budget - self.in_use()
        return free if free >= wanted else 0

    def live(self) -> int:
        """Tokens with live KV."""
        return sum(self.lengths.values())

    def most_empty(self) -> int:
        """Empty slots of the sequence that has the most of them; 0 without sequences."""
        return max((self._room(key) - length for key, length in self.lengths.items()), default=0)

    @abstractmethod
    def in_use(self) -> int:
        """Slots that nobody else can have."""

    def _to_come(self) -> int:
        """Slots in use that will be filled."""
        return sum(min(self.ends[key], self._room(key)) - self.lengths[key] for key in self.lengths)

    @abstractmethod
    def _room(self, key: int) -> int:
        """Slots that a sequence has."""

    @abstractmethod
    def _take(self, key: int, tokens: Sequence[int]) -> bool: ...

    @abstractmethod
    def _grow(self, key: int, token: int) -> bool: ...

    @abstractmethod
    def _release(self, key: int) -> None: ...


class Reserve(Allocator):
    """The longest sequence for each."""

    name = "reserve"

    def in_use(self) -> int:
        """See `Allocator.in_use`."""
        return len(self.lengths) * self.longest

    def _room(self, key: int) -> int:
        return self.longest

    def _take(self, key: int, tokens: Sequence[int]) -> bool:
        return self.in_use() + self.longest <= self.budget

    def _grow(self, key: int, token: int) -> bool:
        return self.lengths[key] < self.longest

    def _release(self, key: int) -> None:
        pass


class Doubling(Allocator):
    """Regions of powers of two, split and joined as buddies (Knowlton 1965); a move holds both regions.

    Attributes:
        moved: tokens copied by moves.
    """

    name = "doubling"
    LEAST = 16

    def __init__(self, budget: int, longest: int) -> None:
        super().__init__(budget, longest)
        self.moved = 0
        self._regions: dict[int, tuple[int, int]] = {}
        self._free: dict[int, set[int]] = {}
        at = 0
        while budget - at >= self.LEAST:
            size = 1 << (budget - at).bit_length() - 1
            self._free.setdefault(size, set()).add(at)
            at += size

    def in_use(self) -> int:
        """See `Allocator.in_use`."""
        return sum(size for _, size in self._regions.values())

    def _room(self, key: int) -> int:
        return self._regions[key][1]

    def _take(self, key: int, tokens: Sequence[int]) -> bool:
        region = self._cut(max(self.LEAST, 1 << (len(tokens) - 1).bit_length()))
        if region is not None:
            self._regions[key] = region
        return region is not None

    def _grow(self, key: int, token: int) -> bool:
        old = self._regions[key]
        if self.lengths[key] < old[1]:
            return True
        region = self._cut(2 * old[1])
        if region is None:
            return False
        self.moved += self.lengths[key]
        self._regions[key] = region
        self._join(*old)
        return True

    def _release(self, key: int) -> None:
        self._join(*self._regions.pop(key))

    def _cut(self, size: int) -> tuple[int, int] | None:
        """A free region of this size as (place, size), split from a larger one if need be."""
        larger = [one for one, places in self._free.items() if one >= size and places]
        if not larger:
            return None
        have = min(larger)
        place = min(self._free[have])
        self._free[have].remove(place)
        while have > size:
            have //= 2
            self._free.setdefault(have, set()).add(place + have)
        return place, size

    def _join(self, place: int, size: int) -> None:
        while place ^ size in self._free.get(size, ()):
            self._free[size].remove(place ^ size)
            place, size = min(place, place ^ size), 2 * size
        self._free.setdefault(size, set()).add(place)


class Paged(Allocator):
    """The engine's block tables, admission as free as the others' (no blocks are kept back for growth)."""

    name = "paged"

    def __init__(self, budget: int, longest: int, block_size: int = 16, caching: bool = True) -> None:
        super().__init__(budget, longest)
        if not caching:
            self.name = "paged, nothing shared"
        self.kv = KVCacheManager(budget // block_size, block_size, caching)
        self._requests: dict[int, Request] = {}
        self._num_admitted = 0

    def live(self) -> int:
        """See `Allocator.live`: slots with live KV, those of shared blocks once."""
        return live_slots(self.kv, self._requests.values())

    def in_use(self) -> int:
        """See `Allocator.in_use`: cached blocks that no sequence holds can be had by anybody."""
        return self.kv.pool.num_active * self.kv.block_size

    def usage(self) -> Usage:
        """See `Allocator.usage`."""
        found, most = super().usage(), self.most_empty()
        assert most < self.kv.block_size, f"a sequence has {most} empty slots in blocks of {self.kv.block_size}"
        waste, part = found.in_use - found.live, self.kv.block_size - 1
        assert waste <= part * len(self.lengths), f"{waste} slots wasted by {len(self.lengths)} sequences"
        return found

    def _to_come(self) -> int:
        size = self.kv.block_size
        return sum(min(self.ends[key], -(-length // size) * size) - length for key, length in self.lengths.items())

    def _room(self, key: int) -> int:
        return len(self._requests[key].blocks) * self.kv.block_size

    def _take(self, key: int, tokens: Sequence[int]) -> bool:
        request = Request(str(key), list(tokens), SamplingParams(), self._num_admitted, 0.0, 0, self.longest)
        if not self.kv.admit(request):
            return False
        count = request.num_to_compute
        if not self.kv.append_slots(request, count):
            self.kv.free(request)
            return False
        self.kv.commit(request, count)
        self.kv.step_done()
        self._num_admitted += 1
        self._requests[key] = request
        return True

    def _grow(self, key: int, token: int) -> bool:
        request = self._requests[key]
        request.token_ids.append(token)
        if not self.kv.append_slots(request, 1):
            request.token_ids.pop()
            return False
        self.kv.commit(request, 1)
        self.kv.step_done()
        return True

    def _release(self, key: int) -> None:
        self.kv.free(self._requests.pop(key))
        self.kv.events.drain()
