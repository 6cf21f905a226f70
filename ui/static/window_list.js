// A long list of which only the rows in view are in the document. Rows keep their elements while the list changes.

import { framed, h, place } from "./dom.js";

const AROUND = 400; // pixels beyond what is in view

export class WindowList {
  /** `element` is the scrolling holder. Rows are {key, height, stamp, make()}: equal stamps need no new element. */
  constructor(element) {
    this.element = element;
    this.rows = [];
    this.tops = [0];
    this.index = new Map(); // key -> place in rows
    this.drawn = new Map(); // key -> {element, stamp}
    this.kept = null; // key of a row that is in the document wherever the list is scrolled to
    this.dress = null; // is given each new element: (row, element)
    this.canvas = h("div.canvas");
    element.append(this.canvas);
    this.ask = framed(() => this.draw());
    element.addEventListener("scroll", this.ask, { passive: true });
    new ResizeObserver(this.ask).observe(element);
  }

  /** Show these rows. */
  set(rows) {
    this.rows = rows;
    this.tops = [0];
    this.index = new Map();
    rows.forEach((row, at) => {
      this.tops.push(this.tops[at] + row.height);
      this.index.set(row.key, at);
    });
    this.canvas.style.height = `${this.tops.at(-1)}px`;
    this.draw();
  }

  /** The element of a row, null while it is not in the document. */
  get(key) {
    return this.drawn.get(key)?.element ?? null;
  }

  /** Bring a row into view; returns its element, or null if there is none. */
  reveal(key) {
    const at = this.index.get(key);
    if (at === undefined) return null;
    const { element } = this;
    const [top, bottom] = [this.tops[at], this.tops[at + 1]];
    if (top < element.scrollTop) element.scrollTop = top;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
    this.draw();
    return this.get(key);
  }

  /** The row `step` places after `key` that `takes` says yes to; undefined if there is none. */
  next(key, step, takes) {
    for (let at = (this.index.get(key) ?? -1) + step; this.rows[at]; at += step) {
      if (takes(this.rows[at])) return this.rows[at];
    }
    return undefined;
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const first = this.#at(scrollTop - AROUND);
    const last = this.#at(scrollTop + clientHeight + AROUND);
    const wanted = [];
    for (let at = first; at <= last && at < this.rows.length; at++) wanted.push(at);
    const kept = new Set([this.#focused(), this.index.get(this.kept)]);
    for (const at of kept) if (at !== undefined && (at < first || at > last)) wanted.push(at);
    const before = this.drawn;
    const active = document.activeElement;
    const held = active?.closest?.("[data-row]");
    const inside = held && this.canvas.contains(held);
    this.drawn = new Map();
    place(this.canvas, wanted.sort((a, b) => a - b).map((at) => {
      const row = this.rows[at];
      const old = before.get(row.key);
      const element = old?.stamp === row.stamp ? old.element : this.#make(row);
      this.drawn.set(row.key, { element, stamp: row.stamp });
      const top = `${this.tops[at]}px`;
      if (element.style.top !== top) element.style.top = top;
      return element;
    }));
    if (!inside || document.activeElement === active) return;
    const again = active.isConnected ? active : this.get(held.dataset.row)?.querySelector("a, button");
    again?.focus({ preventScroll: true });
  }

  #make(row) {
    const element = row.make();
    element.dataset.row = row.key;
    element.style.height = `${row.height}px`;
    this.dress?.(row, element);
    return element;
  }

  #focused() {
    const element = document.activeElement?.closest?.("[data-row]");
    return element && this.canvas.contains(element) ? this.index.get(element.dataset.row) : undefined;
  }

  /** The row at a height: the last one that begins above it. */
  #at(height) {
    let [low, high] = [0, Math.max(0, this.rows.length - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= height) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
