// What the model held likely in the place of one token: a small list with bars, beside that token.

import { h } from "./dom.js";
import { percent } from "./format.js";
import { spoken, visible } from "./token_text.js";

const EDGE = 8; // pixels kept free at the window's edges

export class TokenChoices {
  /** `ask()` fetches {taken, alternatives, …}; `choose(token)` goes on with one; `closed()` is told when it is left. */
  constructor(anchor, piece, { ask, choose, closed }) {
    Object.assign(this, { anchor, piece, choose, closed });
    this.list = h("div.token-list", { role: "group", "aria-busy": "true", "aria-label": "Tokens in this place" }, h("p.hint", {}, "…"));
    this.element = h("div.token-box", {
      role: "dialog", "aria-label": `In place of ${spoken(piece)}`, "data-testid": "token-choices", tabIndex: -1,
      onkeydown: (event) => this.#key(event),
    }, this.#title(), this.list);
    anchor.closest("dialog").append(this.element);
    this.resized = () => (this.element.isConnected ? this.#place() : removeEventListener("resize", this.resized));
    addEventListener("resize", this.resized);
    this.#place();
    this.element.focus({ preventScroll: true });
    ask().then((found) => this.#fill(found), (error) => this.#fail(error));
  }

  #title() {
    const { index, count } = this.piece;
    const place = count > 1 ? `Tokens ${index + 1} to ${index + count}, one character; the first is chosen anew` : `Token ${index + 1}`;
    return h("p.token-title", {}, place);
  }

  #fill({ taken, alternatives }) {
    if (!this.element.isConnected) return;
    const shown = alternatives.some((one) => one.taken) ? alternatives : [...alternatives, taken];
    this.list.ariaBusy = "false";
    this.list.replaceChildren(...shown.map((one) => this.#choice(one)));
    this.#place();
    (this.list.querySelector(":not([data-taken])") ?? this.list.firstChild).focus({ preventScroll: true });
  }

  #fail(error) {
    this.list.ariaBusy = "false";
    this.list.replaceChildren(h("p.problem", { role: "alert" }, error.message));
    this.#place();
  }

  #choice(one) {
    const share = percent(one.probability);
    const said = `${spoken(one)}, ${share}${one.taken ? ", chosen" : ""}`;
    return h("button.token-choice", {
      type: "button", "aria-label": said, "data-testid": "token-choice", "data-taken": one.taken || null, "data-token": String(one.id),
      onclick: () => this.choose(one),
    }, h("code", { class: one.control ? "control" : "" }, visible(one.text)), h("u", { style: `--p:${100 * one.probability}%`, "aria-hidden": "true" }),
    h("span", {}, share), h("small", {}, one.taken ? (one.rank > 1 ? `chosen, rank ${one.rank}` : "chosen") : ""));
  }

  close(back = true) {
    if (!this.element.isConnected) return;
    this.element.remove();
    removeEventListener("resize", this.resized);
    this.closed(back);
  }

  #place() {
    const [box, from] = [this.element, this.anchor.getBoundingClientRect()];
    const left = Math.max(EDGE, Math.min(from.left, innerWidth - box.offsetWidth - EDGE));
    const below = from.bottom + 4;
    const top = below + box.offsetHeight + EDGE <= innerHeight ? below : Math.max(EDGE, from.top - 4 - box.offsetHeight);
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  }

  #key(event) {
    const items = [...this.list.querySelectorAll("button")];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % items.length, ArrowUp: (at - 1 + items.length) % items.length, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.close();
    else if (to !== undefined && items.length) items[to].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
