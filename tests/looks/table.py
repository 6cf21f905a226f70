"""The table of states: what each is called, what the page says in it, and how it comes about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import expect

from looks.stage import Stage

Arrange = Callable[[Stage], Iterator[None]]
STATES: list[State] = []


@dataclass(frozen=True)
class State:
    """One look of the page.

    Attributes:
        name: also of its pictures: ``NAME-light.png``, ``NAME-dark.png`` and ``NAME-phone.png``.
        sentence: what the page says in it.
        where: selector of what says it.
        arrange: brings the page there, yields, and puts back what it changed.
    """

    name: str
    sentence: str
    where: str
    arrange: Arrange

    @contextmanager
    def on(self, stage: Stage) -> Iterator[None]:
        """Put it on, and check that it is there."""
        with contextmanager(self.arrange)(stage):
            expect(stage.page.locator(self.where).last).to_contain_text(self.sentence)
            yield
        stage.put_back()


def state(sentence: str, where: str) -> Callable[[Arrange], Arrange]:
    """Add a state to the table; its name is its function's."""

    def add(arrange: Arrange) -> Arrange:
        STATES.append(State(arrange.__name__, sentence, where, arrange))
        return arrange

    return add


def as_table() -> str:
    """The table in words, one line a state."""
    width = max(len(one.name) for one in STATES)
    return "\n".join(f"{one.name:{width}}  {one.name}-*.png  {one.sentence}" for one in STATES)
