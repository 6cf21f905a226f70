// The tree of the shown chat beside it: an outline of all its branches, a map of that, search, and what can be done.

import { ACTIONS } from "./action_names.js";
import { byId, h, icon, iconButton, throttled } from "./dom.js";
import { count, plural, rate } from "./format.js";
import { openMenu } from "./menu.js";
import { complain } from "./toasts.js";
import { TreeKeys } from "./tree_keys.js";
import { TreeList, below } from "./tree_list.js";
import { TreeMap } from "./tree_map.js";
import { TreeModel } from "./tree_model.js";
import { foldWords, rowElement, rowId, rowStamp } from "./tree_row.js";
import { TreeRows } from "./tree_rows.js";
import { TreeSearch } from "./tree_search.js";

const NEWS_MS = 100; // between two redraws for what comes from the server
const MOST_CHOSEN = 4;
const BEGIN = 120; // characters of a running reply
const HINT = "Enter shows a message in the chat, Space chooses it for a comparison, Delete takes it away with all that follows, " +
  "the star unfolds all folds of its level, a slash goes to the search, Shift F10 opens its menu.";
const FILTERS = [["all", "All"], ["branches", "Branch points"], ["questions", "My questions"]];
const narrow = matchMedia("(max-width: 820px)");

export class TreePane {
  /** `act` has: call(op, fields), current() -> id of the shown chat, head() -> id of its last message, show(id) -> promise,
   * running(id) -> text of a reply, choices(message) -> its menu, branchFrom(id), compare(ids, options),
   * opened(open). */
  constructor(act) {
    this.act = act;
    this.isOpen = false;
    this.folds = new TreeRows();
    this.model = null;
    this.chosen = [];
    this.found = new Set();
    this.places = [];
    this.words = "";
    this.rates = new Map();
    this.#build();
    this.news = throttled(NEWS_MS, () => this.#arrange());
  }

  #build() {
    this.search = new TreeSearch({
      find: (words) => this.act.call("outline_find", { session: this.loaded, query: words }),
      found: (ids, words) => this.#found(ids, words), step: (by) => this.#step(by),
      leave: () => this.close(), into: () => this.scroller.focus(),
    });
    this.facts = h("small", { "data-testid": "tree-facts" });
    this.none = h("p.none", {}, "The messages of this chat and their other versions will be listed here.");
    this.scroller = h("div.tree-list", {
      role: "tree", tabIndex: 0, "aria-label": "Messages of all branches", "aria-multiselectable": "true", "aria-describedby": "pc-tree-hint",
      onkeydown: (event) => this.keys.take(event), onfocus: () => this.#focused(),
      oncontextmenu: (event) => this.#context(event),
    });
    this.map = new TreeMap({
      view: () => this.list.view(this.model?.size ?? 0), scrollTo: (place) => this.list.center(place),
      jump: (place) => this.#reveal(this.model?.order[place]), matches: () => this.places,
    });
    this.foot = h("div.tree-foot", { hidden: true, "data-testid": "tree-chosen" });
    this.element = h("section.tree", {
      id: "pc-tree", "aria-label": "Tree of this chat", "data-testid": "tree", hidden: true, onkeydown: (event) => this.#key(event),
    },
      h("div.tree-head", {}, h("h2", {}, "Tree"), this.facts, iconButton("close", "Close the tree", () => this.close())),
      this.search.element, this.#filters(), h("p.unseen", { id: "pc-tree-hint" }, HINT),
      h("div.tree-body", {}, this.scroller, this.map.element, this.none), this.foot);
    byId("pc-kv").before(this.element);
    this.list = new TreeList(this.scroller, {
      stamp: (row) => rowStamp(row, this.#look(row)), make: (row) => rowElement(row, this.#look(row), this.rowActions),
      moved: () => this.map.draw(), resized: () => this.#draw(),
    });
    this.rowActions = { show: (row) => this.#show(row), menu: (row, button) => this.#menu(row, button) };
    this.keys = new TreeKeys({
      rows: () => this.list.rows, here: () => this.list.place, go: (at) => this.list.goTo(this.list.rows[at]), toggle: (row) => this.#toggle(row),
      show: (row) => this.#show(row), choose: ({ node }) => this.choose(node.id), menu: (row) => this.#menu(row),
      remove: (row) => this.#remove(row), openAll: (row) => this.#openAll(row), leave: () => this.close(),
      search: () => this.search.field.focus(),
    }, (row) => (row.fold ? foldWords(row) : row.node.text));
  }

  #filters() {
    const choose = (name) => {
      this.folds.filter = name;
      for (const one of group.children) one.setAttribute("aria-pressed", String(one.value === name));
      this.#draw();
      this.list.goTo(this.list.of(this.model?.nodes.get(this.list.here)) ?? this.list.rows[0]);
    };
    const group = h("span.choice", { role: "group", "aria-label": "Show" }, ...FILTERS.map(([name, label]) => h("button", {
      type: "button", value: name, "aria-pressed": String(name === "all"), onclick: () => choose(name),
    }, label)));
    const all = (unfold) => {
      if (!this.model) return;
      this.folds[unfold ? "unfoldAll" : "foldAll"]();
      this.#draw();
    };
    return h("div.tree-tools", {}, group,
      h("span.steps", {}, iconButton("unfold", "Unfold all", () => all(true)), iconButton("fold", "Fold all", () => all(false))));
  }

  // -- open and shut ------------------------------------------------------------------------------------------------

  show() {
    this.isOpen = true;
    this.element.hidden = false;
    this.act.opened(true);
    this.back ??= document.activeElement;
    this.scroller.focus({ preventScroll: true });
    return this.#load();
  }

  close() {
    if (!this.isOpen) return;
    const inside = this.element.contains(document.activeElement);
    this.isOpen = false;
    this.element.hidden = true;
    this.model = null;
    this.#draw();
    this.act.opened(false);
    this.act.call("outline", { session: null }).catch(() => {});
    if (inside && this.back?.isConnected) this.back.focus({ preventScroll: true });
    this.back = null;
  }

  #key(event) {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    this.close();
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.show();
  }

