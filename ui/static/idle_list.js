// Blocks that are held long and reused little: what a smaller cache would give up first. Asked for when it is looked at.

import { h } from "./dom.js";
import { plural, span } from "./format.js";

const SHOWN = 20;

export class IdleList {
  /** `panel` has: act.call(op, args), titleOf(owner), past, pick(block), grid.mark(blocks). */
  constructor(panel) {
    this.panel = panel;
    this.again = h("button.link", { type: "button", "data-testid": "idle-again", onclick: () => this.ask() }, "Look again");
    this.none = h("p.none", {}, "Nothing is held in the cache that nobody uses.");
    this.list = h("ol.idle-list", { "data-testid": "idle-list" });
    this.element = h("section.idle", {}, h("h3", {}, "Held long, reused little", this.again), this.none, this.list);
    this.list.addEventListener("pointerleave", () => panel.grid.mark([]));
    this.#fill([]);
  }

  /** The list is on the screen now. */
  shown(on) {
    if (on) this.ask();
  }

  async ask() {
    const asked = this.asked = {};
    const rows = await this.panel.act.call("kv_idle", { count: SHOWN }).catch(() => null);
    if (asked === this.asked && rows) this.#fill(rows);
  }

  #fill(rows) {
    this.none.hidden = rows.length > 0;
    this.list.hidden = !rows.length;
    this.list.replaceChildren(...rows.map((row) => h("li", {}, this.#button(row))));
  }

  #button({ id, held_s: held, reuses, sessions, pinned }) {
    const { panel } = this;
    const whose = sessions.map((one) => panel.titleOf(one));
    return h("button", {
      type: "button", "data-block": String(id), onclick: () => panel.pick(id), onfocus: () => panel.grid.mark([id]),
      onblur: () => panel.grid.mark([]), onpointerenter: () => panel.grid.mark([id]),
    },
    h("b", {}, `Block ${id}`), h("span", {}, `held ${span(held)}`),
    h("span", {}, reuses ? `reused ${reuses === 1 ? "once" : plural(reuses, "time")}` : "never reused"),
    h("span.whose", { title: whose.join(", ") }, pinned ? "pinned" : whose.length > 1 ? plural(whose.length, "chat") : whose[0] ?? ""));
  }
}
