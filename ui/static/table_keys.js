// The block table by keyboard: one stop of the Tab key; arrows move, Enter picks, Escape lets go.

const PAGE = 8; // rows

export class TableKeys {
  /** `table` has: body, rows, elements, reveal(logical), act.hover(blocks), act.pick(block). */
  constructor(table) {
    this.table = table;
    this.at = null;
    const { body } = table;
    body.tabIndex = 0;
    body.addEventListener("keydown", (event) => this.#key(event));
    body.addEventListener("focus", () => { if (body.matches(":focus-visible")) this.go(this.at ?? this.#picked ?? 0); });
    body.addEventListener("blur", () => this.#mark(null));
  }

  get #picked() {
    const at = this.table.rows.findIndex(({ physical }) => physical !== null && physical === this.table.picked);
    return at < 0 ? null : at;
  }

  /** Move to a row. */
  go(at) {
    const { table } = this;
    if (!table.rows.length) return;
    this.at = Math.max(0, Math.min(table.rows.length - 1, at));
    table.reveal(this.at);
    this.#mark(table.elements[this.at]);
    const { physical } = table.rows[this.at];
    table.act.hover(physical === null ? [] : [physical]);
  }

  #mark(element) {
    this.element?.classList.remove("at");
    this.element?.removeAttribute("id");
    this.element = element;
    const { body } = this.table;
    if (!element) return body.removeAttribute("aria-activedescendant");
    element.classList.add("at");
    element.id = "pc-kv-row";
    body.setAttribute("aria-activedescendant", element.id);
  }

  #key(event) {
    const { table } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || !table.rows.length) return;
    const at = Math.min(this.at ?? -1, table.rows.length - 1);
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + PAGE, PageUp: at - PAGE, Home: 0, End: table.rows.length - 1,
    }[event.key];
    if (to !== undefined) this.go(to);
    else if (event.key === "Enter" || event.key === " ") this.#pick(at);
    else if (event.key === "Escape" && table.picked !== null) table.act.pick(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #pick(at) {
    const physical = this.table.rows[at]?.physical;
    if (physical !== null && physical !== undefined) this.table.act.pick(physical);
  }
}
