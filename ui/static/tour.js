// The guided tour of the KV panel: a small box that stands beside the part it speaks of and pushes the rest down, so that
// it covers nothing, on a phone neither. The page can be used meanwhile.

import { byId, h, iconButton, setText } from "./dom.js";
import { STOPS } from "./tour_stops.js";

const KEY = "pagedchat.tour";
const GONE = { words: "The engine is not there at the moment. This stop tells its numbers once it is back.", facts: {} };

export class Tour {
  /** `page` has: panel, chat, turns, info, current, socket, layout, showSettings(section). */
  constructor(page) {
    this.page = page;
    this.at = null; // the number of the stop that is shown
    this.found = {}; // what the engine was asked, by name
    this.rates = {};
    this.busy = null;
    page.socket.on("rates", ({ rates }) => { this.rates = rates; });
    const start = { words: "Guided tour", icon: "info", testid: "kv-tour", run: () => this.start() };
    page.panel.menu.lead(start);
    page.panel.onDraw(() => this.draw());
    this.offer = h("button.link.tour-offer", { type: "button", "data-testid": "tour-offer", hidden: seen(), onclick: () => this.start() }, "Take the tour");
    page.panel.menu.button.before(this.offer);
    this.#build();
  }

  #build() {
    this.title = h("h3", { id: "pc-tour-title" });
    this.place = h("small");
    this.words = h("p", { id: "pc-tour-words", "data-testid": "tour-words", "aria-live": "polite" });
    this.note = h("p.tour-note");
    this.ask = h("button.quiet", { type: "button", "data-testid": "tour-ask", onclick: () => this.#measure() });
    this.setting = h("button.link", { type: "button", "data-testid": "tour-setting", onclick: () => this.page.showSettings("model") }, "Show the setting");
    this.back = h("button.quiet", { type: "button", "data-testid": "tour-back", onclick: () => this.go(this.at - 1, this.back) }, "Back");
    this.next = h("button.primary", { type: "button", "data-testid": "tour-next", onclick: () => this.#forward() }, "Next");
    this.element = h("div.tour", {
      role: "dialog", "aria-labelledby": "pc-tour-title", "aria-describedby": "pc-tour-words", "data-testid": "tour",
      onkeydown: (event) => this.#key(event),
    },
      h("div.tour-head", {}, this.title, this.place, iconButton("close", "End the tour", () => this.end())),
      this.words, this.note, h("div.tour-row", {}, this.ask, this.setting), h("div.tour-row.tour-on", {}, this.back, this.next));
  }

  /** The message after which the next one would go. */
  get parent() {
    return this.page.chat.branch.id ?? this.page.chat.ids.at(-1) ?? null;
  }

  /** Tokens a second of all replies that run. */
  get rateNow() {
    return this.page.panel.stats.running ? Object.values(this.rates).reduce((sum, one) => sum + one.rate, 0) : 0;
  }

  start() {
    this.page.panel.replay.close(); // it speaks of now
    if (byId("pc").dataset.panel !== "open") this.page.layout.togglePanel();
    this.found = {};
    this.offer.hidden = true;
    this.go(0, this.next);
  }

  /** Show a stop; `focus` is the button that has the focus then. */
  go(at, focus) {
    this.at = at;
    const { tab, at: selector } = STOPS[at];
    this.key = null; // each stop asks for its own
    const { panel } = this.page;
    if (tab) panel.tabs.choose(tab);
    this.#pointAt(selector);
    this.draw();
    (focus.hidden || focus.disabled ? this.next : focus).focus({ preventScroll: true });
    this.element.scrollIntoView({ block: "center" }); // with the part that it speaks of
  }

  /** Another chat is shown, or the branch has changed: what was asked was about the one before. */
  #askAnew({ load }) {
    const { current, chat } = this.page;
    if (current !== this.current) this.found = {};
    this.current = current;
    const key = [current, this.parent, Boolean(chat.running)].join();
    if (key === this.key || (load && this.busy)) return; // one thing at a time
    this.key = key;
    if (load) this.#keep(load(this.page), this.at, key);
  }

  #pointAt(selector) {
    const panel = byId("pc-kv");
    panel.querySelector(".tour-target")?.classList.remove("tour-target");
    const found = panel.querySelector(selector);
    const target = selector === ".usage" ? found.parentElement : found;
    target.classList.add("tour-target");
    const above = selector === ".kv-parts"; // what grows stands below the box
    this.element.classList.toggle("above", above);
    target.insertAdjacentElement(above ? "beforebegin" : "afterend", this.element);
  }

  /** Keep what a question finds; what fails is said in its place. `key`: only while nothing else is shown than then. */
  async #keep(asked, at, key = null) {
    const late = () => key !== null && key !== this.key;
    try {
      const found = await asked;
      if (late()) return;
      Object.assign(this.found, found);
      this.problem = null;
    } catch (error) {
      if (late()) return;
      this.problem = { at, words: error.message };
    }
    this.draw();
  }

