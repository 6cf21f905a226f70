"""What a bench found: figures for programs, tables and plots for people, and the configuration it ran in."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

Cell = str | int | float | None
_SHARE = re.compile(r"[-+]?[\d.,]+ ?%")
BUSY = 1.5
"""Load for each core above which a measurement is not one of a quiet machine."""


@dataclass
class Table:
    """Rows of cells under column names; ``None`` is shown as a dash. ``note`` stands below."""

    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


@dataclass
class Plot:
    """Series of points, drawn as lines, or as bars where ``kind`` is "bar" (x are names then)."""

    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[Any, float]]]
    kind: str = "line"


def thinned(points: Sequence[tuple[Any, float]], most: int = 300) -> list[tuple[Any, float]]:
    """At most so many points of a series, evenly chosen, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)]


@dataclass
class BenchResult:
    """One run of one bench.

    Attributes:
        name: of the bench, as the command calls it.
        configuration: see `operate.snapshot.configuration_snapshot`.
        parameters: what was asked for, with the seed.
        figures: what was measured, for programs; names say the unit (``ttft_p95_ms``).
        verdict: one or a few sentences for people, computed from the figures.
        passed: whether the stated goals were met; None where the bench has none.
        started: UTC, ISO 8601.
        load_before: processes that wanted a core, on average of the five minutes before.
    """

    name: str
    configuration: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    verdict: str = ""
    passed: bool | None = None
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    load_before: float = field(default_factory=lambda: round(psutil.getloadavg()[1], 2))

    def __post_init__(self) -> None:
        self._began = time.monotonic()

    def finish(self) -> BenchResult:
        """Note how long it took since it was made."""
        self.seconds = round(time.monotonic() - self._began, 1)
        return self

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def is_busy(result: BenchResult) -> bool:
    """Whether other programs wanted the processor, too, before it began."""
    cores = result.configuration.get("machine", {}).get("usable_cores")
    return bool(cores) and result.load_before > cores * BUSY


def warn_if_busy(result: BenchResult) -> BenchResult:
    """Begin the verdict with a warning when other programs wanted the processor, too, before a bench that times."""
    cores = result.configuration.get("machine", {}).get("usable_cores")
    if is_busy(result):
        busy = (
            f"This computer was busy (load {result.load_before:.1f} on {cores} cores in the five minutes before): "
            "figures of a quiet one are better, and only ratios within this run compare."
        )
        result.verdict = f"{busy}\n{result.verdict}".strip()
    return result


def text_lines(result: BenchResult) -> list[str]:
    """The tables and the verdict for a terminal."""
    lines: list[str] = []
    for table in result.tables:
        lines += ["", table.title, *table_lines(table)]
    if result.verdict:
        lines += ["", result.verdict]
    return lines


def number_columns(table: Table) -> list[bool]:
    """Of each column, whether it holds numbers or shares (``24.2%``) only, which stand to the right."""
    return [all(_is_number(row[at]) for row in table.rows) for at in range(len(table.columns))]


def _is_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or _SHARE.fullmatch(cell) is not None


def table_lines(table: Table) -> list[str]:
    """A table in aligned columns: words left, numbers right."""
    rows = [[cell_text(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
    numeric = number_columns(table)
    lines = [_aligned(cells, widths, numeric) for cells in [table.columns, *rows]]
    return [*lines, *([table.note] if table.note else [])]


def table_markdown(table: Table) -> str:
    """A table as GitHub shows it, numbers to the right, its note below."""
    numeric = number_columns(table)
    lines = [table.columns, ["---:" if right else "---" for right in numeric]]
    lines += [[cell_text(cell) for cell in row] for row in table.rows]
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([*rows, *(["", table.note] if table.note else [])])


def cell_text(cell: Cell) -> str:
    """A cell as people read it: thousands apart, three digits that count."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return cell


def save_result(result: BenchResult, folder: Path) -> Path:
    """Write ``NAME-TIME.json`` into ``folder``; the path.

    Raises:
        OSError: when it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stamp = result.started.replace(":", "").replace("-", "").partition("+")[0]
    path = folder / f"{result.name}-{stamp}.json"
    path.write_text(json.dumps(result.to_dict(), indent=1, ensure_ascii=False), encoding="utf-8")
    return path


def _aligned(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = zip(cells, widths, numeric, strict=True)
    return "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in parts).rstrip()
