// The last KV events in words.

import { h } from "./dom.js";
import { count, plural } from "./format.js";

const SHOWN = 12;

export class EventStrip {
  constructor(nameOf) {
    this.nameOf = nameOf;
    this.paused = false;
    this.pause = h("button.link", { type: "button", "aria-pressed": "false", onclick: () => this.#toggle() }, "Pause");
    this.list = h("ol.events");
    this.lines = new Map(); // each shown line with its event: names are those of now
    this.element = h("div.part", {}, h("h3", {}, "Events", this.pause), this.list);
    this.#clear((this.log = []));
  }

  show(log) {
    this.log = log;
    for (const [line, event] of this.lines) rename(line.lastChild, this.#words(event));
    if (this.paused) return;
    if (log !== this.drawn) this.#clear(log);
    const shown = log.slice(-SHOWN).reverse();
    const newest = shown[0]?.seq ?? null;
    if (newest === this.newest) return;
    const fresh = shown.filter((event) => this.newest === null || event.seq > this.newest);
    this.newest = newest;
    if (fresh.length === SHOWN || !this.list.querySelector(".seq")) {
      this.list.replaceChildren();
      this.lines.clear();
    }
    this.list.prepend(...fresh.map((event) => this.#line(event)));
    while (this.list.childElementCount > SHOWN) {
      this.lines.delete(this.list.lastChild);
      this.list.lastChild.remove();
    }
  }

  /** Begin again with another log. */
  #clear(log) {
    this.drawn = log;
    this.newest = null;
    this.lines.clear();
    this.list.replaceChildren(h("li.none", {}, "Nothing has happened since the page was opened."));
  }

  #toggle() {
    this.paused = !this.paused;
    this.pause.textContent = this.paused ? "Go on" : "Pause";
    this.pause.setAttribute("aria-pressed", String(this.paused));
    this.show(this.log);
  }

  #line(event) {
    const line = h(`li.${event.type}`, {}, h("span.seq", {}, count(event.seq)), h("b", {}, event.type), h("span", {}, this.#words(event)));
    this.lines.set(line, event);
    return line;
  }

  #words({ type, blocks, num_tokens: tokens, owner }) {
    const who = owner ? ` · ${this.nameOf(owner)}` : "";
    if (type === "copied") return `${blocks[0]} → ${blocks[1]}${tokens ? ` · ${plural(tokens, "token")}` : ""}${who}`;
    const what = blocks.length === 1 ? `block ${blocks[0]}` : plural(blocks.length, "block");
    const fill = type === "stored" && blocks.length === 1 && tokens ? ` · ${plural(tokens, "token")}` : "";
    return `${what}${fill}${who}`;
  }
}

function rename(place, words) {
  if (place.textContent !== words) place.textContent = words;
}
