// The pool as the page knows it: a snapshot, then events in order. No drawing here.

export const FREE = 0, CACHED = 1, ACTIVE = 2, SHARED = 3;
const LETTERS = { f: FREE, c: CACHED, a: ACTIVE, s: SHARED };
export const STATE_NAMES = ["free", "cached", "active", "shared"];
let epochs = 0;

export class KvModel {
  constructor() {
    // `used`: one more than the highest block that has held anything since the snapshot.
    this.seq = -1;
    this.total = 0;
    this.blockSize = 0;
    this.conserved = true;
    this.state = new Uint8Array(0);
    this.refs = new Uint32Array(0);
    this.owners = new Map();
    this.lastOwner = new Map(); // of blocks that somebody held while the page looked on
    this.counts = [0, 0, 0, 0];
    this.used = 0;
    this.references = 0; // to blocks in use: what they would be without sharing
    this.pins = new Set(); // blocks that are kept whatever else is needed
    this.changed = new Set();
    this.names = null; // of owners, where the page does not know them: see recording.js
  }

  get loaded() {
    return this.seq >= 0;
  }

  load(snapshot) {
    const total = snapshot.num_blocks;
    Object.assign(this, {
      seq: snapshot.seq, total, blockSize: snapshot.block_size, conserved: snapshot.conserved,
      pins: new Set(snapshot.pins),
      state: new Uint8Array(total), refs: new Uint32Array(total), owners: new Map(), lastOwner: new Map(), counts: [0, 0, 0, 0], used: 0, references: 0,
      epoch: ++epochs, changed: new Set(),
    });
    for (let block = 0; block < total; block++) {
      this.state[block] = LETTERS[snapshot.states[block]];
      this.counts[this.state[block]]++;
      if (this.state[block] !== FREE) this.used = block + 1;
    }
    for (const [block, refs, owners] of snapshot.held) {
      this.refs[block] = refs;
      this.references += refs;
      this.owners.set(block, new Map(owners.map((owner) => [owner, 1])));
      if (owners.length) this.lastOwner.set(block, owners.at(-1));
    }
  }

  /** A model of this moment that goes its own way. */
  copy() {
    return Object.assign(new KvModel(), this, {
      state: this.state.slice(), refs: this.refs.slice(), counts: [...this.counts],
      pins: new Set(this.pins), owners: new Map(this.owners), lastOwner: new Map(this.lastOwner), // holders of a block are never changed, but replaced
      epoch: ++epochs, changed: new Set(),
    });
  }

  /** Whether a snapshot of this moment says the same of each block. */
  agrees({ seq, states, held }) {
    return seq === this.seq && states.length === this.total && this.state.every((state, block) => state === LETTERS[states[block]])
      && held.every(([block, refs]) => refs === this.refs[block]);
  }

  /** Apply one event. Returns false when events are missing before it: a new snapshot is needed. */
  apply(event) {
    if (typeof event.states !== "string") return false; // events were lost, or the engine is another one
    if (event.seq <= this.seq) return event.type !== "reset"; // an engine that begins anew says so with an old number
    if (event.seq !== this.seq + 1) return false;
    this.seq = event.seq;
    for (let index = 0; index < event.blocks.length; index++) {
      this.#set(event.blocks[index], LETTERS[event.states[index]], event.ref_counts[index]);
    }
    this.#own(event);
    if (event.type === "pinned") for (const block of event.blocks) this.pins.add(block);
    if (event.type === "unpinned") for (const block of event.blocks) this.pins.delete(block);
    return true;
  }

  /** Numbers by the contract's names; `active` includes `shared`. */
  get totals() {
    const [free, cached, active, shared] = this.counts;
    return { free, cached, active: active + shared, shared };
  }

  /** References over blocks in use: how many copies sharing saves. Null when nothing is in use. */
  get sharing() {
    const { active } = this.totals;
    return active ? this.references / active : null;
  }

  ownersOf(block) {
    return [...(this.owners.get(block)?.keys() ?? [])];
  }

  #set(block, state, refs) {
    this.changed.add(block);
    this.counts[this.state[block]]--;
    this.counts[state]++;
    this.references += refs - this.refs[block];
    this.state[block] = state;
    this.refs[block] = refs;
    this.used = Math.max(this.used, block + 1);
    if (state < ACTIVE) this.owners.delete(block);
    if (state !== FREE) return;
    this.lastOwner.delete(block);
    this.pins.delete(block);
  }

  #own({ type, blocks, owner }) {
    if (!owner) return;
    if (type === "allocated" || type === "shared") for (const block of blocks) this.#count(block, owner, 1);
    else if (type === "released") for (const block of blocks) this.#count(block, owner, -1);
    else if (type === "copied") {
      this.#count(blocks[0], owner, -1);
      this.#count(blocks[1], owner, 1);
    }
  }

  #count(block, owner, step) {
    const holders = new Map(this.owners.get(block));
    const left = (holders.get(owner) ?? 0) + step;
    if (left > 0) {
      holders.set(owner, left);
      this.lastOwner.set(block, owner);
    } else holders.delete(owner);
    if (holders.size && this.state[block] >= ACTIVE) this.owners.set(block, holders);
    else this.owners.delete(block);
  }
}
