"""A bench's result as one HTML file that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from .report import BenchResult, Cell, Table, cell_text, number_columns
from .svg_plot import svg_plot

STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #23262b; --soft: #676d76; --line: #dddad2; --card: #fff;
  --edge: #23262b30;
  --good: #1d7044; --bad: #b3372c; --s0: #1f6fb2; --s1: #c2571a; --s2: #2e8b57; --s3: #8a4fa3; --s4: #b08900;
  --s5: #c43d6b; --s6: #4a8fa8; --s7: #6b6b6b; }
@media (prefers-color-scheme: dark) { :root { --paper: #17191c; --ink: #e4e5e7; --soft: #9aa1ab; --line: #34383e;
  --card: #1e2125; --edge: #000a; --good: #63c08d; --bad: #ef8377;
  --s0: #6cb0e8; --s1: #f0955a; --s2: #6cc791; --s3: #c193d8;
  --s4: #e0bb47; --s5: #ee86a8; --s6: #86c4d9; --s7: #b0b0b0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; }
p.when, figcaption, .note { color: var(--soft); margin: .25rem 0 0; }
p.verdict { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--s0);
  border-radius: 6px; padding: .8rem 1rem; margin: 1.25rem 0 0; white-space: pre-line; }
p.verdict.met { border-left-color: var(--good); } p.verdict.missed { border-left-color: var(--bad); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px;
  background: linear-gradient(90deg, var(--card) 50%, transparent) 0 0 / 3rem 100% no-repeat local,
    linear-gradient(270deg, var(--card) 50%, transparent) 100% 0 / 3rem 100% no-repeat local,
    linear-gradient(90deg, var(--edge), transparent) 0 0 / 1rem 100% no-repeat scroll,
    linear-gradient(270deg, var(--edge), transparent) 100% 0 / 1rem 100% no-repeat scroll, var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; } th { font-weight: 600; color: var(--soft); vertical-align: bottom; }
.number { text-align: right; } td.number { white-space: nowrap; } td:first-child { min-width: 9rem; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 38rem; padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; }
figure h3 { font-size: .95rem; margin: 0 0 .4rem; }
svg.plot { width: 100%; height: auto; display: block; }
.plot text { font: 14px system-ui, sans-serif; fill: var(--soft); }
.plot .grid { stroke: var(--line); } .plot path, .key path { fill: none; stroke-width: 2; }
.plot .grid { stroke-width: 1; }
@media (max-width: 30rem) { .plot text { font-size: 17px; } }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; margin: .4rem 0 0; padding: 0;
  color: var(--soft); font-size: .85rem; }
.key { width: 26px; height: 8px; margin-right: .4rem; vertical-align: middle; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin-top: .8rem; } summary { cursor: pointer; color: var(--soft); }
""" + "".join(
    f".plot path.s{at}, .key path.s{at} {{ stroke: var(--s{at}); }} "
    f".plot circle.s{at}, .plot rect.s{at} {{ fill: var(--s{at}); }}\n"
    for at in range(8)
)


def save_html(result: BenchResult, beside: Path) -> Path:
    """Write the report next to the JSON file ``beside``; its path.

    Raises:
        OSError: when it cannot be written.
    """
    path = beside.with_suffix(".html")
    path.write_text(html_report(result), encoding="utf-8")
    return path


def html_report(result: BenchResult) -> str:
    """The whole page."""
    title = f"pagedchat bench {result.name}"
    plots = [(plot.title, drawn) for plot in result.plots if (drawn := svg_plot(plot))]
    figures = "".join(f"<figure><h3>{escape(name)}</h3>{drawn}</figure>" for name, drawn in plots)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="when">{escape(_when(result))}</p>{_verdict(result)}'
        + (f'<h2>Plots</h2><div class="plots">{figures}</div>' if figures else "")
        + "".join(map(_table, result.tables))
        + _settings(result)
        + "</main></body></html>\n"
    )


def _when(result: BenchResult) -> str:
    program = result.configuration.get("program", {}).get("pagedchat", "")
    model = result.configuration.get("model", {}).get("name", "")
    parts = [f"{result.started} (UTC)", f"{result.seconds:,.1f} s", f"pagedchat {program}" if program else "", model]
    return " · ".join(part for part in parts if part)


def _verdict(result: BenchResult) -> str:
    words = {True: "Goals met. ", False: "Goals missed. ", None: ""}[result.passed] + result.verdict
    kind = {True: " met", False: " missed", None: ""}[result.passed]
    return f'<p class="verdict{kind}">{escape(words)}</p>' if words else ""


def _table(table: Table) -> str:
    numeric = number_columns(table)
    marks = [' class="number"' if one else "" for one in numeric]
    head = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(table.columns, marks, strict=True))
    rows = "".join(
        "<tr>" + "".join(_cell(cell, mark) for cell, mark in zip(row, marks, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h2>{escape(table.title)}</h2><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _cell(cell: Cell, mark: str) -> str:
    return f"<td{mark}>{escape(cell_text(cell))}</td>"


def _settings(result: BenchResult) -> str:
    """What was asked for, and what ran: one list each."""
    parts = ["<h2>Configuration</h2>", _list(result.parameters)]
    for name, values in result.configuration.items():
        if values:
            parts.append(f"<details><summary>{escape(name)}</summary>{_list(values)}</details>")
    return "".join(parts)


def _list(values: Any) -> str:
    if not isinstance(values, dict):
        values = {"": values}
    rows = "".join(f"<dt>{escape(str(name))}</dt><dd>{escape(_words(value))}</dd>" for name, value in values.items())
    return f"<dl>{rows}</dl>"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_words(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_words, value)) or "none"
    if isinstance(value, bool) or value is None or value == "":
        return {True: "yes", False: "no"}.get(value, "-") if isinstance(value, bool) else "-"
    return str(value)
