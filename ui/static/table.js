// The block table of the shown branch: one row a logical block. Only rows that changed touch the DOM.
// A long chat has thousands of rows: they are boxes of one height, in groups that cost nothing while out of view.

import { framed, h, setAttr } from "./dom.js";
import { plural } from "./format.js";
import { TableKeys } from "./table_keys.js";

const ROW = 24; // pixels, as in panel.css
const AROUND = 20; // rows beyond what is in view
const GROUP = 64; // rows that are styled and laid out together, or not at all
const TOLD = ["logical", "physical", "count", "tokens"];
const BLANK = h("tr", { role: "row" }, h("td", { role: "gridcell" })); // a row without any cell is none

export class BlockTable {
  /** `act.hover(blocks)` outlines blocks in the grid, `act.pick(block)` picks one; `nameOf(owner)` says with whom a block is shared. */
  constructor(act, nameOf, hueOf) {
    Object.assign(this, { act, nameOf, hueOf });
    this.rows = [];
    this.elements = [];
    this.bare = new Set(); // rows whose cells are not there or say what was
    this.summary = h("small");
    this.groups = [];
    this.parts = [];
    this.body = h("table", { role: "grid", "aria-label": "Block table of this branch", "data-testid": "kv-table" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...["logical", "physical", "slots", "refs", "holds", "shared with"].map((name) =>
        h("th", { role: "columnheader", scope: "col" }, name)))));
    this.holder = h("div.table-scroll", {}, this.body);
    this.ask = framed(() => this.#draw());
    this.holder.addEventListener("scroll", this.ask, { passive: true });
    new ResizeObserver(this.ask).observe(this.holder);
    this.none = h("p.none", {}, "This chat has no blocks yet.");
    this.element = h("div.part", {}, h("h3", {}, "Block table of this branch", this.summary), this.none, this.holder);
    this.body.addEventListener("pointerover", (event) => {
      const physical = event.target.closest("tr")?.dataset.physical;
      this.act.hover(physical ? [Number(physical)] : []);
    });
    this.body.addEventListener("pointerleave", () => this.act.hover([]));
    this.body.addEventListener("click", (event) => {
      const physical = event.target.closest("tbody tr")?.dataset.physical;
      if (physical) this.act.pick(Number(physical));
    });
    this.picked = null;
    this.run = new Set();
    this.keys = new TableKeys(this);
    this.take([], 0, true, 16, null);
  }

  /** Mark the row of a physical block and bring it into view; null: none. */
  pick(block) {
    this.picked = block;
    const at = this.#markPicked();
    if (at >= 0) this.reveal(at);
  }

  /** Scroll to a row. */
  reveal(logical) {
    const top = logical * ROW, { scrollTop, clientHeight } = this.holder;
    const head = this.body.tHead.offsetHeight;
    if (top < scrollTop) this.holder.scrollTop = top;
    else if (top + ROW + head > scrollTop + clientHeight) this.holder.scrollTop = top + ROW + head - clientHeight;
  }

  /** Mark the rows of these physical blocks, as long as this chat is shown. */
  markRows(blocks) {
    this.run = new Set(blocks);
    this.#markRun();
  }

