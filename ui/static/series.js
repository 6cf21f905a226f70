// Small time series of the engine's figures: the last minutes, and what they were at any moment of them.

import { h, setText, shape } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { FigureRing } from "./figure_ring.js";

const SPAN = 300; // seconds
const LEAST_SPAN = 30;
const WIDTH = 200, HEIGHT = 40; // of a drawing, in its own units

const ms = (value) => (value < 0.9995 ? `${value < 0.01 ? (1000 * value).toFixed(1) : Math.round(1000 * value)} ms` : `${value.toFixed(1)} s`);
const tokens = (value) => (value < 99.95 ? Number(value.toFixed(1)).toString() : count(Math.round(value)));

/** Each: what is drawn in one place. `stack` draws its first lines as areas one above the other. */
const SERIES = [
  { id: "blocks", title: "KV blocks", wide: true, stack: ["used", "cached"], top: (at) => at("used") + at("cached") + at("free"),
    lines: [["used", "used"], ["cached", "cached"], ["free", "free"]], words: count },
  { id: "hits", title: "Prefix hits", top: () => 1, lines: [["hits", "of prompt tokens"]], words: percent },
  { id: "requests", title: "Requests", lines: [["running", "running"], ["waiting", "waiting"]], words: count },
  { id: "tokens", title: "Tokens a step", lines: [["tokens", "on average"]], words: tokens },
  { id: "preempted", title: "Preemptions", lines: [["preempted", "so far"]], words: count },
  { id: "ttft", title: "First token", lines: [["ttft50", "P50"], ["ttft95", "P95"]], words: ms },
  { id: "itl", title: "Next token", lines: [["itl50", "P50"], ["itl95", "P95"]], words: ms },
];

export class SeriesView {
  constructor() {
    this.ring = new FigureRing();
    this.chosen = null; // the time that is looked at; null: the newest
    this.marked = null; // the time that the panel shows; null: now
    this.moment = h("small", { "data-testid": "series-moment" });
    this.slider = h("input", {
      type: "range", min: "0", step: "1", "aria-label": "Moment of the figures", "data-testid": "series-slider",
      oninput: () => this.#choose(Number(this.slider.value)),
    });
    this.cells = SERIES.map((one) => this.#cell(one));
    this.charts = h("div.series", { onpointermove: (event) => this.#point(event), onpointerleave: () => this.#choose(null) },
      ...this.cells.map(({ element }) => element));
    this.note = h("p.about", {}, "Prefix hits and times to the first and to the next token are of the last minute.");
    this.unknown = h("p.none", { hidden: true }, "The engine’s figures of that moment are not known.");
    this.element = h("div", {}, h("h3", {}, "Last minutes", this.moment), this.unknown, this.charts, this.slider, this.note);
  }

  #cell(series) {
    const values = series.lines.map(([name, unit], place) =>
      h("span", { "data-figure": name }, h(`i.line-${place}`, { "aria-hidden": "true" }), h("b", {}, "–"), ` ${unit}`));
    const paths = series.lines.slice(0, series.stack?.length ?? 2).map((_, place) => shape("path", { class: `line-${place}` }));
    const cursor = shape("path", { class: "cursor" });
    const chart = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    chart.append(...paths.toReversed(), cursor); // an area covers those that reach above it
    const top = h("small", { "aria-hidden": "true" });
    const element = h(`div.one${series.wide ? ".wide" : ""}${series.stack ? ".stacked" : ""}`, { "data-testid": `series-${series.id}` },
      h("span.name", {}, series.title, top), chart, h("div.values", {}, ...values));
    return { series, element, chart, values: values.map((one) => one.querySelector("b")), paths, cursor, top };
  }

  /** Figures that were told at a time in seconds: the server's, as events have it. */
  take(stats, time = stats.time ?? Date.now() / 1000) {
    this.ring.take(stats, time);
  }

  /** Show what was at a time, in seconds; null: now. Of a time before the first row nothing is known. */
  mark(time) {
    if (!Object.is(time, this.marked)) this.marked = this.chosen = time;
  }

  #choose(row) {
    const { ring } = this;
    this.chosen = row === null ? this.marked : row >= ring.size - 1 ? null : ring.at("time", row);
    this.draw();
  }