  async #measure() {
    const { ask } = this.shown;
    if (this.busy) return;
    this.busy = ask.waits;
    this.draw();
    await this.#keep(ask.run(this.page), this.at);
    this.busy = null;
    this.draw();
  }

  /** Wait until `holds()`, which is asked whenever the panel or the chat draws. */
  until(holds) {
    return new Promise((resolve) => {
      this.waiting = () => {
        if (!holds()) return;
        this.waiting = null;
        resolve();
      };
      this.waiting();
    });
  }

  draw() {
    this.waiting?.();
    if (this.at === null) return;
    const stop = STOPS[this.at];
    if (!this.page.panel.model.loaded) return;
    const gone = !this.page.panel.feed.live;
    if (gone) Object.assign(this, { key: null, problem: null }); // it is asked anew then
    else this.#askAnew(stop);
    const shown = (this.shown = gone ? GONE : stop.look(this.page, this.found));
    const last = this.at === STOPS.length - 1;
    setText(this.title, stop.title);
    setText(this.place, `${this.at + 1} of ${STOPS.length}`);
    setText(this.words, this.problem?.at === this.at ? this.problem.words : shown.words);
    setText(this.note, this.busy ?? shown.note ?? "");
    this.note.hidden = !this.note.textContent;
    this.ask.hidden = !shown.ask;
    if (shown.ask) setText(this.ask, shown.ask.words);
    this.ask.ariaDisabled = this.busy ? "true" : null;
    this.setting.hidden = !stop.setting;
    this.back.hidden = !this.at;
    setText(this.next, last ? "Done" : "Next");
    this.#tell(stop.id, shown.facts);
  }

  /** The numbers of the stop, for whoever wants to compare them with the engine's. */
  #tell(id, facts) {
    const { element } = this;
    for (const { name } of [...element.attributes]) {
      if (name.startsWith("data-fact-") && !(name.slice(10) in facts)) element.removeAttribute(name);
    }
    element.dataset.stop = id;
    for (const [name, value] of Object.entries(facts)) element.setAttribute(`data-fact-${name}`, String(value ?? ""));
  }

  #forward() {
    if (this.at === STOPS.length - 1) this.end();
    else this.go(this.at + 1, this.next);
  }

  #key(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    this.end();
  }

  /** The tour is over, or has been left. */
  end() {
    this.at = null;
    byId("pc-kv").querySelector(".tour-target")?.classList.remove("tour-target");
    const inside = this.element.contains(document.activeElement);
    this.element.remove();
    this.offer.hidden = true;
    remember();
    if (inside) this.page.panel.menu.button.focus({ preventScroll: true });
  }
}

function seen() {
  try { return localStorage.getItem(KEY) === "seen"; } catch { return true; }
}

function remember() {
  try { localStorage.setItem(KEY, "seen"); } catch { /* storage is off */ }
}
