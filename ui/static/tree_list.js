// The rows of the tree on the screen: which are in view, which place of the outline each covers, and which one is current.

import { byId, framed } from "./dom.js";
import { rowId } from "./tree_row.js";
import { WindowList } from "./window_list.js";

const ROW = 31; // pixels
const ROW_TOUCHED = 40;
const FOLD_LESS = 3; // pixels that a fold is lower
const touched = matchMedia("(pointer: coarse), (max-width: 820px)");

export class TreeList {
  /** `element` scrolls; `act` has: stamp(row), make(row), moved(), resized(). */
  constructor(element, act) {
    this.act = act;
    this.element = element;
    this.rows = [];
    this.here = ""; // key of the current row
    this.list = new WindowList(element);
    this.list.canvas.setAttribute("role", "none");
    element.addEventListener("scroll", framed(() => this.#moved()), { passive: true });
    touched.addEventListener("change", () => act.resized());
  }

  /** Show other rows; what is on top stays there, and who is at the end stays at the end. */
  set(rows) {
    const anchor = this.#anchor();
    const height = touched.matches ? ROW_TOUCHED : ROW;
    this.rows = rows;
    this.list.set(rows.map((row) => new Drawn(row, row.fold ? height - FOLD_LESS : height, this.act)));
    if (anchor) this.#restore(anchor);
    this.#moved();
  }

  /** Rows may look different now. */
  draw() {
    this.list.draw();
  }

  row(key) {
    return this.rows[this.list.index.get(key)];
  }

  get place() {
    return this.list.index.get(this.here) ?? -1;
  }

  get current() {
    return this.row(this.here);
  }

  goTo(row) {
    if (!row) return;
    this.here = row.key;
    this.list.reveal(row.key);
    this.#moved();
  }

  /** The row that covers a place of the outline. */
  at(place) {
    return this.rows[Math.max(0, below(this.rows, place + 1, (row) => row.at) - 1)];
  }

  /** The row of a message, or the fold that it is in. */
  of(node) {
    return node && (this.row(node.id) ?? this.at(node.at));
  }

  /** Bring a place of the outline to the middle. */
  center(place) {
    const row = this.at(place);
    if (row) this.element.scrollTop = this.list.tops[this.list.index.get(row.key)] - this.element.clientHeight / 2;
  }

  /** The places of the outline that are in view, of `size`. */
  view(size) {
    const { scrollTop, clientHeight } = this.element;
    const { tops } = this.list;
    if (!this.rows.length) return { from: 0, to: 0 };
    const first = Math.max(0, below(tops, scrollTop + 1) - 1);
    const last = Math.min(this.rows.length - 1, below(tops, scrollTop + clientHeight) - 1);
    return { from: this.rows[first].at, to: (this.rows[last + 1]?.at ?? size) - 1 };
  }

  #anchor() {
    const { scrollTop, clientHeight } = this.element;
    const { tops, index } = this.list;
    if (!this.rows.length) return null;
    if (scrollTop + clientHeight >= tops.at(-1) - 2) return { end: true };
    const row = this.rows[Math.max(0, below(tops, scrollTop + 1) - 1)];
    return { key: row.key, at: row.at, off: scrollTop - tops[index.get(row.key)] };
  }

  #restore({ end, key, at, off }) {
    const { index, tops } = this.list;
    this.element.scrollTop = end ? tops.at(-1) : tops[index.get(key) ?? index.get(this.at(at)?.key) ?? 0] + off;
    this.list.draw();
  }

  /** Name the current row to screen readers, if it is there. */
  #moved() {
    const id = rowId(this.here);
    if (byId(id)) this.element.setAttribute("aria-activedescendant", id);
    else this.element.removeAttribute("aria-activedescendant");
    this.act.moved();
  }
}

/** A row of the list, made when it comes into view. */
class Drawn {
  constructor(row, height, act) {
    Object.assign(this, { key: row.key, row, height, act });
  }

  get stamp() {
    return `${this.height}|${this.act.stamp(this.row)}`;
  }

  make() {
    return this.act.make(this.row);
  }
}

/** How many of some sorted things are smaller. */
export function below(sorted, value, of = (one) => one) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(sorted[middle]) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
