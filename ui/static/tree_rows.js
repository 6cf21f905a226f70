// Which rows an outline has: messages, and folds that stand for what is not unfolded. Keeps what is open; draws nothing.

import { others } from "./tree_model.js";

const FEWEST = 4; // messages that are worth a fold
const TAIL = 6; // last messages of the shown branch, always there
const SHORT = 2; // messages after another version that need no fold

/** What a filter leaves. */
const FILTERS = {
  all: () => true,
  branches: (node) => node.parent.children.length > 1 || node.kind === "summary",
  questions: (node) => node.role === "user" || node.kind === "summary",
};

export class TreeRows {
  constructor() {
    this.open = new Set(); // of "versions ID of the message above", "rest ID of the first one"
    this.loose = new Set(); // ids of messages that are in no run
    this.filter = "all";
  }

  /** Rows in order: {key, level, depth, at, parent, place}, and either `node` for a message or `fold`, `open`, `nodes`
   * and `messages` for what stands in place of some. `at` is the place in the whole outline; what a row covers goes on
   * to the next row's. `parent` counts those below it. */
  list(model) {
    this.rows = [];
    this.model = model;
    this.top = { level: 0, count: 0 };
    if (model.root.last) this.#branch(model.root.last, 0, this.top);
    return this.rows;
  }

  // -- folding ------------------------------------------------------------------------------------------------------

  toggle(row) {
    if (row.fold === "run") for (const node of row.nodes) this.loose[row.open ? "delete" : "add"](node.id);
    else if (!this.open.delete(row.key)) this.open.add(row.key);
  }

  foldAll() {
    this.open.clear();
    this.loose.clear();
  }

  unfoldAll() {
    for (const node of this.model.order) {
      this.loose.add(node.id);
      if (node.children.length > 1) this.open.add(`versions ${node.id}`);
      this.open.add(`rest ${node.id}`);
    }
    if (this.model.root.children.length > 1) this.open.add("versions ");
  }

  /** What is open now, for `restore`. */
  snapshot() {
    return { open: new Set(this.open), loose: new Set(this.loose) };
  }

  restore({ open, loose }) {
    Object.assign(this, { open, loose });
  }

  /** Open what hides a message. */
  reveal(node) {
    this.loose.add(node.id);
    let { start } = node;
    if (node !== start) this.open.add(`rest ${start.id}`);
    while (start.depth > 0) {
      this.open.add(`versions ${start.parent.id}`);
      const shown = start.parent.last;
      start = shown.start;
      if (shown !== start) this.open.add(`rest ${start.id}`);
    }
  }

  // -- rows ---------------------------------------------------------------------------------------------------------

  #add(row, parent) {
    parent.count += 1;
    Object.assign(row, { parent, level: parent.level + 1, place: parent.count, count: 0 });
    this.rows.push(row);
    return row;
  }

  /** A branch from its first message on. */
  #branch(start, depth, parent) {
    const whole = line(start);
    if (depth === 0) return this.#line(whole, depth, parent);
    this.#message(start, depth, parent);
    const rest = whole.slice(1);
    if (!rest.length || (this.filter === "branches" && !start.forks)) return undefined;
    if (start.below <= SHORT && !start.forks) return this.#line(rest, depth, parent);
    const fold = this.#fold("rest", `rest ${start.id}`, rest, start.below, depth, parent);
    return fold.open ? this.#line(rest, depth, fold) : undefined;
  }

  #line(nodes, depth, parent) {
    if (this.filter !== "all") {
      for (const node of nodes) this.#withVersions(node, depth, parent);
      return;
    }
    for (const { nodes: some, fold } of runs(nodes, this.model)) {
      const loose = fold && some.some((node) => this.loose.has(node.id));
      const row = fold ? this.#fold("run", `run ${some[0].id}`, some, some.length, depth, parent, loose) : null;
      if (!fold || loose) for (const node of some) this.#withVersions(node, depth, row ?? parent);
    }
  }

  #withVersions(node, depth, parent) {
    this.#message(node, depth, parent);
    const beside = node === node.start && node.depth > 0 ? [] : others(node);
    const size = beside.reduce((sum, one) => sum + 1 + one.below, 0);
    const asked = this.filter !== "questions" || node.role === "user" || size > beside.length;
    if (!beside.length || !asked) return;
    const fold = this.#fold("versions", `versions ${node.parent.id}`, beside, size, depth + 1, parent);
    if (fold.open) for (const one of beside) this.#branch(one, depth + 1, fold);
  }

  #message(node, depth, parent) {
    if (FILTERS[this.filter](node)) this.#add({ key: node.id, node, depth, at: node.at }, parent);
  }

  #fold(kind, key, nodes, size, depth, parent, open = this.open.has(key)) {
    return this.#add({ key, fold: kind, nodes, messages: size, open, depth, at: nodes[0].at }, parent);
  }
}

/** The messages of a branch from one on, each the one that was shown last. */
function line(start) {
  const found = [];
  for (let node = start; node; node = node.last) found.push(node);
  return found;
}

/** The pieces of a line: {nodes, fold}. What is folded has no other versions, and stands next to nothing that has. */
function runs(nodes, { head }) {
  const kept = new Uint8Array(nodes.length);
  const keep = (at) => { if (at >= 0 && at < nodes.length) kept[at] = 1; };
  nodes.forEach((node, at) => {
    if (node.parent.children.length > 1) for (let near = at - 1; near <= at + 1; near++) keep(near);
    if (node.kind || node.status === "streaming") keep(at);
    if (node.id === head) for (let back = 0; back < TAIL; back++) keep(at - back);
  });
  keep(0);
  keep(1);
  keep(nodes.length - 1);
  const pieces = [];
  for (let at = 0; at < nodes.length;) {
    let end = at;
    while (end < nodes.length && kept[end] === kept[at]) end++;
    pieces.push({ nodes: nodes.slice(at, end), fold: !kept[at] && end - at >= FEWEST });
    at = end;
  }
  return pieces;
}
