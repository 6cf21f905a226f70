"""Which layer keeps its KV where: layers that see equally far back make a KV group; every block serves one group.

A block has room for the KV of ``num_slots`` layers, so all blocks are of one size and one pool serves all groups.
Layers with one kind of attention are cut into groups of that many. A model whose layers all see everything has one
group.

    layers   0 full   1 window  2 window  3 full   4 window  5 window      num_slots 2
    groups   0        1         1         0        2         2             windows (None, W, W)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KVLayout:
    """Where layers keep their KV.

    Attributes:
        windows: of each group, how many positions back its layers see, None for all; full attention first.
        places: (group, slot within the block) of each layer.
        num_slots: layers that one block serves.
    """

    windows: tuple[int | None, ...]
    places: tuple[tuple[int, int], ...]
    num_slots: int


def kv_layout(layer_windows: Sequence[int | None]) -> KVLayout:
    """Cut layers into KV groups without a wasted slot.

    Args:
        layer_windows: how many positions back each layer sees, the position itself included; None for all.
    """
    counts = Counter(layer_windows)
    num_slots = math.gcd(*counts.values())
    windows: list[int | None] = []
    first_group: dict[int | None, int] = {}
    for window in sorted(counts, key=lambda one: (one is not None, one or 0)):
        first_group[window] = len(windows)
        windows += [window] * (counts[window] // num_slots)
    seen: Counter[int | None] = Counter()
    places = []
    for window in layer_windows:
        group, slot = divmod(seen[window], num_slots)
        places.append((first_group[window] + group, slot))
        seen[window] += 1
    return KVLayout(tuple(windows), tuple(places), num_slots)
