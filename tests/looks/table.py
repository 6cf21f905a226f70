"""The table of states: what each is called, what the page says in it, and how it comes about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import expect

from looks.stage import PHONE, WIDE, ZOOMED, Stage

Arrange = Callable[[Stage], Iterator[None]]
View = Literal["light", "dark", "phone", "zoom", "forced"]
Narrowed = Literal["same", "list", "panel", "anew"]
STATES: list[State] = []


@dataclass(frozen=True)
class State:
    """One look of the page.

    Attributes:
        name: also of its pictures: ``NAME-light.png``, ``NAME-dark.png`` and ``NAME-phone.png``.
        sentence: what the page says in it.
        where: selector of what says it.
        arrange: brings the page there, yields, and puts back what it changed.
        phone: how it comes onto a phone: the page is made narrow, with the list of chats or the KV panel in view or
            without; or it is put on anew, where what is open goes when the page changes its size.
    """

    name: str
    sentence: str
    where: str
    arrange: Arrange
    phone: Narrowed = "same"

    @contextmanager
    def on(self, stage: Stage) -> Iterator[None]:
        """Put it on, and check that it is there."""
        with contextmanager(self.arrange)(stage):
            expect(stage.page.locator(self.where).last).to_contain_text(self.sentence)
            yield
        stage.put_back()

    def seen(self, stage: Stage, views: Sequence[View]) -> Iterator[View]:
        """Put it on and show it in each of these views, which are yielded one after the other."""
        anew: list[View] = [one for one in views if one in SIZES] if self.phone == "anew" else []
        with self.on(stage):
            has_own_size = stage.page.viewport_size != WIDE
            for view in views:
                if not (view in SIZES and (has_own_size or anew)):
                    with _view(stage, view, self.phone):
                        yield view
        for view in anew:
            with _view(stage, view), self.on(stage):
                yield view


SIZES: dict[View, dict[str, int]] = {"phone": PHONE, "zoom": ZOOMED}


@contextmanager
def _view(stage: Stage, view: View, narrowed: Narrowed = "same") -> Iterator[None]:
    page = stage.page
    if view in SIZES:
        page.set_viewport_size(SIZES[view])  # type: ignore[arg-type]
        if narrowed == "list":
            stage.show_list()
        elif narrowed == "panel":
            stage.show_panel()
    elif view == "forced":
        page.emulate_media(forced_colors="active")
    else:
        page.emulate_media(color_scheme=view)  # type: ignore[arg-type]
    yield
    if view in SIZES:
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        page.evaluate("pagedchat.page.layout.closeDrawers()")
    elif view != "light":
        page.emulate_media(color_scheme="light", forced_colors="none")


def state(sentence: str, where: str, phone: Narrowed = "same") -> Callable[[Arrange], Arrange]:
    """Add a state to the table; its name is its function's."""

    def add(arrange: Arrange) -> Arrange:
        STATES.append(State(arrange.__name__, sentence, where, arrange, phone))
        return arrange

    return add


def as_table() -> str:
    """The table in words, one line a state."""
    width = max(len(one.name) for one in STATES)
    return "\n".join(f"{one.name:{width}}  {one.name}-*.png  {one.sentence}" for one in STATES)
