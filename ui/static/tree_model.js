// A chat's tree as the page knows it: who hangs under whom, which branch is shown, and where each message stands in the
// outline. Draws nothing.
//
// A branch is a line of messages, each the one of its versions that was shown last; the outline is
//
//   q1            depth 0: the shown branch
//   r1   2/3
//     r1 1/3      depth 1: the other versions of r1, each the start of a branch of its own
//     r1 3/3
//     q2
//   q2            the shown branch goes on

const ROLES = { u: "user", a: "assistant", s: "system", t: "tool" };

export class TreeModel {
  /** `outline`: the columns that the server sends. */
  constructor(outline) {
    this.nodes = new Map();
    this.root = { id: "", children: [] };
    this.head = outline.head_id;
    this.#take(outline);
    this.arrange();
  }

  #take({ ids, parents, roles, statuses, kinds, texts, times, lengths, models, names, shown }) {
    const nodes = ids.map((id, at) => ({
      id, role: ROLES[roles[at]], status: statuses[at] ?? "done", kind: kinds[at] ?? null, text: texts[at], time: times[at],
      length: lengths[at], model: names[models[at]] ?? null, shown: shown[at], children: [], parent: null,
    }));
    nodes.forEach((node, at) => {
      node.parent = nodes[parents[at]] ?? this.root;
      node.parent.children.push(node);
      this.nodes.set(node.id, node);
    });
  }

  get size() {
    return this.nodes.size;
  }

  /** A message that is new, changed or gone. Returns false if its place is not known; `arrange` shows it. */
  put({ id, parent, role, hidden, ...rest }) {
    const known = this.nodes.get(id);
    if (hidden) {
      if (!known) return true;
      known.parent.children = [...known.parent.children.filter((one) => one !== known), ...known.children];
      for (const child of known.children) child.parent = known.parent;
      this.nodes.delete(id);
      return true;
    }
    if (known) {
      Object.assign(known, rest);
      return true;
    }
    const above = parent === null ? this.root : this.nodes.get(parent);
    if (!above) return false;
    const node = { id, role: ROLES[role], shown: 0, children: [], ...rest, parent: above };
    above.children.push(node);
    this.nodes.set(id, node);
    return true;
  }

  /** Another message ends the shown branch. Returns false if it is not known. */
  setHead(id) {
    this.head = id;
    const node = this.nodes.get(id);
    if (node) node.shown = Math.max(Date.now() * 1000, node.shown + 1); // microseconds, as the server counts
    return Boolean(node) || id === null;
  }

  /** After changes: what is below each message, the shown branch, and the order of the outline. */
  arrange() {
    const down = this.#topDown();
    for (let at = down.length - 1; at >= 0; at--) this.#sum(down[at]);
    this.#sum(this.root);
    this.#markShown();
    this.#order();
  }

  #topDown() {
    const found = [...this.root.children];
    for (let at = 0; at < found.length; at++) found.push(...found[at].children);
    return found;
  }

  /** Size of what is below, branches in it, and the child that leads to the leaf that was shown last. */
  #sum(node) {
    node.onPath = false;
    node.below = 0;
    node.forks = Math.max(0, node.children.length - 1);
    node.latest = node.children.length ? -1 : node.shown;
    node.last = null;
    node.children.forEach((child, at) => {
      child.version = at + 1;
      node.below += 1 + child.below;
      node.forks += child.forks;
      if (child.latest < node.latest && node.last) return;
      node.last = child;
      node.latest = child.latest;
    });
  }

  #markShown() {
    this.path = [];
    for (let node = this.nodes.get(this.head); node && node !== this.root; node = node.parent) {
      node.onPath = true;
      node.parent.last = node;
      this.path.push(node);
    }
    this.path.reverse();
  }

  /** The whole outline unfolded; each node gets `at`, its place in it, `depth`, and `start`, the first of its branch. */
  #order() {
    this.order = [];
    this.deepest = 0;
    const open = this.root.last ? [{ node: this.root.last, start: this.root.last, depth: 0, others: [] }] : [];
    while (open.length) {
      const branch = open.at(-1);
      const other = branch.others.shift();
      if (other) open.push({ node: other, start: other, depth: branch.depth + 1, others: [] });
      else if (branch.node) {
        const { node, start, depth } = branch;
        Object.assign(node, { at: this.order.length, depth, start });
        this.order.push(node);
        this.deepest = Math.max(this.deepest, depth);
        if (node !== start || depth === 0) branch.others = others(node);
        branch.node = node.last;
      } else open.pop();
    }
  }
}

/** The other versions of a message. */
export function others(node) {
  return node.parent.children.filter((one) => one !== node);
}
