// The sections of the settings: a list at the side and the chosen one beside it; on a phone the list leads to them.

import { h, icon } from "./dom.js";

const narrow = matchMedia("(max-width: 720px)");

export class SettingsNav {
  /** `sections` are {id, title, icon, lead, element} in order; `chosen(id)` is told which one is shown. */
  constructor(root, sections, chosen) {
    this.root = root;
    this.sections = new Map(sections.map((one) => [one.id, one]));
    this.chosen = chosen;
    this.buttons = new Map(sections.map(({ id, title, icon: name }) => [id, h("button", {
      type: "button", "data-section": id, onclick: () => this.show(id, { page: true, focus: true }),
    }, icon(name), h("span", {}, title), h("i.set-go", { "aria-hidden": "true" }, icon("right", 14)))]));
    this.nav = root.querySelector(".set-nav");
    this.nav.replaceChildren(...this.buttons.values());
    this.nav.addEventListener("keydown", (event) => this.#step(event));
    this.back = root.querySelector(".set-back");
    this.back.append(icon("left"));
    this.back.addEventListener("click", () => this.list(true));
    narrow.addEventListener("change", () => this.#arrange());
  }

  /** Show a section; on a phone as a `page`, else behind the list. With `focus` it is read from its heading on. */
  show(id, { page = true, focus = false } = {}) {
    this.current = this.sections.has(id) ? id : [...this.sections.keys()][0];
    this.listed = !page;
    for (const [name, { element }] of this.sections) element.hidden = name !== this.current;
    this.root.dataset.section = this.current;
    this.#arrange();
    this.chosen(this.current);
    if (focus) this.title.focus({ preventScroll: true });
  }

  /** On a phone: the list of sections. */
  list(focus = false) {
    this.listed = true;
    this.#arrange();
    if (focus) this.buttons.get(this.current).focus();
  }

  /** Whether Escape has a list to go back to. */
  get onPage() {
    return narrow.matches && !this.listed;
  }

  get title() {
    return this.root.querySelector("#pc-set-title");
  }

  #arrange() {
    const apart = narrow.matches;
    this.root.dataset.view = !apart ? "both" : this.listed ? "list" : "page";
    this.back.hidden = !this.onPage;
    this.title.textContent = apart && this.listed ? "Settings" : this.sections.get(this.current).title;
    for (const [id, button] of this.buttons) {
      if (id === this.current) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
  }

  #step(event) {
    const all = [...this.buttons.values()];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || !all[to]) return;
    event.preventDefault();
    all[to].focus();
  }
}
