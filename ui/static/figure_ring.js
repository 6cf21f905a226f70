// What the panel remembers of the engine's figures: a row for each time they were told, the newest of them, nothing more.

const KEPT = 512;
const COLUMNS = ["time", "used", "cached", "free", "hits", "running", "waiting", "tokens", "preempted", "ttft50", "ttft95", "itl50", "itl95"];

export class FigureRing {
  constructor() {
    this.columns = Object.fromEntries(COLUMNS.map((name) => [name, new Float64Array(KEPT)]));
    this.size = 0;
    this.next = 0;
    this.before = null;
  }

  /** Remember what was told at a time, in seconds. */
  take(stats, time) {
    const { recent } = stats;
    const row = {
      time, used: stats.blocks_active, cached: stats.blocks_cached, free: stats.blocks_free,
      running: stats.running, waiting: stats.waiting, preempted: stats.preemptions,
      hits: recent?.prompt_tokens ? recent.cached_tokens / recent.prompt_tokens : null,
      tokens: this.#tokensPerStep(stats) ?? (this.size ? this.at("tokens", this.size - 1) : null),
      ttft50: recent?.ttft.p50, ttft95: recent?.ttft.p95, itl50: recent?.itl.p50, itl95: recent?.itl.p95,
    };
    for (const name of COLUMNS) this.columns[name][this.next] = row[name] ?? NaN;
    this.next = (this.next + 1) % KEPT;
    this.size = Math.min(this.size + 1, KEPT);
  }

  /** Mean tokens of the steps since the last time; null when there were none, or the engine began anew. */
  #tokensPerStep({ steps, scheduled_tokens: tokens }) {
    const { before } = this;
    this.before = { steps, tokens };
    return before && steps > before.steps ? (tokens - before.tokens) / (steps - before.steps) : null;
  }

  /** A figure of a row, NaN where there was none; row 0 is the oldest that is remembered. */
  at(name, row) {
    return this.columns[name][(this.next - this.size + row + KEPT) % KEPT];
  }

  /** The last row that is not after a time; the first where all are. */
  rowOf(time) {
    let row = this.size - 1;
    while (row > 0 && this.at("time", row) > time) row--;
    return row;
  }
}
