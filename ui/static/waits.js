// What a reply without any text waits for, in words: the model, its turn, or the prompt that is being read.

import { h } from "./dom.js";
import { count } from "./format.js";

export class Waits {
  constructor() {
    this.element = h("span.waits", { "data-testid": "waits" });
    this.told = null;
  }

  /** What the engine says of the request: {state: "waiting", ahead}, {state: "pending"}, {state: "reading", done, total},
   * or null. */
  take(told) {
    this.told = told;
    this.draw();
  }

  draw() {
    const words = wordsOf(document.documentElement.dataset.engine, this.told);
    if (this.element.textContent !== words) this.element.textContent = words;
  }
}

export function wordsOf(engine, told) {
  if (engine !== "ready") return "Starts when the model is ready";
  if (told?.state === "waiting") return told.ahead ? `Waits for its turn, ${count(told.ahead)} before it` : "Waits for its turn";
  if (told?.state === "pending") return "Another chat reads the same beginning; this one takes it over";
  if (told?.total) return `Reading the prompt, ${count(told.done)} of ${count(told.total)} tokens`;
  return "Reading the prompt";
}
