// What the colours of the grid tell: whose a block is, how old it is, or how often it was taken again. A row of choices above
// the grid, and below it a legend with numbers of the whole pool.

import { h, setAttr, setText } from "./dom.js";
import { count, plural, span } from "./format.js";
import { FREE } from "./kvmodel.js";

const MODES = { owner: "Owner", age: "Age", reuse: "Reuse" };
const TITLES = {
  owner: "Whose a block in use is; cached ones are grey, or pale in the colour of the shown chat",
  age: "How long ago a block was given out",
  reuse: "How often a block was taken again since it was given out",
};
const LEGENDS = { owner: "Who holds blocks", age: "Blocks by age", reuse: "Blocks by how often they were taken again" };
const STEPS = {
  age: { bounds: [10, 60, 600, 3600], words: ["under 10 s", "under 1 min", "under 10 min", "under 1 h", "1 h or more"] },
  reuse: { bounds: [1, 2, 4, 10], words: ["never", "once", "2 or 3", "4 to 9", "10 or more"] },
};
const MOST_OWNERS = 6;
const AGE_MS = 2_000; // time alone makes blocks older
const NOT_NOW = { age: "Ages are known of now only.", reuse: "Reuse is known of now only." };

/** 0 to 4: the step that a value belongs to. */
function stepOf(mode, value) {
  return STEPS[mode].bounds.filter((bound) => bound <= value).length;
}

export class GridModes {
  /** `panel` has: grid, shown, past, feed.following, hueOf(owner), titleOf(owner), redraw(), onDraw(listener); `ages`: BlockAges. */
  constructor(panel, ages) {
    Object.assign(this, { panel, ages });
    this.mode = "owner";
    this.buttons = new Map(Object.entries(MODES).map(([name, title]) => [name, h("button", {
      type: "button", role: "radio", title: TITLES[name], "data-testid": `kv-mode-${name}`, onclick: () => this.choose(name),
    }, title)]));
    const choices = h("div.grid-modes", { role: "radiogroup", "aria-label": "Colours tell" }, ...this.buttons.values());
    choices.addEventListener("keydown", (event) => this.#step(event));
    const { zoomOut, zoomIn, element } = panel.grid;
    this.tools = h("div.grid-tools", {}, h("span", { "aria-hidden": "true" }, "Colours"), choices, h("span.grid-zoom", { role: "group", "aria-label": "Size of the cells" }, zoomOut, zoomIn));
    this.legend = h("ul.grid-legend", { role: "list", "data-testid": "kv-mode-legend" });
    this.note = h("p.grid-note", { hidden: true, role: "status" });
    element.prepend(this.tools);
    element.append(this.note, this.legend);
    this.#mark();
    panel.onDraw(() => this.draw());
  }

  choose(mode, { focus = false } = {}) {
    this.mode = mode;
    this.#mark();
    if (focus) this.buttons.get(mode).focus();
    this.panel.redraw();
  }

  #mark() {
    for (const [name, button] of this.buttons) {
      button.setAttribute("aria-checked", String(name === this.mode));
      button.tabIndex = name === this.mode ? 0 : -1;
    }
    this.legend.setAttribute("aria-label", LEGENDS[this.mode]);
  }

  #step(event) {
    const names = [...this.buttons.keys()];
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.choose(names[(names.indexOf(this.mode) + step + names.length) % names.length], { focus: true });
  }

  /** After the grid has drawn what it knows: colours of another kind, and the legend. */
  draw() {
    const { panel, mode, ages } = this;
    if (mode !== "owner" && panel.past === null && panel.feed.following) this.#want();
    const steps = mode !== "owner" && panel.past === null && ages.loaded;
    const note = mode !== "owner" && panel.past !== null ? NOT_NOW[mode] : "";
    this.note.hidden = !note;
    setText(this.note, note);
    const key = steps ? `${mode} ${mode === "age" ? Math.floor(Date.now() / AGE_MS) : ""}` : "";
    if ((panel.grid.shade?.key ?? "") !== key) {
      panel.grid.shade = steps ? this.#shade(key) : null;
      panel.grid.paint();
    }
    this.#tell(note ? [] : steps ? this.#steps() : mode === "owner" ? this.#owners() : []);
    clearTimeout(this.timer);
    if (steps && mode === "age" && panel.feed.following) this.timer = setTimeout(() => panel.redraw(), AGE_MS);
  }

  async #want() {
    const came = await this.ages.want(this.panel.shown.total).catch(() => false);
    if (came) this.panel.redraw();
  }

  #valueOf(mode, block, now) {
    return mode === "age" ? this.ages.ageOf(block, now) : this.ages.reuses[block];
  }

  #shade(key) {
    const { mode } = this, now = Date.now() / 1e3; // it is drawn with until the next one is there
    return {
      key,
      colourOf: (block, colours) => (this.ages.loaded ? colours.ramp[stepOf(mode, this.#valueOf(mode, block, now))] : colours.ghost),
      wordsOf: (block) => (this.ages.loaded ? this.#words(block) : ""),
    };
  }

  #words(block) {
    const reuses = this.ages.reuses[block];
    return `${span(this.ages.ageOf(block))} old · ${reuses ? `taken again ${reuses === 1 ? "once" : plural(reuses, "time")}` : "never taken again"}`;
  }

  /** How many blocks that are not free belong to each step. */
  #steps() {
    const { shown } = this.panel, now = Date.now() / 1e3;
    const numbers = STEPS[this.mode].words.map(() => 0);
    for (let block = 0; block < shown.used; block++) {
      if (shown.state[block] !== FREE) numbers[stepOf(this.mode, this.#valueOf(this.mode, block, now))]++;
    }
    return STEPS[this.mode].words.map((words, at) => ({ colour: `var(--pc-ramp-${at})`, words, number: numbers[at] }));
  }

  /** Who holds most blocks. */
  #owners() {
    const { shown, hueOf, titleOf } = this.panel, numbers = new Map();
    for (const holders of shown.owners.values()) for (const owner of holders.keys()) numbers.set(owner, (numbers.get(owner) ?? 0) + 1);
    const rows = [...numbers].sort(([, one], [, other]) => other - one);
    const told = rows.slice(0, MOST_OWNERS).map(([owner, number]) => ({ colour: `var(--pc-own-${hueOf(owner)})`, words: titleOf(owner), number }));
    const more = rows.length - told.length;
    return more > 0 ? [...told, { words: `and ${count(more)} more`, number: null }] : told;
  }

  #tell(rows) {
    this.legend.hidden = !rows.length;
    while (this.legend.childElementCount > rows.length) this.legend.lastChild.remove();
    while (this.legend.childElementCount < rows.length) this.legend.append(h("li", {}, h("i", { "aria-hidden": "true" }), h("span"), h("b")));
    rows.forEach(({ colour, words, number }, at) => {
      const [swatch, name, value] = this.legend.children[at].children;
      swatch.hidden = !colour;
      swatch.style.setProperty("--c", colour ?? "");
      setText(name, words);
      setAttr(name, "title", words);
      setText(value, number === null ? "" : count(number));
    });
  }
}
