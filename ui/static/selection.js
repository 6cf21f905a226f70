// Several chats of the list at once: which are chosen, and what can be done with all of them.

import { h, iconButton } from "./dom.js";
import { count } from "./format.js";
import { openMenu } from "./menu.js";

export class Selection {
  /** `act` has: many(ids) -> the choices of a menu and the actions by name, redraw(), order() -> ids as the list shows them. */
  constructor(act) {
    this.act = act;
    this.ids = new Set();
    this.anchor = null;
    this.words = h("b", { role: "status" });
    this.element = h("div.chosen", { role: "group", "aria-label": "Chosen chats", "data-testid": "chosen", hidden: true,
      onkeydown: (event) => { if (event.key === "Escape") { event.stopPropagation(); this.clear(); } } },
    this.words,
    iconButton("archive", "Archive the chosen chats", () => this.#do("archive"), { "data-testid": "archive-chosen" }),
    this.#menu("folder", "Move the chosen chats", "move", "move-chosen"),
    this.#menu("export", "Export the chosen chats", "export", "export-chosen"),
    iconButton("trash", "Delete the chosen chats", () => this.#do("remove"), { "data-testid": "delete-chosen" }),
    iconButton("close", "Choose none", () => this.clear()));
  }

  #menu(icon, label, name, testid) {
    const button = iconButton(icon, label, () => openMenu(button, this.act.many([...this.ids])[name](), { label }),
      { "data-testid": testid, "aria-haspopup": "menu" });
    return button;
  }

  async #do(name) {
    const ids = [...this.ids];
    this.clear();
    await this.act.many(ids)[name]();
  }

  has(id) {
    return this.ids.has(id);
  }

  /** Choose a chat, or take it out again. */
  toggle(id) {
    if (!this.ids.delete(id)) this.ids.add(id);
    this.anchor = id;
    this.#changed();
  }

  /** Choose all chats between the one chosen last and `id`. */
  extend(id) {
    const order = this.act.order();
    const [from, to] = [order.indexOf(this.anchor), order.indexOf(id)].sort((a, b) => a - b);
    if (from < 0) return this.toggle(id);
    for (const one of order.slice(from, to + 1)) this.ids.add(one);
    this.#changed();
  }

  /** Choose every chat that the list shows. */
  all() {
    for (const id of this.act.order()) this.ids.add(id);
    this.#changed();
  }

  clear() {
    if (!this.ids.size) return;
    this.ids.clear();
    this.anchor = null;
    this.#changed();
  }

  /** Chats that are gone are no longer chosen. */
  keep(known) {
    for (const id of this.ids) if (!known.has(id)) this.ids.delete(id);
    this.#draw();
  }

  #changed() {
    this.#draw();
    this.act.redraw();
  }

  #draw() {
    this.element.hidden = !this.ids.size;
    this.words.textContent = this.ids.size ? `${count(this.ids.size)} chosen` : "";
  }
}
