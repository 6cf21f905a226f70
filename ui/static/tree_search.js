// The search field of the tree: what is typed is looked for in all branches; Enter and the arrows go from match to match.

import { debounced, h, icon, iconButton } from "./dom.js";
import { count } from "./format.js";

const PAUSE_MS = 150;

export class TreeSearch {
  /** `act` has: find(words) -> promise of ids, found(ids, words), step(by) -> number of the match, leave(), into(). */
  constructor(act) {
    this.act = act;
    this.field = h("input", {
      type: "search", placeholder: "Find in all branches", "aria-label": "Find in all branches", autocomplete: "off",
      spellcheck: "false", "data-testid": "tree-search", oninput: () => this.#typed(), onkeydown: (event) => this.#key(event),
    });
    this.said = h("span.said", { role: "status", "data-testid": "tree-found" });
    this.steps = h("span.steps", { hidden: true },
      iconButton("up", "Previous match", () => this.step(-1)), iconButton("down", "Next match", () => this.step(1)));
    this.element = h("div.tree-search", { role: "search", "aria-label": "Branches" }, icon("search", 15), this.field, this.said, this.steps);
    this.ask = debounced(PAUSE_MS, () => this.again());
  }

  get words() {
    return this.field.value.trim();
  }

  clear() {
    this.field.value = "";
    this.#typed();
  }

  step(by) {
    this.#say(this.act.step(by));
  }

  /** Look again: the chat has changed. */
  async again() {
    const { words } = this;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    if (!words) return;
    try {
      const ids = await this.act.find(words);
      if (turn !== this.turn) return;
      const fresh = this.last !== words;
      this.last = words;
      this.total = this.act.found(ids, words);
      this.#say(fresh && this.total ? this.act.step(0) : this.number);
    } catch (error) {
      if (turn === this.turn) this.said.textContent = error.message;
    }
  }

  #typed() {
    this.ask.cancel();
    this.turn = (this.turn ?? 0) + 1;
    if (this.words) return this.ask();
    this.last = null;
    this.total = 0;
    this.act.found([], "");
    return this.#say(0);
  }

  #say(number) {
    this.number = number;
    this.steps.hidden = !this.total;
    this.said.textContent = !this.words ? "" : this.total ? `${count(number || 1)} of ${count(this.total)}` : "none";
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Escape" && this.field.value) this.clear();
    else if (event.key === "Escape") this.act.leave();
    else if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown") this.act.into();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
