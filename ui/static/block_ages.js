// How old each block is and how often it was taken again: asked for once, then followed by the events. No drawing here.
//
// A life begins when a block without content is given out. Each reference more than before means that it was taken again;
// without references it rests.

import { spread } from "./kv_unpacking.js";

const BORN = new Set(["allocated", "copied"]);
const KEPT = 2_000;

export class BlockAges {
  /** `ask()` brings what the engine knows (see pool_views.py). */
  constructor(ask) {
    this.ask = ask;
    this.recent = []; // events that may be newer than an answer
    this.clear();
  }

  /** What is known is of another pool. */
  clear() {
    this.seq = -1;
    this.asked = null;
  }

  get loaded() {
    return this.seq >= 0;
  }

  /** Ask the engine, if nothing is known; true if something new came. */
  async want(total) {
    if (this.loaded || this.asked) return false;
    const asked = this.asked = {};
    try {
      const answer = await this.ask();
      if (this.asked !== asked) return false;
      this.#load(answer, total);
      return true;
    } finally {
      if (this.asked === asked) this.asked = null;
    }
  }

  #load({ seq, time, blocks, born_ms: born, idle_ms: idle, reuses, counts }, total) {
    this.born = new Float64Array(total); // seconds since the epoch
    this.rest = new Float64Array(total); // since when nobody uses it
    this.reuses = new Uint32Array(total);
    this.refs = new Uint32Array(total);
    const places = [];
    spread(blocks, (block) => places.push(block));
    places.forEach((block, at) => {
      this.born[block] = time - born[at] / 1e3;
      this.rest[block] = time - idle[at] / 1e3;
    });
    fill(this.reuses, places, reuses);
    fill(this.refs, places, counts);
    this.seq = seq;
    for (const event of this.recent) this.#apply(event);
  }

  /** The pool is looked at anew: what was followed until another event leads nowhere. */
  sync(seq) {
    if (this.loaded && seq !== this.seq) this.clear();
  }

  /** One event more, whole. */
  note(event) {
    this.recent.push(event);
    if (this.recent.length > 2 * KEPT) this.recent.splice(0, KEPT);
    if (this.loaded) this.#apply(event);
  }

  #apply({ seq, type, blocks, ref_counts: counts, time }) {
    if (seq <= this.seq) return;
    if (seq !== this.seq + 1) return this.clear();
    this.seq = seq;
    blocks.forEach((block, at) => {
      const before = this.refs[block], after = this.refs[block] = counts[at];
      if (BORN.has(type) && (type === "allocated" || at === 1)) {
        this.born[block] = time;
        this.reuses[block] = 0;
      } else if (after > before) this.reuses[block] += after - before;
      if (before && !after) this.rest[block] = time;
    });
  }

  /** Seconds since a block was given out. */
  ageOf(block, now = Date.now() / 1e3) {
    return Math.max(0, now - this.born[block]);
  }
}

function fill(array, places, runs) {
  let at = 0;
  for (const [value, size] of runs) for (const end = at + size; at < end; at++) array[places[at]] = value;
}
