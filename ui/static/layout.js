// Which columns are on the screen. On a wide screen they stand side by side; on a narrow one they slide over the chat.

import { byId } from "./dom.js";

const KEY = "pagedchat.layout";
const narrow = matchMedia("(max-width: 820px)");
const middle = matchMedia("(max-width: 1180px)");
const roomy = matchMedia("(min-width: 1640px)"); // for the tree of a chat beside the KV panel

export class Layout {
  /** `act.panel(open)` is told whether the KV panel is on the screen; `act.closeTree()` gives it the tree's place. */
  constructor(act) {
    this.act = act;
    this.root = byId("pc");
    this.scrim = byId("pc-scrim");
    this.wide = { sidebar: true, panel: true, ...read() };
    this.drawer = null;
    this.tree = false;
    this.scrim.addEventListener("click", () => this.closeDrawers());
  }

  start() {
    narrow.addEventListener("change", () => this.draw());
    middle.addEventListener("change", () => this.draw());
    roomy.addEventListener("change", () => this.draw());
    this.draw();
  }

  showSidebar() {
    if (this.root.dataset.sidebar !== "open") this.toggleSidebar();
  }

  toggleSidebar() {
    if (narrow.matches) this.drawer = this.drawer === "sidebar" ? null : "sidebar";
    else this.#flip("sidebar");
    this.draw();
  }

  /** Returns whether it had been closed. */
  showPanel() {
    if (this.root.dataset.panel === "open") return false;
    this.togglePanel();
    return true;
  }

  togglePanel() {
    if (middle.matches) this.drawer = this.drawer === "panel" ? null : "panel";
    else this.#flipPanel();
    this.draw();
  }

  /** The tree of the chat comes or goes; without much room it takes the panel's place. */
  setTree(open) {
    this.tree = open;
    this.draw();
  }

  get #covered() {
    return this.tree && this.wide.panel && !middle.matches && !roomy.matches;
  }

  /** Returns whether one was open. */
  closeDrawers() {
    if (!this.drawer) return false;
    this.drawer = null;
    this.draw();
    return true;
  }

  draw() {
    const sidebar = narrow.matches ? this.drawer === "sidebar" : this.wide.sidebar;
    const panel = middle.matches ? this.drawer === "panel" : this.wide.panel && !this.#covered;
    this.root.dataset.tree = this.tree ? "open" : "closed";
    this.root.dataset.sidebar = sidebar ? "open" : "closed";
    this.root.dataset.panel = panel ? "open" : "closed";
    this.scrim.hidden = !this.drawer;
    byId("pc-side").inert = !sidebar;
    byId("pc-kv").inert = !panel;
    byId("pc-tree-tool")?.setAttribute("aria-expanded", String(this.tree));
    byId("pc-blocks")?.setAttribute("aria-expanded", String(panel));
    this.act.panel(panel);
  }

  /** The panel and the tree need the same place: the one that was asked for last has it. */
  #flipPanel() {
    if (!this.#covered) this.#flip("panel");
    if (this.#covered) this.act.closeTree();
  }

  #flip(name) {
    this.wide[name] = !this.wide[name];
    try { localStorage.setItem(KEY, JSON.stringify(this.wide)); } catch { /* storage is off */ }
  }
}

function read() {
  try { return JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { return {}; }
}
