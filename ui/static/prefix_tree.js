// The tree of prefixes: the block tables of all branches of the chat as one tree of runs of blocks. A run that several
// branches share stands once, with what each of them goes on with below it.

import { h, icon, place, throttled } from "./dom.js";
import { count, plural } from "./format.js";
import { PrefixKeys } from "./prefix_keys.js";
import { prefixBar } from "./prefix_bar.js";
import { above, costOf, facts, held, isFork, labelOf, sharedBy } from "./prefix_words.js";

const PAUSE_MS = 1500;
const COST_SHARE = 10; // the tree is asked for again after so many times what the last one took

export class PrefixTree {
  /** `act` has: call(op, args), session(), hueOf(owner), nameOf(owner), awake(), stamp(), mark(blocks) in passing,
   * choose(blocks), pick(block), goTo(message). */
  constructor(act, whyElement) {
    this.act = act;
    this.tree = null;
    this.rows = [];
    this.folded = new Set(); // keys of runs whose branches are not shown
    this.chosen = null; // key of a run
    this.picked = null;
    this.summary = h("small");
    this.none = h("p.none", {}, "This chat has no blocks yet.");
    this.list = h("div.prefix-rows", { role: "tree", "aria-label": "Prefixes of this chat", "data-testid": "kv-prefix-tree" });
    this.left = h("p.none", { hidden: true });
    this.facts = h("dl.prefix-facts", { "data-testid": "kv-prefix-facts" });
    this.head = h("span");
    this.go = h("button.link", { type: "button", hidden: true, onclick: () => this.#goTo() }, "Go to message");
    this.element = h("div.part", {}, h("p.none.not-now", {}, "The tree of prefixes is known of now only."),
      h("h3", {}, "What the branches share", this.summary), this.none, this.list, this.left,
      h("div.prefix-head", {}, this.head, this.go), this.facts, whyElement);
    this.keys = new PrefixKeys(this);
    this.later = throttled(PAUSE_MS, () => this.#ask());
    this.list.addEventListener("click", (event) => this.#click(event));
    this.list.addEventListener("pointerover", (event) => this.#hover(event.target.closest("[data-key]")?.dataset.key));
    this.list.addEventListener("pointerleave", () => this.#hover(null));
    this.asked = null;
    this.ready = 0; // when it may be asked for again
  }

  /** The tab is shown or hidden. */
  shown(on) {
    if (on) this.changed();
    else this.act.mark([]);
  }

  /** Something about the branch or its blocks may have changed. */
  changed() {
    if (this.tree && this.tree.session !== this.act.session()) this.#leave();
    if (this.act.awake() && this.act.stamp() !== this.asked) this.later();
  }

  /** Another chat is shown: its tree is on its way. */
  #leave() {
    this.take(null);
    this.none.hidden = true;
    this.folded.clear();
  }

  async #ask() {
    const stamp = this.act.stamp();
    if (this.busy || !this.act.awake() || stamp === this.asked) return;
    if (performance.now() < this.ready) return this.later();
    this.busy = true;
    const begun = performance.now();
    const tree = await this.act.call("kv_tree").catch(() => undefined); // no engine: the next change asks again
    this.busy = false;
    this.ready = performance.now() + COST_SHARE * (performance.now() - begun);
    if (tree !== undefined && (tree?.session ?? null) === this.act.session()) this.take(tree);
    this.asked = stamp;
    this.changed();
  }

  take(tree) {
    this.tree = tree?.runs.length ? tree : null;
    for (const run of this.tree?.runs ?? []) run.key = `${tree.branches[run.branches[0]].end} ${run.first}`;
    const known = Boolean(this.run(this.chosen));
    if (!known) this.chosen = this.#usual()?.key ?? null;
    this.draw();
    if (!known) this.#reveal();
  }

  /** Bring the chosen run into view within the tree; the panel stays where it is. */
  #reveal() {
    const row = this.rows.find(({ run }) => run.key === this.chosen)?.element;
    if (row) this.list.scrollTop = Math.max(0, row.offsetTop - this.list.offsetTop + row.offsetHeight - this.list.clientHeight);
  }

  run(key) {
    return this.tree?.runs.find((one) => one.key === key);
  }

  /** What is told of before anything is chosen: the last fork of the shown branch. */
  #usual() {
    return this.tree?.runs.findLast((run) => run.shown);
  }

  /** The rows that no fold hides, each with its run and how deep it is. */
  #visible() {
    const { runs } = this.tree;
    const hidden = new Set();
    return runs.flatMap((run, at) => {
      if (run.parent !== null && (hidden.has(run.parent) || this.folded.has(runs[run.parent].key))) return hidden.add(at), [];
      return [{ run, level: above(this.tree, run).length + 1, forks: runs.some((one) => one.parent === at) }];
    });
  }

  draw() {
    const { tree } = this;
    this.none.hidden = Boolean(tree);
    this.list.hidden = this.facts.hidden = !tree;
    this.go.hidden = this.left.hidden = true;
    this.summary.textContent = tree ? this.#summary() : "";
    if (!tree) {
      this.head.textContent = "";
      return this.list.replaceChildren();
    }
    const focused = this.list.contains(document.activeElement);
    const before = new Map(this.rows.map((row) => [row.run.key, row]));
    this.rows = this.#visible().map((row) => ({ ...row, ...this.#element(row, before.get(row.run.key)) }));
    if (!this.rows.some(({ run }) => run.key === this.chosen)) this.chosen = this.#nearest(this.chosen);
    place(this.list, this.rows.map((row) => row.element));
    this.left.hidden = !tree.left_out;
    this.left.textContent = `${plural(tree.left_out, "older branch", "older branches")} not shown.`;
    this.#drawChosen();
    if (focused) this.keys.focus(this.chosen);
  }

  #nearest(key) {
    const run = this.run(key);
    const line = run ? above(this.tree, run).map((one) => one.key).reverse() : [];
    return line.find((one) => this.rows.some((row) => row.run.key === one)) ?? this.rows.at(-1)?.run.key ?? null;
  }

