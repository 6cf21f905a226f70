// The keys of the outline: those of every tree, and a few for what can be done with a message.

import { lettersAreOn } from "./letters.js";

const PAGE = 12; // rows
const TYPING_MS = 700;

export class TreeKeys {
  /** `act` has: rows() -> rows, here() -> place of the current one, go(place), toggle(row), show(row), choose(row),
   * menu(row), remove(row), openAll(row), leave(), search(). `words(row)` is what a row begins with. */
  constructor(act, words) {
    this.act = act;
    this.words = words;
    this.typed = "";
    this.last = 0;
  }

  take(event) {
    if (event.isComposing || event.altKey) return;
    const held = event.ctrlKey || event.metaKey;
    if (held && event.key.toLowerCase() !== "f") return;
    if (!held && event.key.length === 1 && event.key !== " " && !lettersAreOn()) return;
    const rows = this.act.rows();
    const at = this.act.here();
    const row = rows[at];
    if (this.#move(event, rows, at) || (row && this.#do(event, rows, at, row)) || this.#letter(event, rows, at)) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  #move({ key }, rows, at) {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + PAGE, PageUp: at - PAGE }[key];
    if (to === undefined) return false;
    this.act.go(Math.max(0, Math.min(rows.length - 1, to)));
    return true;
  }

  #do(event, rows, at, row) {
    const { act } = this;
    const { key } = event;
    if (key === "ArrowRight" && row.fold) row.open ? act.go(at + 1) : act.toggle(row);
    else if (key === "ArrowLeft") {
      if (row.fold && row.open) act.toggle(row);
      else if (row.parent.key) act.go(rows.indexOf(row.parent));
    } else if (key === "Enter") act.show(row);
    else if (key === " ") row.fold ? act.toggle(row) : act.choose(row);
    else if (key === "*") act.openAll(row);
    else if (key === "ContextMenu" || (key === "F10" && event.shiftKey)) act.menu(row);
    else if (key === "Delete") act.remove(row);
    else return false;
    return true;
  }

  #letter({ key, ctrlKey, metaKey }, rows, at) {
    if (key === "Escape") return this.act.leave(), true;
    if (key === "/" || ctrlKey || metaKey) return this.act.search(), true;
    if (key.length !== 1 || key === " ") return false;
    const now = performance.now();
    this.typed = now - this.last > TYPING_MS ? key.toLowerCase() : this.typed + key.toLowerCase();
    this.last = now;
    const from = this.typed.length === 1 ? at + 1 : at;
    for (let step = 0; step < rows.length; step++) {
      const place = (from + step) % rows.length;
      if (!this.words(rows[place]).toLowerCase().startsWith(this.typed)) continue;
      this.act.go(place);
      break;
    }
    return true;
  }
}
