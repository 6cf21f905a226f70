// One stop of the Tab key for the whole list of chats. From there the arrows, Home and End go from row to row; → goes on
// within a row, and opens its menu.

const CONTROLS = "a, button";

export class ListFocus {
  /** `window` is the list's WindowList. `above()` takes the focus where ↑ leads out of the list; false if nothing is there. */
  constructor(window, above) {
    this.window = window;
    this.above = above;
    this.current = null; // the chat that is shown, as far as it is in the list
    window.dress = (row, element) => this.#dress(row, element);
    window.element.addEventListener("keydown", (event) => this.#key(event));
    window.element.addEventListener("focusin", ({ target }) => this.#make(target.closest("[data-row]")?.dataset.row));
  }

  /** Show other rows. Tab comes to `current` once that is another one, and where the last row is gone. A focus whose row
   * has gone goes to the one in its place. */
  set(rows, current) {
    const { window } = this;
    const held = document.activeElement?.closest?.("[data-row]");
    const at = held && window.canvas.contains(held) ? window.index.get(held.dataset.row) : undefined;
    const stops = rows.filter(isStop);
    const shown = stops.find(({ key }) => key === current);
    if ((shown && current !== this.current) || !stops.some(({ key }) => key === window.kept)) this.#make((shown ?? stops[0])?.key);
    if (shown) this.current = current; // else it may come later
    window.set(rows);
    if (at === undefined || window.index.has(held.dataset.row)) return;
    const place = Math.min(at, rows.length - 1);
    this.go(rows.slice(place).find(isStop) ?? rows.slice(0, place).findLast(isStop));
  }

  /** Focus a row; false if there is none. */
  go(row) {
    const element = row && this.window.reveal(row.key);
    element?.querySelector(CONTROLS)?.focus({ preventScroll: true });
    return Boolean(element);
  }

  first() {
    return this.go(this.window.rows.find(isStop));
  }

  #make(key) {
    const { window } = this;
    if (key === undefined || key === window.kept) return;
    this.#mark(window.kept, -1);
    window.kept = key;
    this.#mark(key, 0);
  }

  #mark(key, tabIndex) {
    const main = this.window.get(key)?.querySelector(CONTROLS);
    if (main) main.tabIndex = tabIndex;
  }

  #dress({ key }, element) {
    element.querySelectorAll(CONTROLS).forEach((one, at) => { one.tabIndex = at || key !== this.window.kept ? -1 : 0; });
  }

  #key(event) {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const element = event.target.closest("[data-row]");
    if (!element || event.target.matches("input")) return;
    if (this.#move(event, element.dataset.row) || this.#inRow(event, element)) event.preventDefault();
  }

  #move({ key, shiftKey }, from) {
    const { window } = this;
    if (shiftKey) return false;
    if (key === "Home") return this.first();
    if (key === "End") return this.go(window.rows.findLast(isStop));
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    return step ? this.go(window.next(from, step, isStop)) || (step < 0 && this.above()) || true : false;
  }

  #inRow({ key, shiftKey, target }, element) {
    const controls = [...element.querySelectorAll(CONTROLS)];
    const at = controls.indexOf(target);
    const menu = controls.find((one) => one.ariaHasPopup === "menu");
    const to = key === "ArrowRight" && !shiftKey ? controls[at + 1] : key === "ArrowLeft" && !shiftKey ? controls[at - 1] : null;
    if ((key === "ContextMenu" || (key === "F10" && shiftKey) || (to && to === menu)) && menu) menu.click();
    else to?.focus({ preventScroll: true });
    return Boolean(to) || key === "ContextMenu" || (key === "F10" && shiftKey);
  }
}

function isStop(row) {
  return !row.plain;
}
