// What a model thought before its answer: a block above it that folds, open while nothing else is there to read.
// What the reader has opened or closed stays so in this tab, also when it is loaded again.

import { Blocks } from "./blocks.js";
import { h } from "./dom.js";

const KEPT = "pagedchat.thinking";
const MOST_KEPT = 200;

export class Thinking {
  /** `id` is the message's. */
  constructor(id) {
    this.id = id;
    this.blocks = new Blocks();
    this.words = h("span");
    this.summary = h("summary", { onclick: () => this.#choose(!this.element.open) }, this.words);
    this.element = h("details.thinking", { "data-testid": "thinking" }, this.summary, this.blocks.element);
    const kept = read().get(id);
    this.chosen = kept !== undefined;
    if (this.chosen) this.element.open = kept;
  }

  #choose(open) {
    this.chosen = true;
    const kept = read();
    kept.delete(this.id);
    kept.set(this.id, open);
    try {
      sessionStorage.setItem(KEPT, JSON.stringify([...kept].slice(-MOST_KEPT)));
    } catch { /* no room, or none allowed: it holds until the page is loaded again */ }
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

function read() {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
  } catch {
    return new Map();
  }
}
