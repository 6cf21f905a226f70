// The block table of the shown branch: one row a logical block. Only rows that changed touch the DOM.

import { h } from "./dom.js";
import { plural } from "./format.js";

export class BlockTable {
  /** `act.hover(blocks)` outlines blocks in the grid; `nameOf(owner)` says with whom a block is shared. */
  constructor(act, nameOf, hueOf) {
    Object.assign(this, { act, nameOf, hueOf });
    this.rows = [];
    this.summary = h("small");
    this.body = h("tbody");
    this.holder = h("div.table-scroll", { tabIndex: 0 }, h("table", { "data-testid": "kv-table" },
      h("thead", {}, h("tr", {}, ...["logical", "physical", "slots", "refs", "shared with"].map((name) =>
        h("th", { scope: "col" }, name)))), this.body));
    this.none = h("p.none", {}, "This chat has no blocks yet.");
    this.element = h("div.part", {}, h("h3", {}, "Block table of this branch", this.summary), this.none, this.holder);
    this.body.addEventListener("pointerover", (event) => {
      const physical = event.target.closest("tr")?.dataset.physical;
      this.act.hover(physical ? [Number(physical)] : []);
    });
    this.body.addEventListener("pointerleave", () => this.act.hover([]));
    this.take([], 0, true, 16, null);
  }

  /** Rows that changed, each at its logical place; `total` rows in all. `fresh` forgets what was there. */
  take(changed, total, fresh, blockSize, session) {
    this.blockSize = blockSize;
    if (fresh) this.rows = [];
    for (const row of changed) {
      this.rows[row.logical] = row;
      const element = this.#row(row, session);
      const there = this.body.children[row.logical];
      if (there) there.replaceWith(element);
      else this.body.append(element);
    }
    this.rows.length = total;
    while (this.body.childElementCount > total) this.body.lastElementChild.remove();
    this.holder.hidden = !total;
    this.none.hidden = Boolean(total);
    this.summary.textContent = total ? `${total} logical → ${this.physical.length} physical` : "";
  }

  get physical() {
    return this.rows.map((row) => row.physical).filter((block) => block !== null);
  }

  #row(row, session) {
    const missing = row.physical === null;
    const others = row.sharers.filter((owner) => owner !== session).map((owner) => this.nameOf(owner));
    const digits = String(row.physical ?? "").padStart(3, "0");
    return h(missing ? "tr.missing" : "tr", {
      "data-logical": String(row.logical), "data-physical": missing ? "" : String(row.physical),
      "data-count": String(row.count), "data-tokens": String(row.tokens),
    },
    h("td", {}, String(row.logical)),
    h("td", {}, missing ? "–" : digits),
    h("td", {}, this.#fill(row, session)),
    h("td", {}, missing ? "–" : String(row.count)),
    h("td.with", { title: others.join(", ") }, missing ? "not in the cache" : others.length > 1
      ? plural(others.length, "other chat") : others.join("")));
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
