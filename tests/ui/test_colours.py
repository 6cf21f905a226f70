"""Colours of the KV panel for every kind of colour vision: owners differ, and steps are an order by lightness alone."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest

import pagedchat
from support.colour_vision import KINDS, Colour, contrast, difference, parsed

TOKENS = (Path(pagedchat.__file__).parent / "ui/static/tokens.css").read_text("utf-8")


def colours(theme: str) -> dict[str, Colour]:
    """The colours of a theme by their names; the dark one changes some of the light one."""
    light, dark = TOKENS.split(':root[data-theme="dark"]')
    found = dict(re.findall(r"--pc-([a-z0-9-]+): (#[0-9a-f]{6});", light))
    if theme == "dark":
        found |= dict(re.findall(r"--pc-([a-z0-9-]+): (#[0-9a-f]{6});", dark))
    return {name: parsed(value) for name, value in found.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_owners_can_be_told_apart(theme: str, kind: str) -> None:
    found = colours(theme)
    owners = [found[f"own-{hue}"] for hue in range(6)]
    assert min(difference(*pair, kind) for pair in combinations(owners, 2)) > 11
    assert min(difference(one, found["ghost"], kind) for one in owners) > 9, "cached blocks are no owner's"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_steps_are_an_order_by_lightness(theme: str, kind: str) -> None:
    found = colours(theme)
    steps = [found[f"ramp-{step}"] for step in range(5)]
    apart = [contrast(one, found["surface"], kind) for one in steps]
    assert apart == sorted(apart) and apart[0] > 2
    assert min(contrast(*pair, kind) for pair in pairwise(steps)) > 1.25
