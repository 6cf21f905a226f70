// A long message of the reader's own is folded: what it says first is enough to know it by, and the reply stays near.

import { h } from "./dom.js";
import { markLong } from "./field.js";

const LONGEST = 1_800; // characters
const MOST_LINES = 24;

/** Fold `text`, the element of a message, if it is long; the button that unfolds it stands behind it. */
export class Fold {
  constructor(text) {
    this.text = text;
    this.open = false;
    this.button = h("button.unfold", { type: "button", "data-testid": "unfold", onclick: () => this.#turn() });
  }

  draw(words) {
    const lines = words.length > LONGEST ? MOST_LINES + 1 : (words.match(/\n/g)?.length ?? 0) + 1;
    const long = lines > MOST_LINES;
    markLong(this.text, words);
    this.text.classList.toggle("folded", long && !this.open);
    if (!long) return this.button.remove();
    this.button.textContent = this.open ? "Show less" : "Show all";
    this.button.setAttribute("aria-expanded", String(this.open));
    if (!this.button.isConnected) this.text.after(this.button);
  }

  #turn() {
    this.open = !this.open;
    const { text, button } = this;
    this.draw(text.textContent);
    if (!this.open) text.scrollIntoView({ block: "nearest" });
    button.focus({ preventScroll: true });
  }
}