  #point({ target, clientX }) {
    const chart = target.closest("svg");
    if (!chart || !this.ring.size) return;
    const { left, width } = chart.getBoundingClientRect();
    const [from, to] = this.#span();
    this.#choose(this.ring.rowOf(from + ((clientX - left) / width) * (to - from)));
  }

  /** The seconds from which and to which the drawings go. */
  #span() {
    const { ring } = this;
    const to = ring.at("time", ring.size - 1);
    return [Math.min(Math.max(ring.at("time", 0), to - SPAN), to - LEAST_SPAN), to];
  }

  draw() {
    const { ring } = this;
    const newest = ring.size - 1;
    const unknown = newest < 0 || (this.chosen !== null && !(this.chosen >= ring.at("time", 0)));
    for (const part of [this.charts, this.slider, this.note]) part.hidden = unknown && this.chosen !== null;
    this.unknown.hidden = !this.charts.hidden;
    if (unknown) return setText(this.moment, "");
    const row = this.chosen === null ? newest : ring.rowOf(this.chosen);
    const first = ring.rowOf(this.#span()[0]);
    for (const [name, value] of [["min", first], ["max", newest]]) this.slider.setAttribute(name, value);
    this.slider.value = String(row);
    const moment = `${this.chosen === null ? "newest, at" : "at"} ${clock(ring.at("time", row))}`;
    setText(this.moment, moment);
    this.slider.setAttribute("aria-valuetext", [moment, ...SERIES.map((one) => this.#told(one, row))].join("; "));
    for (const cell of this.cells) this.#drawCell(cell, first, row);
  }

  /** A series at a row in words. */
  #told({ title, lines, words }, row) {
    return `${title}: ${lines.map(([name, unit]) => `${figure(words, this.ring.at(name, row))} ${unit}`).join(", ")}`;
  }

  #drawCell({ series, chart, values, paths, cursor, top }, first, row) {
    const { ring } = this;
    const newest = ring.size - 1;
    series.lines.forEach(([name], place) => setText(values[place], figure(series.words, ring.at(name, row))));
    const drawn = series.lines.slice(0, paths.length).map(([name]) => name);
    const [low, high] = this.#bounds(series, drawn, first);
    setText(top, !high ? "" : `up to ${series.words(high)}`);
    const [from, to] = this.#span();
    const x = (time) => ((Math.max(time, from) - from) / (to - from)) * WIDTH;
    const y = (value) => HEIGHT - 1 - (value / (high || 1)) * (HEIGHT - 3);
    const points = (value) => line(ring, first, newest, value, x, y);
    drawn.forEach((name, place) => {
      const above = series.stack?.slice(0, place) ?? [];
      const outline = points((at) => above.reduce((sum, under) => sum + ring.at(under, at), ring.at(name, at)));
      paths[place].setAttribute("d", series.stack && outline ? `${outline} V ${HEIGHT} H ${x(ring.at("time", first))} Z` : outline);
    });
    cursor.setAttribute("d", this.chosen === null ? "" : `M ${x(ring.at("time", row)).toFixed(1)} 0 V ${HEIGHT}`);
    const range = Number.isNaN(high) ? "nothing yet" : `between ${series.words(low)} and ${series.words(high)}`;
    chart.setAttribute("aria-label", `${this.#told(series, newest)}; ${range} in ${plural(Math.max(1, Math.round((to - from) / 60)), "minute")}`);
  }

  /** The least and the largest value that is drawn; NaN for none. Of areas: nothing and the whole. */
  #bounds({ stack, top }, names, first) {
    const { ring } = this;
    if (top) return [0, top((name) => ring.at(name, ring.size - 1))];
    let [low, high] = [Infinity, -Infinity];
    for (let row = first; row < ring.size; row++) {
      for (const name of names) {
        const value = ring.at(name, row);
        if (!Number.isNaN(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
      }
    }
    return high < 0 ? [NaN, NaN] : [low, high];
  }
}

/** Steps from row to row: a value holds until another one is told. */
function line(ring, first, last, value, x, y) {
  let path = "", before = NaN;
  for (let row = first; row <= last; row++) {
    const now = value(row);
    if (Object.is(now, before)) continue;
    const place = x(ring.at("time", row)).toFixed(1);
    if (!Number.isNaN(before)) path += ` H ${place}`;
    if (!Number.isNaN(now)) path += Number.isNaN(before) ? ` M ${place} ${y(now).toFixed(1)}` : ` V ${y(now).toFixed(1)}`;
    before = now;
  }
  return Number.isNaN(before) ? path : `${path} H ${WIDTH}`;
}

function figure(words, value) {
  return Number.isNaN(value) ? "–" : words(value);
}

function clock(time) {
  return new Date(1000 * time).toTimeString().slice(0, 8);
}
