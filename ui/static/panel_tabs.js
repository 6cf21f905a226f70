// Parts of the panel that share one place: a row of tabs, the chosen part below. Only the chosen one draws.

import { h } from "./dom.js";

export class PanelTabs {
  /** `parts` are {id, title, element, shown?(on)} in order; the first is shown until another is chosen. */
  constructor(parts, label) {
    this.parts = new Map(parts.map((part) => [part.id, part]));
    this.buttons = new Map(parts.map(({ id, title }) => [id, h("button", {
      type: "button", role: "tab", id: `pc-kv-tab-${id}`, "aria-controls": `pc-kv-${id}`, "data-testid": `kv-tab-${id}`,
      onclick: () => this.choose(id),
    }, title)]));
    this.list = h("div.kv-tabs", { role: "tablist", "aria-label": label }, ...this.buttons.values());
    this.list.addEventListener("keydown", (event) => this.#step(event));
    for (const { id, element } of parts) {
      element.id = `pc-kv-${id}`;
      element.setAttribute("role", "tabpanel");
      element.setAttribute("aria-labelledby", `pc-kv-tab-${id}`);
    }
    this.element = h("div.kv-parts", {}, this.list, ...parts.map(({ element }) => element));
    this.choose(parts[0].id);
  }

  choose(id, { focus = false } = {}) {
    const before = this.chosen;
    this.chosen = id;
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-selected", String(name === id));
      button.tabIndex = name === id ? 0 : -1;
      this.parts.get(name).element.hidden = name !== id;
    }
    if (focus) this.buttons.get(id).focus();
    if (before === id) return;
    this.parts.get(before)?.shown?.(false);
    this.parts.get(id).shown?.(true);
  }

  #step(event) {
    const ids = [...this.buttons.keys()];
    const at = ids.indexOf(this.chosen);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: ids.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(ids[(to + ids.length) % ids.length], { focus: true });
  }
}
