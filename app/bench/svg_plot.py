"""Plots as inline SVG: lines over numbers, or bars over names. Colours are the page's (CSS variables ``--s0`` …)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from .report import Plot, cell_text

WIDTH, HEIGHT = 540, 280
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 14, 48
COLOURS = 8
DASHES = ("", "6 3", "2 3", "8 3 2 3")
TICKS = 5
FEW, SPREAD = 8, 60
"""A few x whose first and last are so many times apart are drawn on a logarithmic axis, each with its number."""


def svg_plot(plot: Plot) -> str:
    """The plot as an ``<svg>`` with a legend below; "" when it has no points."""
    series = {name: [point for point in points if _drawable(point)] for name, points in plot.series.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    body = _bars(plot, series) if plot.kind == "bar" else _lines(plot, series)
    label = escape(f"{plot.title}: {plot.y_label} by {plot.x_label or 'name'}", quote=True)
    legend = "".join(
        f'<li><svg class="key" viewBox="0 0 26 8" aria-hidden="true"><path class="s{at % COLOURS}" d="M0 4H26" '
        f'stroke-dasharray="{DASHES[at // COLOURS % len(DASHES)]}"/></svg>{escape(name)}</li>'
        for at, name in enumerate(series)
    )
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{body}</svg>'
        f'<ul class="legend">{legend}</ul>'
    )


def nice_ticks(high: float) -> list[float]:
    """Round numbers from 0 to at least ``high``, about five."""
    if high <= 0:
        return [0.0, 1.0]
    rough = high / TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= rough * 0.999)
    return [round(step * place, 10) for place in range(math.ceil(high / step * 0.999) + 1)]


def _drawable(point: tuple[Any, float]) -> bool:
    return point[1] is not None and math.isfinite(point[1])


def _lines(plot: Plot, series: dict[str, list[tuple[Any, float]]]) -> str:
    xs = sorted({float(x) for points in series.values() for x, _ in points})
    ticks = nice_ticks(max(y for points in series.values() for _, y in points))
    across = _x_axis(xs)
    parts = [_frame(plot, ticks)]
    for x in _x_ticks(xs):
        parts.append(_text(across(x), HEIGHT - BOTTOM + 18, cell_text(int(x) if x == int(x) else x), "middle"))
    for at, (_, points) in enumerate(series.items()):
        ordered = sorted((float(x), y) for x, y in points)
        places = [(across(x), _down(y, ticks)) for x, y in ordered]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        dash = DASHES[at // COLOURS % len(DASHES)]
        parts.append(f'<path class="s{at % COLOURS}" d="{path}" stroke-dasharray="{dash}"/>')
        if len(places) <= 40:
            parts += [_dot(at, x, y, value) for (x, y), (_, value) in zip(places, ordered, strict=True)]
    return "".join(parts)


def _dot(at: int, x: float, y: float, value: float) -> str:
    kind = f"s{at % COLOURS}"
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{cell_text(value)}</title></circle>'


def _bars(plot: Plot, series: dict[str, list[tuple[Any, float]]]) -> str:
    names = list(dict.fromkeys(str(x) for points in series.values() for x, _ in points))
    ticks = nice_ticks(max(y for points in series.values() for _, y in points))
    room = (WIDTH - LEFT - RIGHT) / len(names)
    wide = room * 0.8 / len(series)
    parts = [_frame(plot, ticks)]
    for place, name in enumerate(names):
        middle = LEFT + room * (place + 0.5)
        parts.append(_text(middle, HEIGHT - BOTTOM + 18, _short(name, room), "middle"))
        for at, points in enumerate(series.values()):
            for x, y in points:
                if str(x) != name:
                    continue
                top = _down(y, ticks)
                left = middle - room * 0.4 + wide * at
                parts.append(
                    f'<rect class="s{at % COLOURS}" x="{left:.1f}" y="{top:.1f}" width="{wide * 0.92:.1f}" '
                    f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{escape(name)}: {cell_text(y)}</title></rect>'
                )
    return "".join(parts)


def _short(name: str, room: float) -> str:
    fits = max(4, int(room / 7))
    return name if len(name) <= fits else name[: fits - 1] + "…"


def _x_axis(xs: Sequence[float]):
    """Place on the page of an x: even, or by its logarithm when the values are far apart."""
    logarithmic = xs[0] > 0 and 2 < len(xs) <= FEW and xs[-1] / xs[0] >= SPREAD
    low, high = (math.log(xs[0]), math.log(xs[-1])) if logarithmic else (xs[0], xs[-1])
    room = WIDTH - LEFT - RIGHT - 24

    def place(x: float) -> float:
        value = math.log(x) if logarithmic else x
        return LEFT + 12 + (room * (value - low) / (high - low) if high > low else room / 2)

    return place


def _x_ticks(xs: Sequence[float]) -> list[float]:
    """The values themselves where they are few, else about seven even ones."""
    if len(xs) <= FEW:
        return list(xs)
    step = nice_ticks(xs[-1] - xs[0])[1]
    first = math.ceil(xs[0] / step)
    return [first * step + step * place for place in range(int((xs[-1] - first * step) / step) + 1)]


def _down(y: float, ticks: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / ticks[-1]


def _frame(plot: Plot, ticks: Sequence[float]) -> str:
    parts = []
    for tick in ticks:
        y = _down(tick, ticks)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, y + 4, cell_text(int(tick) if tick == int(tick) else tick), "end"))
    middle = (HEIGHT - BOTTOM + TOP) / 2
    parts.append(
        f'<text class="label" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">'
        f"{escape(plot.y_label)}</text>"
    )
    parts.append(_text((WIDTH + LEFT) / 2, HEIGHT - 6, plot.x_label, "middle", "label"))
    return "".join(parts)


def _text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
