// What a model thought before its answer: a block above it that folds, open while nothing else is there to read.

import { Blocks } from "./blocks.js";
import { h } from "./dom.js";

export class Thinking {
  constructor() {
    this.blocks = new Blocks();
    this.words = h("span");
    this.summary = h("summary", { onclick: () => { this.chosen = true; } }, this.words);
    this.element = h("details.thinking", { "data-testid": "thinking" }, this.summary, this.blocks.element);
    this.chosen = false;
  }

  get empty() {
    return !this.blocks.html.length;
  }

  /** `busy` while the model still thinks. Once the reader has opened or closed it, it stays that way. */
  draw(busy) {
    this.element.dataset.busy = String(busy);
    const words = busy ? "Thinking …" : "Thinking";
    if (this.words.textContent !== words) this.words.textContent = words;
    if (!this.chosen && this.element.open !== busy) this.element.open = busy;
    this.blocks.caret(busy && !this.empty);
  }
}