  // -- what the server tells ----------------------------------------------------------------------------------------

  listen(socket) {
    socket.on("nodes", ({ session, nodes }) => this.#takeNodes(session, nodes));
    socket.on("branch", ({ session_id: session }) => { if (session === this.loaded) this.stale(); });
    socket.on("rates", ({ rates }) => this.#takeRates(rates));
    socket.on("lost", () => { this.lost = true; });
  }

  /** What is known is no more to be relied on. */
  stale() {
    if (this.isOpen) this.#load();
  }

  /** The page shows another chat, or another branch of this one. */
  changed() {
    if (!this.isOpen) return;
    if (this.act.current() !== this.loaded || this.lost) this.#load();
    else if (this.model && this.act.head() !== this.model.head) {
      if (!this.model.setHead(this.act.head())) this.#load();
      else this.news();
    }
  }

  async #load() {
    const session = this.act.current();
    const fresh = session !== this.loaded;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.loaded = session;
    this.lost = false;
    if (fresh) this.#forget();
    if (session === null) return void this.act.call("outline", { session }).catch(() => {});
    try {
      const outline = await this.act.call("outline", { session });
      if (turn !== this.turn || !this.isOpen) return;
      const opened = !this.model;
      this.model = new TreeModel(outline);
      this.#draw();
      if (opened) this.list.goTo(this.list.current ?? this.list.of(this.model.nodes.get(this.model.head)));
      if (this.words) this.search.again();
    } catch (error) {
      if (turn !== this.turn) return;
      this.loaded = undefined;
      if (!error.lost) complain(error);
    }
  }

  #forget() {
    this.model = null;
    this.folds.foldAll();
    this.chosen = [];
    this.list.here = "";
    this.search.clear();
    this.#draw();
  }

