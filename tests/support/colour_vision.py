"""How colours look to people with one of the three kinds of colour blindness.

The matrices are those of Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
Deficiency" (2009), at full severity, over linear RGB.
"""

from __future__ import annotations

from collections.abc import Sequence

Colour = Sequence[float]
"""Red, green and blue, 0 to 1."""

KINDS: dict[str, list[list[float]]] = {
    "all cones": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
_WHITE = (0.9505, 1.0, 1.089)


def parsed(text: str) -> Colour:
    """A colour written as #rrggbb."""
    return [int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def linear(colour: Colour) -> list[float]:
    """sRGB to linear RGB."""
    return [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in colour]


def seen(colour: Colour, kind: str) -> list[float]:
    """A colour as it is seen, in linear RGB."""
    return [min(1.0, max(0.0, one)) for one in _times(KINDS[kind], linear(colour))]


def difference(one: Colour, other: Colour, kind: str) -> float:
    """How far apart two colours look (CIE 1976; about 2 is just noticed side by side)."""
    pair = [_lab(seen(colour, kind)) for colour in (one, other)]
    return sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) ** 0.5


def contrast(one: Colour, other: Colour, kind: str = "all cones") -> float:
    """Contrast by WCAG, 1 to 21."""
    dark, light = sorted(_times(_TO_XYZ, seen(colour, kind))[1] for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def _lab(colour: Colour) -> tuple[float, float, float]:
    scaled = [value / white for value, white in zip(_times(_TO_XYZ, colour), _WHITE, strict=True)]
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in scaled)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _times(matrix: list[list[float]], colour: Colour) -> list[float]:
    return [sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix]
