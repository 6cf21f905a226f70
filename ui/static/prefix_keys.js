// Keys in the tree of prefixes: arrows go from run to run and fold, Home and End to the ends, Enter goes to the message.

export class PrefixKeys {
  /** `tree` has: list, rows, run(key), choose(key, options), toggle(key, open), go (a button). */
  constructor(tree) {
    this.tree = tree;
    tree.list.addEventListener("keydown", (event) => this.#key(event));
  }

  focus(key) {
    const row = this.tree.rows.find(({ run }) => run.key === key);
    row?.element.focus({ preventScroll: true });
    row?.element.scrollIntoView({ block: "nearest" });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows } = this.tree;
    const at = rows.findIndex(({ element }) => element === event.target);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) this.#choose(rows[Math.max(0, Math.min(rows.length - 1, to))]);
    else if (event.key === "ArrowRight") this.#right(rows, at);
    else if (event.key === "ArrowLeft") this.#left(rows, at);
    else if (event.key === "Enter") this.tree.go.click();
    else if (event.key === " ") this.#choose(rows[at]);
    else return;
    event.preventDefault();
  }

  #choose(row) {
    if (row) this.tree.choose(row.run.key, { focus: true });
  }

  #right(rows, at) {
    const { run, forks } = rows[at];
    if (forks && rows[at].element.ariaExpanded === "false") this.tree.toggle(run.key, true);
    else if (forks) this.#choose(rows[at + 1]);
  }

  #left(rows, at) {
    const { run, forks, level } = rows[at];
    if (forks && rows[at].element.ariaExpanded === "true") return this.tree.toggle(run.key, false);
    this.#choose(rows.slice(0, at).findLast((row) => row.level === level - 1));
    return undefined;
  }
}
