// The pool drawn on a canvas: one cell a physical block. State is told by shape, owner by colour, count by number.

import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { ACTIVE, CACHED, FREE, SHARED, STATE_NAMES } from "./kvmodel.js";

const SIZES = [19, 15, 13, 11, 9, 8, 7, 6, 5, 4];
const ROOM = 285;
const FLASH_MS = 900;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Grid {
  /** `hueOf(owner)` gives 0 to 5; `titleOf(owner)` a name for the tooltip. */
  constructor(model, hueOf, titleOf) {
    Object.assign(this, { model, hueOf, titleOf });
    this.canvas = h("canvas"); // grid_pick.js makes it a control
    this.picked = null;
    this.tip = h("div.tip", { hidden: true });
    this.note = h("p.grid-note", { hidden: true });
    this.element = h("div.grid", { "data-testid": "kv-grid" }, this.canvas, this.note, this.tip);
    this.marked = new Set();
    this.branch = new Set();
    this.held = new Map();
    this.flashes = new Map();
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    addEventListener("pagedchat:theme", () => { this.colours = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Outline these blocks. */
  mark(blocks) {
    this.marked = new Set(blocks);
    this.draw();
  }

  /** Ring the block that is picked; null: none. */
  setPicked(block) {
    this.picked = block;
    this.draw();
  }

  /** The block that is drawn at a place of the canvas; null: none. */
  blockAt(x, y) {
    const block = Math.floor(y / this.size) * this.columns + Math.floor(x / this.size);
    return x >= 0 && x < this.columns * this.size && block >= 0 && block < this.shown ? block : null;
  }

  /** Blocks of the shown branch: cached ones are drawn pale in its colour instead of grey. */
  setBranch(blocks, owner, held = new Map()) {
    this.branch = new Set(blocks);
    this.held = held; // tokens in each
    this.branchOwner = owner;
    this.branchKey = `${owner} ${blocks.join(" ")}`;
  }

  /** How many are drawn so. */
  get numPale() {
    return [...this.branch].filter((block) => this.model.state[block] === CACHED).length;
  }

  flash(blocks) {
    if (calm.matches || blocks.length > 64) return;
    const until = performance.now() + FLASH_MS;
    for (const block of blocks) this.flashes.set(block, until);
  }

  /** Draw everything. */
  draw() {
    const { model, canvas } = this;
    const width = this.element.clientWidth;
    if (!width || document.hidden || !model.loaded) return;
    this.#layout(width);
    const pen = canvas.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, width, this.height);
    this.colours ??= this.#colours();
    for (let block = 0; block < this.shown; block++) this.#cell(pen, block);
    this.#drawFlashes(pen);
    this.#ring(pen);
    this.#told();
  }

  /** Draw only what has changed, if everything else is still in its place. */
  update() {
    const { model } = this;
    const plain = this.drawn === this.#place() && !this.marked.size && !this.flashes.size;
    if (!plain || document.hidden) return this.draw();
    const pen = this.canvas.getContext("2d");
    for (const block of model.changed) {
      if (block < this.shown) this.#cell(pen, block, true);
    }
    this.#ring(pen);
    this.#told();
  }

  /** What decides where cells lie; equal for equal pictures of equal blocks. */
  #place() {
    return [this.element.clientWidth, this.model.epoch, this.model.used > this.shown, this.branchKey].join();
  }

  #told() {
    this.model.changed.clear();
    this.drawn = this.#place();
    this.#tell();
  }

  /** The largest cells with which every block that is or was used can be seen; free blocks beyond are only counted. */
  #layout(width) {
    const { total, used } = this.model;
    const room = (size) => Math.floor(width / size) * Math.floor(ROOM / size);
    this.size = SIZES.find((size) => room(size) >= used) ?? SIZES.at(-1);
    this.columns = Math.floor(width / this.size);
    this.shown = Math.min(total, Math.max(room(this.size), used));
    this.height = Math.ceil(this.shown / this.columns) * this.size;
    this.note.hidden = this.shown === total;
    this.note.textContent = `Blocks 0 to ${count(this.shown - 1)}; the other ${count(total - this.shown)} are free.`;
    this.ratio = devicePixelRatio || 1;
    const pixels = [Math.round(width * this.ratio), Math.round(this.height * this.ratio)];
    if (this.canvas.width !== pixels[0]) this.canvas.width = pixels[0];
    if (this.canvas.height !== pixels[1]) this.canvas.height = pixels[1];
    this.canvas.style.height = `${this.height}px`;
  }

  #colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--pc-${name}`).trim();
    return {
      owners: [0, 1, 2, 3, 4, 5].map((hue) => read(`own-${hue}`)), line: read("line-strong"), ghost: read("ghost"),
      surface: read("surface"), text: read("text"), mark: read("text"), accent: read("accent"), flash: read("own-5"),
    };
  }

  #cell(pen, block, again = false) {
    const { model, size, colours } = this;
    const gap = size > 12 ? 3 : size > 6 ? 2 : 1;
    const x = (block % this.columns) * size, y = Math.floor(block / this.columns) * size, w = size - gap;
    if (again) pen.clearRect(x, y, size, size);
    const state = model.state[block];
    const radius = Math.min(3, w / 4);
    pen.beginPath();
    if (state === FREE) {
      pen.roundRect(x + 0.5, y + 0.5, w - 1, w - 1, radius);
      pen.strokeStyle = colours.line;
      pen.globalAlpha = size > 6 ? 0.75 : 0.5;
      pen.lineWidth = 1;
      pen.stroke();
      pen.globalAlpha = 1;
    } else {
      const inset = state === CACHED && w > 4 ? w * 0.13 : 0; // smaller: told apart from active without colour
      pen.roundRect(x + inset, y + inset, w - 2 * inset, w - 2 * inset, radius);
      const ours = state === CACHED && this.branch.has(block);
      pen.globalAlpha = ours ? 0.42 : state === CACHED ? 0.55 : 1;
      pen.fillStyle = ours ? colours.owners[this.hueOf(this.branchOwner)] : state === CACHED ? colours.ghost : this.#colourOf(block);
      pen.fill();
      pen.globalAlpha = 1;
      if (state === SHARED) this.#hatch(pen, x, y, w, radius, block);
    }
    if (this.marked.has(block)) {
      pen.strokeStyle = colours.mark;
      pen.lineWidth = size > 8 ? 1.5 : 1;
      pen.strokeRect(x - 0.5, y - 0.5, w + 1, w + 1);
    }
  }

  #ring(pen) {
    if (this.picked === null || this.picked >= this.shown) return;
    const { size, columns, colours } = this;
    const gap = size > 12 ? 3 : size > 6 ? 2 : 1;
    const x = (this.picked % columns) * size, y = Math.floor(this.picked / columns) * size;
    pen.lineWidth = 2;
    pen.strokeStyle = colours.accent;
    pen.strokeRect(x, y, size - gap, size - gap);
  }

  #hatch(pen, x, y, w, radius, block) {
    pen.save();
    pen.beginPath();
    pen.roundRect(x, y, w, w, radius);
    pen.clip();
    pen.strokeStyle = this.colours.surface;
    pen.globalAlpha = 0.55;
    pen.lineWidth = Math.max(1, w / 8);
    const step = Math.max(3, w / 3);
    for (let at = -w; at < w; at += step) {
      pen.beginPath();
      pen.moveTo(x + at, y + w);
      pen.lineTo(x + at + w, y);
      pen.stroke();
    }
    pen.restore();
    if (w < 12) return;
    pen.beginPath();
    pen.arc(x + w / 2, y + w / 2, w / 2.9, 0, 7);
    pen.fillStyle = this.colours.surface;
    pen.fill();
    pen.fillStyle = this.colours.text;
    pen.font = `700 ${Math.round(w * 0.58)}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(String(Math.min(this.model.refs[block], 99)), x + w / 2, y + w / 2 + 0.5);
  }

  #colourOf(block) {
    const [owner] = this.model.ownersOf(block);
    return owner === undefined ? this.colours.accent : this.colours.owners[this.hueOf(owner)];
  }

  #drawFlashes(pen) {
    const now = performance.now();
    pen.strokeStyle = this.colours.flash;
    pen.lineWidth = 2;
    let last = 0;
    for (const [block, until] of this.flashes) {
      if (until <= now) { this.flashes.delete(block); continue; }
      last = Math.max(last, until);
      const x = (block % this.columns) * this.size, y = Math.floor(block / this.columns) * this.size;
      pen.strokeRect(x - 1, y - 1, this.size - 1, this.size - 1);
    }
    clearTimeout(this.timer);
    if (last) this.timer = setTimeout(() => this.draw(), last - now + 5);
  }

  /** What is drawn, for people who read and for tests. */
  #tell() {
    const { free, cached, active, shared } = this.model.totals;
    Object.assign(this.element.dataset, { free, cached, active, shared, seq: this.model.seq });
    this.canvas.setAttribute("aria-label",
      `${this.model.total} blocks: ${active} active, ${shared} of them shared, ${cached} cached, ${free} free`);
  }

  #hover(event) {
    const { offsetX, offsetY } = event;
    const block = this.blockAt(offsetX, offsetY);
    this.tip.hidden = block === null;
    if (block === null) return;
    this.tip.textContent = this.wordsOf(block);
    const room = this.element.clientWidth - this.tip.offsetWidth;
    this.tip.style.transform = `translate(${Math.max(0, Math.min(offsetX - 12, room))}px, ${offsetY + 16}px)`;
  }

  /** All that is known of a block: state, references, whose it is or was, tokens. */
  wordsOf(block) {
    const { model } = this;
    const state = model.state[block];
    const parts = [`Block ${block}`, STATE_NAMES[state]];
    if (state !== FREE) {
      parts.push(plural(model.refs[block], "reference"), this.#holders(block, state));
      if (this.held.has(block)) parts.push(`${this.held.get(block)} of ${plural(model.blockSize, "token")}`);
    }
    return parts.filter(Boolean).join(" · ");
  }

  #holders(block, state) {
    if (state >= ACTIVE) return this.model.ownersOf(block).map((owner) => this.titleOf(owner)).join(", ");
    const last = this.branch.has(block) ? this.branchOwner : this.model.lastOwner.get(block);
    return last === undefined || last === null ? "" : `of ${this.titleOf(last)}`;
  }
}
