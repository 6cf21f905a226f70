// The pool drawn on a canvas: one cell a physical block. Only the rows in view are drawn; where not all fit they scroll.
//
//     box (scrolls) ── all (as high as all rows) ── view (stays in place: canvas, marks over it)
//                                               └── layer (as large as all: what others lay over the cells)

import { framed, h, iconButton, setAttr } from "./dom.js";
import { count, plural } from "./format.js";
import { drawCell, gapOf, paleness, readColours } from "./grid_cells.js";
import { ACTIVE, CACHED, FREE, STATE_NAMES } from "./kvmodel.js";

const SIZES = [19, 15, 13, 11, 9, 8, 7, 6, 5, 4];
const ROOM = 285;
const FLASH_MS = 900;
const MOST_FLASHES = 24;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Grid {
  /** `hueOf(owner)` gives 0 to 5; `titleOf(owner)` a name for the tooltip. */
  constructor(model, hueOf, titleOf) {
    Object.assign(this, { model, hueOf, titleOf });
    this.canvas = h("canvas", { role: "img" });
    this.over = h("canvas.grid-over", { "aria-hidden": "true" });
    this.layer = h("div.grid-layer", { "aria-hidden": "true" });
    this.view = h("div.grid-view", {}, this.canvas, this.over);
    this.all = h("div.grid-all", {}, this.view, this.layer);
    this.box = h("div.grid-box", {}, this.all);
    this.tip = h("div.tip", { hidden: true });
    this.note = h("p.grid-note", { hidden: true });
    this.element = h("div.grid", { "data-testid": "kv-grid" }, this.box, this.note, this.tip);
    this.zoomOut = iconButton("minus", "Smaller cells", () => this.zoom(1), { "data-testid": "kv-grid-smaller" });
    this.zoomIn = iconButton("plus", "Larger cells", () => this.zoom(-1), { "data-testid": "kv-grid-larger" });
    this.marked = new Set();
    this.branch = new Set();
    this.branchOwner = null;
    this.numPale = 0; // cached blocks of the branch
    this.held = new Map();
    this.flashes = new Map();
    this.picked = null;
    this.shade = null; // another colour than the owner's: see grid_modes.js
    this.goTo = null; // a block to be shown with the next drawing
    this.chosen = null; // the size that was chosen, if any
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.width = this.scrolled = 0;
    this.#listen();
  }

  #listen() {
    const anew = () => { this.colours = null; this.draw(); };
    addEventListener("pagedchat:theme", anew);
    for (const what of ["(forced-colors: active)", "(prefers-contrast: more)"]) matchMedia(what).addEventListener("change", anew);
    const drawSoon = framed(() => this.draw());
    new ResizeObserver(() => { this.width = this.box.clientWidth; drawSoon(); }).observe(this.box);
    this.box.addEventListener("scroll", () => { this.scrolled = this.box.scrollTop; drawSoon(); }, { passive: true });
  }

  /** Outline these blocks. */
  mark(blocks) {
    this.marked = new Set(blocks);
    this.drawOver();
  }

  /** Ring the block that is picked; null: none. */
  setPicked(block) {
    this.picked = block;
    if (block !== null && this.size) this.reveal(block);
    this.drawOver();
  }

  /** Scroll so that a block is in view. */
  reveal(block) {
    if (block < this.shown && !this.isInView(block)) this.box.scrollTop = this.#topOf(block) - (this.viewHeight - this.size) / 2;
  }

  /** Whether all of a block's cell is in view. */
  isInView(block) {
    const top = this.#topOf(block);
    return top >= this.scrolled && top + this.size <= this.scrolled + this.viewHeight;
  }

  /** Where the row of a block begins, in all rows. */
  #topOf(block) {
    return Math.floor(block / this.columns) * this.size;
  }

  /** One size of cells up (-1) or down (1); what is in the middle stays there. */
  zoom(step) {
    const at = SIZES.indexOf(this.size) + step;
    if (!SIZES[at]) return;
    const middle = this.picked ?? this.#rowAt(this.scrolled + this.viewHeight / 2) * this.columns;
    this.chosen = SIZES[at] === this.fitting ? null : SIZES[at];
    this.draw();
    this.box.scrollTop = this.#topOf(middle) - (this.viewHeight - this.size) / 2;
  }

  /** The block that is drawn at a place of the canvas; null: none. */
  blockAt(x, y) {
    const block = this.#rowAt(y + this.top) * this.columns + Math.floor(x / this.size);
    return x >= 0 && x < this.columns * this.size && block >= 0 && block < this.shown ? block : null;
  }

  #rowAt(y) {
    return Math.floor(y / this.size);
  }

  /** Blocks of the shown branch: cached ones are drawn pale in its colour instead of grey. */
  setBranch(blocks, owner, held = new Map()) {
    const before = owner === this.branchOwner ? this.branch : null;
    this.branch = new Set(blocks);
    this.held = held; // tokens in each
    this.branchOwner = owner;
    if (!before && blocks.length) this.goTo = blocks[0]; // where not all fits, begin with the blocks of the shown chat
    if (before) { // a branch that grows changes few cells
      for (const block of this.branch) if (!before.has(block)) this.model.changed.add(block);
      for (const block of before) if (!this.branch.has(block)) this.model.changed.add(block);
    }
    this.#countPale();
  }

  /** How many are drawn so. */
  #countPale() {
    this.numPale = 0;
    for (const block of this.branch) this.numPale += this.model.state[block] === CACHED;
  }

  flash(blocks) {
    if (calm.matches || this.flashes.size + blocks.length > MOST_FLASHES) return; // many would hide what they point at
    const until = performance.now() + FLASH_MS;
    for (const block of blocks) this.flashes.set(block, until);
  }

  /** Draw all that is in view. */
  draw() {
    this.width ||= this.box.clientWidth;
    if (!this.width || document.hidden || !this.model.loaded) return;
    this.#layout(this.width);
    const pen = this.#pen(this.canvas);
    pen.clearRect(0, 0, this.width, this.viewHeight);
    this.colours ??= readColours();
    for (let block = this.from; block < this.to; block++) this.#cell(pen, block);
    this.#countPale();
    this.model.changed.clear();
    this.drawn = this.#place();
    this.drawOver();
    if (this.goTo !== null && this.goTo < this.shown) this.reveal(this.goTo);
    this.goTo = null;
  }

  /** Draw only what has changed, if everything else is still in its place, and tell it. */
  update() {
    this.paint();
    this.#tell();
  }

  /** As `update`, without a word. */
  paint() {
    const { model } = this;
    if (!model.loaded || document.hidden) return;
    if (this.drawn !== this.#place()) return this.draw();
    if (model.changed.size) {
      const pen = this.#pen(this.canvas);
      let branch = false;
      for (const block of model.changed) {
        branch ||= this.branch.has(block);
        if (block >= this.from && block < this.to) this.#cell(pen, block, true);
      }
      if (branch) this.#countPale();
      model.changed.clear();
    }
    this.drawOver();
  }

  /** What decides where cells lie; equal for equal pictures of equal blocks. */
  #place() {
    const { model } = this;
    return [this.width, this.scrolled, devicePixelRatio, model.epoch, model.used > this.shown, this.branchOwner, this.chosen, this.shade?.key].join();
  }

  /** The largest cells with which every block that is or was used can be seen at once; free blocks beyond are only
   * counted. Where there are too many, or larger cells were chosen, all blocks scroll. */
  #layout(width) {
    const { total, used } = this.model;
    const room = (size) => Math.floor(width / size) * Math.floor(ROOM / size);
    this.fitting = SIZES.find((size) => room(size) >= used) ?? SIZES.at(-1);
    this.size = this.chosen ?? this.fitting;
    this.columns = Math.floor(width / this.size);
    this.shown = used > room(this.size) ? total : Math.min(total, room(this.size));
    this.height = Math.ceil(this.shown / this.columns) * this.size;
    this.viewHeight = Math.min(this.height, ROOM);
    this.note.hidden = this.shown === total;
    this.note.textContent = `Blocks 0 to ${count(this.shown - 1)}; the other ${count(total - this.shown)} are free.`;
    this.all.style.height = `${this.height}px`;
    this.view.style.height = `${this.viewHeight}px`;
    this.#fit(width);
    this.top = Math.round(Math.max(0, Math.min(this.scrolled, this.height - this.viewHeight)));
    this.from = this.#rowAt(this.top) * this.columns;
    this.to = Math.min(this.shown, (this.#rowAt(this.top + this.viewHeight - 1) + 1) * this.columns);
    this.zoomIn.setAttribute("aria-disabled", String(this.size === SIZES[0]));
    this.zoomOut.setAttribute("aria-disabled", String(this.size === SIZES.at(-1)));
  }

  /** Give the canvases the pixels of the screen. */
  #fit(width) {
    this.ratio = devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.over]) {
      const [across, down] = [Math.round(width * this.ratio), Math.round(this.viewHeight * this.ratio)];
      if (canvas.width !== across) canvas.width = across;
      if (canvas.height !== down) canvas.height = down;
    }
  }

  #pen(canvas) {
    const pen = canvas.getContext("2d");
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    return pen;
  }

  /** Where a block lies on the canvas. */
  #corner(block) {
    return [(block % this.columns) * this.size, this.#topOf(block) - this.top];
  }

  #cell(pen, block, again = false) {
    const { model, size, colours } = this;
    const [x, y] = this.#corner(block);
    if (again) pen.clearRect(x, y, size, size);
    const state = model.state[block];
    const refs = model.refs[block];
    const pinned = model.pins.has(block);
    if (state === FREE) return drawCell(pen, colours, size, x, y, { state });
    const colour = this.shade?.colourOf(block, colours);
    if (colour) return drawCell(pen, colours, size, x, y, { state, refs, pinned, colour, pale: 1 });
    const ours = state === CACHED && this.branch.has(block);
    drawCell(pen, colours, size, x, y, { state, refs, pinned, colour: this.#ownersColour(block, state, ours), pale: paleness(state, ours, size) });
  }

  #ownersColour(block, state, ours) {
    const { owners, ghost, accent } = this.colours;
    if (ours) return owners[this.hueOf(this.branchOwner)];
    if (state === CACHED) return ghost;
    for (const owner of this.model.owners.get(block)?.keys() ?? []) return owners[this.hueOf(owner)];
    return accent;
  }

  /** What lies over the cells: outlines, the ring of the picked one, flashes. */
  drawOver() {
    const { size, colours } = this;
    if (!size || !colours || document.hidden) return;
    const now = performance.now();
    for (const [block, until] of this.flashes) if (until <= now) this.flashes.delete(block);
    const marks = this.marked.size + this.flashes.size + (this.picked === null ? 0 : 1);
    if (!marks && this.over.hidden) return;
    this.over.hidden = !marks;
    const pen = this.#pen(this.over);
    pen.clearRect(0, 0, this.width, this.viewHeight);
    for (const block of this.flashes.keys()) this.#frame(pen, block, colours.flash, 2, -1);
    for (const block of this.marked) this.#frame(pen, block, colours.text, size > 8 ? 1.5 : 1, -0.5);
    if (this.picked !== null) this.#ring(pen);
    clearTimeout(this.timer);
    const last = Math.max(0, ...this.flashes.values());
    if (last) this.timer = setTimeout(() => this.drawOver(), last - now + 5);
  }

  #frame(pen, block, colour, width, out) {
    if (block < this.from || block >= this.to) return;
    const [x, y] = this.#corner(block);
    const side = this.size - gapOf(this.size) - 2 * out;
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    pen.strokeRect(x + out, y + out, side, side);
  }

  /** The ring of the picked block. Small cells are ringed at a distance: the ring is what is seen of them. */
  #ring(pen) {
    const out = this.size > 8 ? 0 : -2.5;
    this.#frame(pen, this.picked, this.colours.surface, 5, out);
    this.#frame(pen, this.picked, this.colours.accent, 2, out);
  }

  /** What is drawn, for people who read and for tests. */
  #tell() {
    const { free, cached, active, shared } = this.model.totals;
    const told = { free, cached, active, shared, seq: this.model.seq };
    for (const [name, value] of Object.entries(told)) setAttr(this.element, `data-${name}`, String(value));
    setAttr(this.canvas, "aria-label", `${this.model.total} blocks: ${active} active, ${shared} of them shared, ${cached} cached, ${free} free`);
  }

  #hover({ offsetX, offsetY }) {
    const block = this.blockAt(offsetX, offsetY);
    this.tip.hidden = block === null;
    if (block === null) return;
    this.tip.textContent = this.wordsOf(block);
    this.pointer = [offsetX, offsetY];
    this.placeTip();
  }

  /** Put the tip below the pointer, as far to the right as it has room. */
  placeTip() {
    const [x, y] = this.pointer, room = this.element.clientWidth - this.tip.offsetWidth;
    this.tip.style.transform = `translate(${Math.max(0, Math.min(x - 12, room))}px, ${this.box.offsetTop + y + 16}px)`;
  }

  /** All that is known of a block: state, references, whose it is or was, tokens. */
  wordsOf(block) {
    const { model } = this;
    const state = model.state[block];
    const parts = [`Block ${block}`, STATE_NAMES[state]];
    if (state !== FREE) {
      if (model.pins.has(block)) parts.push("pinned");
      parts.push(plural(model.refs[block], "reference"), this.#holders(block, state));
      if (this.held.has(block)) parts.push(`${this.held.get(block)} of ${plural(model.blockSize, "token")}`);
      parts.push(this.shade?.wordsOf(block));
    }
    return parts.filter(Boolean).join(" · ");
  }

  #holders(block, state) {
    if (state >= ACTIVE) return this.model.ownersOf(block).map((owner) => this.titleOf(owner)).join(", ");
    const last = this.branch.has(block) ? this.branchOwner : this.model.lastOwner.get(block);
    return last === undefined || last === null ? "" : `of ${this.titleOf(last)}`;
  }
}
