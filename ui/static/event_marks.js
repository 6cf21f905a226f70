// Marks over the grid: the blocks of the event that is looked at. The source of a copy is dashed, where it went is whole,
// and a line leads from one to the other.

import { framed, shape } from "./dom.js";
import { placesOf } from "./event_words.js";
import { gapOf } from "./grid_cells.js";

const MOST = 2_000; // blocks of one event that are marked

export class EventMarks {
  constructor(grid) {
    this.grid = grid;
    this.svg = shape("svg", { class: "event-marks", "aria-hidden": "true" });
    grid.layer.append(this.svg);
    this.places = placesOf(null);
    new ResizeObserver(framed(() => this.draw())).observe(grid.element);
  }

  /** Mark the blocks of an event; null: none. */
  show(event) {
    if (event === this.event) return;
    this.event = event;
    this.places = placesOf(event);
    Object.assign(this.grid.element.dataset, { from: this.places.from ?? "", to: this.places.to.join(" ") });
    this.drawn = null;
    this.#reveal();
  }

  /** In a large pool only some rows are in view. */
  #reveal() {
    const { grid, places: { from, to } } = this;
    const all = to.length ? to : from === null ? [] : [from];
    if (grid.size && all.length && !all.some((block) => grid.isInView(block))) grid.reveal(all[0]);
  }

  /** After the grid: its cells may lie elsewhere now. */
  draw() {
    const { size, columns, shown, height } = this.grid;
    const { from, to } = this.places;
    const key = [size, columns, shown, height, this.event?.seq, this.event?.type].join();
    if (!size || key === this.drawn) return;
    this.drawn = key;
    const width = columns * size;
    for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) this.svg.setAttribute(name, value);
    const seen = to.slice(0, MOST).filter((block) => block < shown);
    this.svg.replaceChildren(
      ...(from !== null && from < shown && seen.length ? [this.#line(from, seen[0])] : []),
      ...(from !== null && from < shown ? [this.#box(from, "from")] : []),
      ...seen.map((block) => this.#box(block, "to")));
  }

  #corner(block) {
    const { size, columns } = this.grid;
    return [(block % columns) * size, Math.floor(block / columns) * size];
  }

  #box(block, kind) {
    const [x, y] = this.#corner(block);
    const side = this.grid.size - gapOf(this.grid.size) + 1;
    return shape("rect", { class: kind, x: x - 0.5, y: y - 0.5, width: side, height: side, rx: Math.min(3, side / 4) });
  }

  #line(from, to) {
    const half = this.grid.size / 2 - 1;
    const [[x1, y1], [x2, y2]] = [this.#corner(from), this.#corner(to)].map(([x, y]) => [x + half, y + half]);
    return shape("line", { x1, y1, x2, y2 });
  }
}
