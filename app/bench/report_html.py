"""A bench's result as one HTML file that needs nothing else."""

from __future__ import annotations

import html
from pathlib import Path

from .report import BenchResult, text_lines


def save_html(result: BenchResult, beside: Path) -> Path:
    """Write the report next to the JSON file ``beside``; its path."""
    path = beside.with_suffix(".html")
    body = html.escape("\n".join(text_lines(result)))
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>{html.escape(result.name)}</title><pre>{body}</pre>",
        encoding="utf-8",
    )
    return path
