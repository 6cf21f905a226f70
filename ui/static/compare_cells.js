// The cells of a comparison: what a column is, and its paragraphs with the words marked that another one lacks.

import { alike } from "./align.js";
import { h, iconButton } from "./dom.js";
import { count, rate } from "./format.js";
import { differences } from "./words.js";

/** The head of a column: which version, how it came to be, and what can be done with it. */
export function headCell(choice, message, run, runs, { select, remove }) {
  return h("div.compare-cell", { role: "columnheader" },
    h("div.compare-title", {}, choice, h("button.link", { type: "button", onclick: select, "data-testid": "compare-select" }, "Show this one"),
      remove && iconButton("close", "Take this column away", remove)),
    h("p.facts", { "data-testid": "compare-facts" }, ...facts(message, run, runs).map((one) => h("span", {}, one))));
}

/** What tells columns apart besides their texts: the model, parameters that differ, the seed, tokens and their speed. */
function facts(message, run, runs) {
  if (!run) return [message.role === "assistant" ? "written by hand" : ""].filter(Boolean);
  const differing = Object.keys(Object.assign({}, ...runs.map((one) => one?.params))).filter((name) =>
    new Set(runs.filter(Boolean).map((one) => JSON.stringify(one.params?.[name] ?? null))).size > 1);
  return [run.model, ...differing.map((name) => `${name.replaceAll("_", " ")} ${run.params[name] ?? "–"}`),
    Number.isInteger(run.seed) && !differing.includes("seed") ? `seed ${run.seed}` : null,
    run.completion_tokens ? `${count(run.completion_tokens)} tokens` : null,
    run.tokens_per_second ? rate(run.tokens_per_second) : null].filter(Boolean);
}

/** A line that says whose messages follow. */
export function turnRow(names) {
  return h("div.compare-row.turn", { role: "row" }, ...names.map((name) => h("div.compare-cell", { role: "cell", "data-empty": String(!name) }, name ?? "–")));
}

/** A row of paragraphs: {element, same, stops}. The first column is what the others are held against; `there` says which
 * columns have a message at this place at all. */
export function paragraphRow(blocks, plain, there) {
  const cells = blocks.map((block, column) => cell(block, plain, column));
  const same = blocks.every((block) => block && block.text === blocks[0]?.text);
  const element = h("div.compare-row", { role: "row", "data-same": String(same) }, ...cells);
  return { element, same, stops: same || !there[0] ? [] : mark(blocks, cells, there) };
}

function cell(block, plain, column) {
  const text = block && (plain || !block.html ? h("p.plain", {}, block.text) : formatted(block.html));
  return h("div.compare-cell", { role: "cell", "data-empty": String(!block), "data-column": String(column + 1) }, text);
}

/** HTML as the server has sanitized it. */
function formatted(html) {
  const element = h("div.md");
  element.innerHTML = html;
  return element;
}

/** Mark what differs; returns the places to stop at, {marks, texts: [column, text] of each side}. */
function mark(blocks, cells, there) {
  const stops = [];
  const ours = []; // ranges of the first column that others lack, each with the stop it belongs to
  const strange = [];
  let alone = true; // nobody has the paragraph of the first column
  for (let column = 1; column < cells.length; column++) {
    if (!there[column] || (!blocks[0] && !blocks[column])) continue;
    if (!blocks[0] || !blocks[column] || !alike(blocks[0], blocks[column])) {
      const places = [0, column].filter((at) => blocks[at]);
      stops.push({ marks: places.map((at) => cells[at]), texts: [0, column].map((at) => [at, blocks[at]?.text ?? ""]) });
      if (blocks[column]) strange.push(cells[column]);
      continue;
    }
    alone = false;
    const [left, right] = [cells[0].textContent, cells[column].textContent];
    const found = differences(left, right);
    const theirs = wrap(cells[column], found.map(([, , from, to]) => [from, to]), "theirs");
    found.forEach(([from, to, begin, end], at) => {
      const stop = { marks: theirs[at], texts: [[0, left.slice(from, to)], [column, right.slice(begin, end)]], row: cells[0] };
      ours.push({ range: [from, to], stop });
      stops.push(stop);
    });
  }
  const marked = wrap(cells[0], joined(ours.map(({ range }) => range)), "ours");
  const ranges = joined(ours.map(({ range }) => range));
  for (const { range: [from, to], stop } of ours) {
    const at = from < to ? ranges.findIndex(([begin, end]) => begin <= from && to <= end) : -1;
    if (at >= 0) stop.marks = [...marked[at], ...stop.marks];
    if (!stop.marks.length) stop.marks = [stop.row];
  }
  if (alone && blocks[0] && stops.length) strange.push(cells[0]);
  strange.forEach(setApart); // last: the sign is no part of the text
  return stops;
}

/** Mark a paragraph as a whole: it has next to nothing in common with the one it is held against, or stands alone. */
function setApart(cell) {
  cell.dataset.apart = "true";
  cell.prepend(h("span.apart", { role: "img", title: "Only here", "aria-label": "Only here" }, "≠"));
}

/** Ranges that touch or overlap as one, in order. */
function joined(ranges) {
  const result = [];
  for (const [from, to] of ranges.filter(([begin, end]) => end > begin).sort((a, b) => a[0] - b[0])) {
    if (result.length && from <= result.at(-1)[1]) result.at(-1)[1] = Math.max(result.at(-1)[1], to);
    else result.push([from, to]);
  }
  return result;
}

/** Put marks around ranges of an element's text, which are in order; returns the marks of each. Formulas stay whole. */
function wrap(element, ranges, kind) {
  const marks = ranges.map(() => []);
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let [start, first] = [0, 0];
  for (const node of nodes) {
    const end = start + node.data.length;
    while (first < ranges.length && ranges[first][1] <= start) first++;
    for (const { at, from, to } of parts(ranges, first, start, node.data).reverse()) {
      const formula = node.parentElement.closest("math");
      if (formula) formula.classList.add("diff");
      marks[at].push(formula ?? wrapped(node, from - start, to - start, kind));
    }
    start = end;
  }
  return marks.map((some) => [...new Set(some)]);
}

/** The parts of some ranges that lie in a piece of text, which begins at `start`, and have words. */
function parts(ranges, first, start, text) {
  const [found, end] = [[], start + text.length];
  for (let at = first; at < ranges.length && ranges[at][0] < end; at++) {
    const [from, to] = [Math.max(start, ranges[at][0]), Math.min(end, ranges[at][1])];
    if (text.slice(from - start, to - start).trim()) found.push({ at, from, to }); // a gap between two items has no words
  }
  return found;
}

function wrapped(node, from, to, kind) {
  const middle = from ? node.splitText(from) : node;
  if (to - from < middle.data.length) middle.splitText(to - from);
  const element = h(`mark.diff.${kind}`);
  middle.replaceWith(element);
  element.append(middle);
  return element;
}
