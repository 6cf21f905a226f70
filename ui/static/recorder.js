// What happened to the pool, kept so that any moment of it can be seen again: a base and the events after it. When there
// are more than it keeps the base moves on. No drawing here.
//
//     base ── event ── event ── event ── event       places: first is the base, last the newest event
//     first     +1       +2       +3      last

import { unpacked } from "./kv_unpacking.js";

const MOST_EVENTS = 5_000;
const MOST_NUMBERS = 400_000; // in all events together
const MOST_GAPS = 8; // each brings a whole snapshot
const SLACK = 64; // events beyond the most, so that the base moves now and then and not with each
const STRIDE = 256; // events from one checkpoint to the next
const CHECKPOINT_BLOCKS = 300_000; // in all checkpoints together
const STATS_AT_MOST = 1_000;
const NEW_CONTENT = new Set(["allocated", "evicted", "reset"]);
export const COUNTERS = ["prompt_tokens", "cached_tokens", "preemptions", "running", "waiting"];

export class Recorder {
  /** The newest `most` events are kept at least, if they are not too large, and hardly more; Infinity: all, whatever their
   * size. */
  constructor(most = MOST_EVENTS) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.base = null;
    this.baseTime = 0;
    this.events = []; // packed, as they came
    this.first = 0; // place of the base; it grows when the base moves on
    this.numbers = 0;
    this.gaps = 0;
    this.stats = []; // {place, ...counters}, oldest first
    this.fresh = new Map(); // block -> the last place at which what it held became another thing
    this.blind = 0; // of no block is known what it held before this place
    this.checkpoints = new Map(); // place -> model, never changed
    this.cursor = null; // {place, model}
  }

  get last() {
    return this.first + this.events.length;
  }

  get loaded() {
    return this.base !== null;
  }

  /** Begin with the pool of this moment. */
  begin(model, time) {
    this.clear();
    this.base = model.copy();
    this.baseTime = time;
  }

  /** One more event, packed or not; those that are known already change nothing. */
  take(event) {
    if (!this.loaded || event.seq <= this.seqOf(this.last)) return;
    this.#add(event);
  }

  /** The panel looks again after a while: `snapshot` is the pool now. What lies between was not seen. */
  takeGap(snapshot, time) {
    this.gaps++;
    const missed = Math.max(0, snapshot.seq - this.seqOf(this.last));
    this.#add({ type: "gap", seq: snapshot.seq, time, snapshot, missed });
    this.blind = this.last;
  }

  /** Counters of the engine. They are kept where they come with its books, and so are of the newest event. */
  takeStats(stats) {
    if (!this.loaded || stats.books?.seq !== this.seqOf(this.last)) return;
    if (this.stats.at(-1)?.place === this.last) this.stats.pop();
    this.stats.push({ place: this.last, ...Object.fromEntries(COUNTERS.map((name) => [name, stats[name] ?? 0])) });
    if (this.stats.length > STATS_AT_MOST) this.stats.splice(0, STATS_AT_MOST / 4);
  }

  /** The event that leads to a place; null for the base. */
  eventAt(place) {
    return this.events[place - this.first - 1] ?? null;
  }

  timeOf(place) {
    return this.eventAt(place)?.time ?? this.baseTime;
  }

  seqOf(place) {
    return this.eventAt(place)?.seq ?? this.base.seq;
  }

  /** Counters at a place, as far as they are known: all of them where they were told, else the preemptions, which are
   * events. */
  statsAt(place) {
    const near = this.stats.find((one) => one.place >= place) ?? this.stats.at(-1);
    if (!near || near.place === place) return near ?? { preemptions: null };
    const [from, to] = near.place < place ? [near.place, place] : [place, near.place];
    let between = 0;
    for (let at = from + 1; at <= to; at++) if (this.eventAt(at)?.type === "preempted") between++;
    return { preemptions: near.preemptions + (near.place < place ? between : -between) };
  }

  /** Whether a block has held the same thing from a place until now. */
  isSame(block, place) {
    return place >= this.blind && (this.fresh.get(block) ?? 0) <= place;
  }

  /** The pool at a place. The next call may change what this one gave: it goes on from there. */
  model(place) {
    const to = Math.max(this.first, Math.min(this.last, place));
    this.cursor = this.#startFor(to);
    const { cursor } = this;
    while (cursor.place < to) {
      applyTo(cursor.model, this.eventAt(++cursor.place));
      if (cursor.place % STRIDE === 0) this.#checkpoint();
    }
    return cursor.model;
  }

  /** Where to go on from: the cursor, if nothing nearer is known. */
  #startFor(to) {
    const known = [...this.checkpoints.keys()].filter((place) => place <= to);
    const nearest = Math.max(this.first, ...known);
    const { cursor } = this;
    if (cursor && cursor.place <= to && cursor.place >= nearest) return cursor;
    return { place: nearest, model: (this.checkpoints.get(nearest) ?? this.base).copy() };
  }

  #checkpoint() {
    const { place, model } = this.cursor;
    if (this.checkpoints.has(place)) return;
    const most = Math.max(2, Math.floor(CHECKPOINT_BLOCKS / Math.max(1, model.total)));
    this.checkpoints.set(place, model.copy());
    const away = (one) => Math.abs(one - place);
    const places = [...this.checkpoints.keys()].sort((a, b) => away(b) - away(a));
    for (const far of places.slice(0, Math.max(0, places.length - most))) this.checkpoints.delete(far);
  }

  #add(event) {
    this.events.push(event);
    this.numbers += weight(event);
    this.#noteFresh(event);
    if (this.#tooMany(this.most + SLACK)) this.#moveOn();
  }

  #noteFresh(event) {
    if (event.type === "copied") this.fresh.set(unpacked(event).blocks[1], this.last);
    if (NEW_CONTENT.has(event.type)) for (const block of unpacked(event).blocks) this.fresh.set(block, this.last);
  }

  #tooMany(most, dropped = 0) {
    if (this.most === Infinity) return false;
    return this.events.length - dropped > most || this.numbers > MOST_NUMBERS || this.gaps > MOST_GAPS;
  }

  /** Put the oldest events into the base. */
  #moveOn() {
    let at = 0;
    for (; this.#tooMany(this.most, at) && at < this.events.length - 1; at++) {
      const event = this.events[at];
      applyTo(this.base, event);
      this.baseTime = event.time;
      this.numbers -= weight(event);
      if (event.type === "gap") this.gaps--;
    }
    this.base.changed.clear();
    this.events.splice(0, at);
    this.first += at;
    for (const place of this.checkpoints.keys()) if (place < this.first) this.checkpoints.delete(place);
    if (this.cursor?.place < this.first) this.cursor = null;
    while (this.stats[0]?.place < this.first) this.stats.shift();
  }
}

function applyTo(model, event) {
  if (event.type === "gap") model.load(event.snapshot);
  else model.apply(unpacked(event));
}

/** Numbers that an event holds. */
function weight({ blocks, spans, ref_counts: counts }) {
  return 8 + (blocks?.length ?? 2 * (spans?.length ?? 0)) + (counts?.length ?? 0);
}