  #markRun() {
    if (!this.run.size && !this.runMarked) return;
    this.runMarked = this.run.size > 0;
    this.rows.forEach(({ physical }, at) => this.elements[at].classList.toggle("of-run", this.run.has(physical)));
  }

  #markPicked() {
    const at = this.picked === null ? -1 : this.rows.findIndex(({ physical }) => physical === this.picked);
    this.marked?.classList.remove("picked");
    this.marked = at < 0 ? null : this.elements[at];
    this.marked?.classList.add("picked");
    return at;
  }

  /** Runs of rows that changed (see kv_packing.py); `total` rows in all. `fresh` forgets what was there. */
  take(runs, total, fresh, blockSize, session) {
    if (session !== this.session) this.run = new Set();
    Object.assign(this, { blockSize, session });
    this.element.ariaBusy = "false";
    if (fresh) [this.rows, this.parts] = [[], []];
    for (const { span, physical, ...run } of runs) {
      for (let at = 0; at < span; at++) {
        const logical = run.logical + at;
        this.#put({ ...run, logical, physical: physical ? physical[at] : this.rows[logical].physical });
      }
    }
    this.#fit(total);
    this.#markPicked();
    this.#markRun();
    this.holder.hidden = !total;
    this.none.hidden = Boolean(total);
    this.summary.title = total ? `The tokens of this branch fill ${plural(total, "block")}; ${this.physical.length} of them are in the pool now` : "";
    this.summary.textContent = total ? `${total} logical → ${this.physical.length} physical` : "";
    this.ask();
  }

  /** What is there is of another branch; the rows of the shown one are on their way. */
  wait() {
    this.element.ariaBusy = "true";
    this.summary.textContent = "…";
  }

  /** Tokens that each physical block has of this branch. */
  get held() {
    return new Map(this.rows.filter(({ physical }) => physical !== null).map(({ physical, cached }) => [physical, cached]));
  }

  get physical() {
    return this.rows.map((row) => row.physical).filter((block) => block !== null);
  }

  /** Every row is there; its cells are made when it comes near the view. */
  #put(row) {
    this.rows[row.logical] = row;
    const element = (this.elements[row.logical] ??= this.#groupOf(row.logical).appendChild(BLANK.cloneNode(true)));
    const missing = row.physical === null;
    if (element.classList.contains("missing") !== missing) element.classList.toggle("missing", missing);
    for (const name of TOLD) setAttr(element, `data-${name}`, String(row[name] ?? ""));
    this.bare.add(row.logical);
  }

  #groupOf(logical) {
    const at = Math.floor(logical / GROUP);
    return (this.groups[at] ??= this.body.appendChild(h("tbody", { role: "rowgroup" })));
  }

  /** Let go of the rows from `total` on, and give each group its height. */
  #fit(total) {
    this.rows.length = total;
    for (const element of this.elements.splice(total)) element.remove();
    for (const group of this.groups.splice(Math.ceil(total / GROUP))) group.remove();
    for (const group of this.groups) {
      const height = `${group.childElementCount * ROW}px`;
      if (group.style.height !== height) group.style.height = height;
    }
  }

  /** Fill the rows in view and near it. */
  #draw() {
    const { scrollTop, clientHeight } = this.holder;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - AROUND);
    const last = Math.min(this.rows.length, Math.ceil((scrollTop + clientHeight) / ROW) + AROUND);
    for (let at = first; at < last; at++) {
      if (this.bare.delete(at)) this.elements[at].replaceChildren(...this.#cells(this.rows[at], this.session));
    }
  }

  #cells(row, session) {
    const missing = row.physical === null;
    const others = row.sharers.filter((owner) => owner !== session).map((owner) => this.nameOf(owner));
    const cell = (...inside) => h("td", { role: "gridcell" }, ...inside);
    const held = this.#partsOf(row).map(({ name }) => name).join(", ");
    return [
      cell(String(row.logical)),
      cell(missing ? "–" : String(row.physical).padStart(3, "0")),
      cell(this.#fill(row, session)),
      cell(missing ? "–" : String(row.count)),
      h("td.holds", { role: "gridcell", title: held }, held),
      h("td.with", { role: "gridcell", title: others.join(", ") }, missing ? "not cached" : others.length > 1
        ? plural(others.length, "other chat") : others.join("")),
    ];
  }

  /** Which messages the rows hold: [{name, first, end}] in tokens; rows before `from` are told already. */
  setParts(parts, from = 0) {
    this.parts = parts;
    for (let at = from; at < this.rows.length; at++) this.bare.add(at);
    this.ask();
  }

  #partsOf({ logical, tokens }) {
    const first = logical * this.blockSize, end = first + tokens;
    let [low, high] = [0, this.parts.length];
    while (low < high) { // the first part that ends behind the row's beginning
      const middle = (low + high) >> 1;
      if (this.parts[middle].end <= first) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let at = low; at < this.parts.length && this.parts[at].first < end; at++) found.push(this.parts[at]);
    return found;
  }

  /** Slots as ticks: filled as far as KV is there. */
  #fill(row, session) {
    const shown = Math.min(this.blockSize, 16);
    const scale = shown / this.blockSize;
    const held = Math.round((row.physical === null ? 0 : row.cached) * scale);
    const wanted = Math.round(row.tokens * scale);
    const hue = `var(--pc-own-${this.hueOf(session)})`;
    return h(row.count > 0 ? "span.fill" : "span.fill.cached", { style: `--c:${hue};--n:${shown};--held:${held};--wanted:${wanted}`,
      title: `${row.cached} of ${row.tokens} tokens held` });
  }
}