  #takeNodes(session, nodes) {
    if (session !== this.loaded || !this.model) return;
    const known = nodes.map((node) => this.model.put(node));
    if (known.includes(false)) this.#load();
    else this.news();
  }

  #takeRates(rates) {
    if (!this.isOpen || !this.model) return;
    this.rates.clear();
    for (const [id, one] of Object.entries(rates)) {
      const node = this.model.nodes.get(id);
      if (!node) continue;
      this.rates.set(id, rate(one.rate));
      node.text = this.act.running(id)?.slice(0, BEGIN).replace(/\s+/g, " ") ?? node.text;
    }
    this.list.draw();
  }

  #arrange() {
    if (!this.model) return;
    this.model.arrange();
    this.#draw();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  #draw() {
    const { model } = this;
    this.usual = model ? commonest(model) : null;
    const places = model ? [...this.found].map((id) => model.nodes.get(id)?.at) : [];
    this.places = places.filter((at) => at !== undefined).sort((a, b) => a - b);
    this.list.set(model ? this.folds.list(model) : []);
    this.none.hidden = Boolean(model?.size);
    this.facts.textContent = model?.size ? facts(model) : "";
    this.map.set(model?.order ?? []);
    this.#drawFoot();
  }

  /** What a row looks like apart from what it is. */
  #look(row) {
    const { id } = row.node ?? {};
    const { head } = this.model;
    return {
      usual: this.usual, words: this.words, here: this.list.here, chosen: this.chosen.includes(id), rate: this.rates.get(id),
      head: id === head, trunk: row.at <= (this.model.nodes.get(head)?.at ?? -1),
      found: row.fold ? this.#foundIn(row) : this.found.has(id),
    };
  }

  #foundIn({ at, messages, open }) {
    return open ? 0 : below(this.places, at + messages) - below(this.places, at);
  }

  #drawFoot() {
    const { foot, chosen } = this;
    foot.hidden = !chosen.length;
    if (!chosen.length) return;
    const ready = chosen.length > 1;
    foot.replaceChildren(h("span", { role: "status" }, ready ? `${count(chosen.length)} branches chosen` : "Choose another one to compare with"),
      h("button.quiet", { type: "button", onclick: () => { this.chosen = []; this.#draw(); } }, "Clear"),
      h("button.primary", { type: "button", disabled: !ready, "data-testid": "tree-compare",
        onclick: () => this.#compare(this.chosen) }, icon("compare"), "Compare"));
  }

  // -- where the reader is ------------------------------------------------------------------------------------------

  #focused() {
    this.list.goTo(this.list.current ?? this.list.of(this.model?.nodes.get(this.model.head)));
  }

  /** Unfold what hides a message, and go there. */
  #reveal(node) {
    if (!node) return;
    this.folds.reveal(node);
    this.#draw();
    this.list.center(node.at);
    this.list.goTo(this.list.of(node));
  }

  // -- search -------------------------------------------------------------------------------------------------------

  /** While something is looked for, folds open by themselves; after that they are as before, but for the current row. */
  #found(ids, words) {
    if (words && !this.words) this.before = this.folds.snapshot();
    if (!words && this.words && this.before) {
      const here = this.list.current?.node;
      this.folds.restore(this.before);
      if (here) this.folds.reveal(here);
    }
    this.found = new Set(ids.filter((id) => this.model?.nodes.has(id)));
    this.words = words;
    this.#draw();
    return this.places.length;
  }

  /** Go to the next match, the one before, or (0) the nearest from here on; returns its number. */
  #step(by) {
    const { places } = this;
    if (!places.length) return 0;
    const here = this.list.current?.at ?? -1;
    const next = by > 0 ? below(places, here + 1) : by < 0 ? below(places, here) - 1 : below(places, here);
    const at = (next + places.length) % places.length;
    this.#reveal(this.model.order[places[at]]);
    return at + 1;
  }

  // -- what can be done ---------------------------------------------------------------------------------------------

  #toggle(row) {
    this.folds.toggle(row);
    this.#draw();
    this.list.goTo(this.list.row(row.key));
  }

  #openAll(row) {
    for (const one of this.list.rows) if (one.fold && !one.open && one.parent === row.parent) this.folds.toggle(one);
    this.#draw();
  }

  async #show(row) {
    this.list.goTo(this.list.row(row.key));
    if (row.fold) return this.#toggle(row);
    const inside = this.element.contains(document.activeElement);
    if (narrow.matches) this.close();
    await this.act.show(row.node.id);
    if (inside && this.isOpen) this.scroller.focus({ preventScroll: true });
    return undefined;
  }

  /** Choose a message's branch for a comparison, or no more. */
  choose(id) {
    if (this.chosen.includes(id)) this.chosen = this.chosen.filter((one) => one !== id);
    else this.chosen = [...this.chosen, id].slice(-MOST_CHOSEN);
    this.#draw();
  }

  #choices({ node }) {
    const siblings = node.parent.children.map((one) => one.id);
    const off = !node.onPath && this.model.head;
    return [
      { label: "Show in the chat", icon: "right", testid: "tree-show", run: () => this.#show({ key: node.id, node }) },
      node.role !== "user" && node.status !== "streaming" && { label: ACTIONS.branch, icon: "branch", testid: "tree-continue",
        run: () => this.#goOn(node.id) },
      off && { label: "Compare with the shown branch", icon: "compare", testid: "tree-compare-shown",
        run: () => this.#compare([this.model.head, node.id]) },
      { label: this.chosen.includes(node.id) ? "Do not compare this branch" : "Choose to compare", icon: "check", testid: "tree-choose",
        run: () => this.choose(node.id) },
      ...this.act.choices({
        id: node.id, role: node.role, siblings, sibling_index: node.version, growing: node.status === "streaming",
        made: node.role === "assistant" && node.model !== null && node.status !== "streaming",
      }),
    ];
  }

  #compare(ids) {
    return this.act.compare(ids, { follow: true, names: { [this.model.head]: "The shown branch" } });
  }

  #goOn(id) {
    if (narrow.matches) this.close();
    return this.act.branchFrom(id);
  }

  #menu(row, button = byId(rowId(row.key)), at = null) {
    if (row.fold || !button) return;
    this.list.goTo(row);
    this.list.draw();
    openMenu(button.isConnected ? button : byId(rowId(row.key)), this.#choices(row), { label: "More about this message", at });
  }

  #context(event) {
    const row = this.list.row(event.target.closest("[data-row]")?.dataset.row);
    if (!row || row.fold) return;
    event.preventDefault();
    this.#menu(row, event.target.closest("[data-row]"), { x: event.clientX, y: event.clientY });
  }

  #remove(row) {
    if (!row.fold) this.#choices(row).find((one) => one?.testid === "delete-branch")?.run();
  }
}

function facts(model) {
  return [plural(model.size, "message"), plural(model.root.forks + 1, "branch", "branches")].join(" · ");
}

/** The model that wrote most of it. */
function commonest({ nodes }) {
  const times = new Map();
  for (const { model } of nodes.values()) if (model) times.set(model, (times.get(model) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}
