// The first words of the block under the pointer, in the grid's tip: asked for when the pointer rests, and kept.

import { h } from "./dom.js";
import { FREE } from "./kvmodel.js";

const REST_MS = 350;
const KEPT = 200;

export class GridWords {
  /** `panel` has: grid, past, act.call(op, args). */
  constructor(panel) {
    this.panel = panel;
    this.known = new Map();
    this.timer = 0;
    this.block = null;
    const { canvas } = panel.grid;
    canvas.addEventListener("pointermove", (event) => this.#point(event));
    canvas.addEventListener("pointerleave", () => this.#leave());
  }

  /** These blocks may hold something else now. */
  touched(blocks) {
    for (const block of blocks) this.known.delete(block);
  }

  clear() {
    this.known.clear();
  }

  #leave() {
    clearTimeout(this.timer);
    this.block = null;
  }

  #point({ offsetX, offsetY }) {
    const { grid, past } = this.panel;
    const block = past === null ? grid.blockAt(offsetX, offsetY) : null;
    if (block === this.block) return this.#show();
    this.#leave();
    this.block = block;
    if (block === null || grid.model.state[block] === FREE) return;
    if (this.known.has(block)) return this.#show();
    this.timer = setTimeout(() => this.#ask(block), REST_MS);
  }

  async #ask(block) {
    const words = await this.panel.act.call("kv_words", { block }).catch(() => "");
    this.known.set(block, words);
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value);
    this.#show();
  }

  #show() {
    const words = this.known.get(this.block);
    const { grid, grid: { tip } } = this.panel;
    if (!words?.trim() || tip.hidden || tip.querySelector(".words")) return;
    tip.append(h("span.words", {}, `“${words.replace(/\s+/g, " ").trim()}”`));
    grid.placeTip();
  }
}