  #summary() {
    const { runs, branches } = this.tree;
    const blocks = new Set(runs.flatMap((run) => run.blocks.map((block, at) => block ?? `${run.key} ${at}`)));
    const alone = branches.reduce((sum, one) => sum + one.blocks, 0);
    this.summary.title = `The block tables of ${plural(branches.length, "branch", "branches")} have ${plural(alone, "row")}; what they share stands once: ${plural(blocks.size, "block")}`;
    return `${plural(branches.length, "branch", "branches")}: ${count(alone)} → ${plural(blocks.size, "block")}`;
  }

  #element({ run, level, forks }, before) {
    const stamp = JSON.stringify([run, level, forks, this.folded.has(run.key), this.tree.messages.length, this.act.hueOf(this.tree.session)]);
    if (before?.stamp === stamp) return { element: before.element, stamp };
    const open = forks ? String(!this.folded.has(run.key)) : null;
    const label = labelOf(this.tree, run), missing = run.blocks.length - held(run).length;
    const words = [plural(run.blocks.length, "block"), sharedBy(run), missing && `${count(missing)} not in the pool`];
    const cost = run.parent === null ? "" : costOf(run), kind = isFork(this.tree, run) ? "fork" : "cost";
    const element = h(`div.prefix${run.shown ? ".shown" : ""}${run.branches.length > 1 ? ".several" : ""}`, {
      role: "treeitem", "aria-level": String(level), "aria-expanded": open, "data-key": run.key, "data-blocks": run.blocks.join(" "),
      "data-branches": String(run.branches.length), style: `--level:${Math.min(level - 1, 8)};--c:var(--pc-own-${this.act.hueOf(this.tree.session)})`,
    }, h("span.fold", {}, forks ? icon("right", 12) : null), h("span.name", { title: label }, label),
      h("span.size", {}, words.filter(Boolean).join(" · ")), prefixBar(run), cost && h("span.cost", {}, `${kind}: ${cost}`),
      run.shown && h("span.unseen", {}, "shown branch"));
    return { element, stamp };
  }

  #drawChosen() {
    for (const { run, element } of this.rows) {
      element.setAttribute("aria-selected", String(run.key === this.chosen));
      element.tabIndex = run.key === this.chosen ? 0 : -1;
    }
    this.#drawPicked();
    const run = this.run(this.chosen);
    const told = run ? facts(this.tree, run, this.act.nameOf) : [];
    this.head.textContent = run ? labelOf(this.tree, run) : "";
    this.facts.replaceChildren(...told.flatMap(([term, words]) => [h("dt", {}, term), h("dd", {}, words)]));
    this.go.hidden = !run || !this.#messageOf(run);
  }

  /** The message to go to: the first that a run is named for. */
  #messageOf(run) {
    const places = [...run.messages.filter(([, named]) => named), ...run.messages];
    return places.map(([at]) => this.tree.messages[at].id).find(Boolean) ?? null;
  }

  #goTo() {
    const run = this.run(this.chosen);
    if (run) this.act.goTo(this.#messageOf(run));
  }

  /** Choose a run: its blocks are marked in the grid and told of. */
  choose(key, { focus = false } = {}) {
    const run = this.run(key);
    if (!run) return;
    this.chosen = key;
    this.act.mark(held(run));
    this.act.choose(held(run));
    this.#drawChosen();
    if (focus) this.keys.focus(key);
  }

  toggle(key, open) {
    if (this.folded.has(key) !== open) return;
    if (open) this.folded.delete(key);
    else this.folded.add(key);
    this.draw();
  }

  #hover(key) {
    const run = key === null ? null : this.run(key ?? this.chosen);
    this.act.mark(run ? held(run) : []);
  }

  #click(event) {
    const row = event.target.closest("[data-key]");
    if (!row) return;
    const { key } = row.dataset;
    if (row.ariaExpanded && event.target.closest(".fold")) this.toggle(key, this.folded.has(key));
    const cell = event.target.closest("[data-cells]");
    const block = cell && cellAt(cell, event.clientX);
    if (block !== null && block !== undefined) this.act.pick(block);
    this.choose(key, { focus: true });
  }

  /** Mark the run that has a physical block, and its place in it; null: none. */
  pick(block) {
    this.picked = block;
    if (this.tree) this.#drawPicked();
  }

  #drawPicked() {
    for (const { run, element } of this.rows) {
      const at = this.picked === null ? -1 : run.blocks.indexOf(this.picked);
      element.classList.toggle("picked", at >= 0);
      element.style.setProperty("--at", `${(100 * Math.max(0, at)) / run.blocks.length}%`);
      element.style.setProperty("--one", `${100 / run.blocks.length}%`);
    }
  }
}

/** The block of a bar under the pointer; null where none is in the pool. */
function cellAt(bar, x) {
  const blocks = bar.dataset.cells.split(" ");
  const { left, width } = bar.getBoundingClientRect();
  const told = blocks[Math.max(0, Math.min(blocks.length - 1, Math.floor(((x - left) / width) * blocks.length)))];
  return told ? Number(told) : null;
}
