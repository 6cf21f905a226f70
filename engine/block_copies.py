"""Copies of blocks that a step makes before it writes: copy-on-write, planned while the step is put together."""

from __future__ import annotations


class BlockCopies:
    """The copies of the step that is being planned. Their sources stay referenced until the step is done."""

    def __init__(self) -> None:
        self._pairs: list[tuple[int, int]] = []
        self._held: list[int] = []

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(source, destination), in order."""
        return list(self._pairs)

    @property
    def held(self) -> list[int]:
        """A reference each: the sources."""
        return list(self._held)

    def add(self, source: int, target: int) -> None:
        """Copy ``source``; the table's reference to it now is this step's."""
        self._pairs.append((source, target))
        self._held.append(source)

    def holds(self, block: int) -> int:
        """How many references to a block are this step's."""
        return self._held.count(block)

    def writes(self, blocks: list[int]) -> bool:
        """Whether one of the blocks gets its content only by a copy of this step."""
        return any(target in blocks for _, target in self._pairs)

    def drop(self, targets: list[int]) -> list[int]:
        """Forget the copies into ``targets``; returns their sources, whose references are the caller's now."""
        if not self._pairs:
            return []
        gone = set(targets)
        sources = [source for source, target in self._pairs if target in gone]
        self._pairs = [pair for pair in self._pairs if pair[1] not in gone]
        for source in sources:
            self._held.remove(source)
        return sources

    def done(self) -> list[int]:
        """The step is over; returns the sources, whose references are to be given back."""
        held, self._pairs, self._held = self._held, [], []
        return held
