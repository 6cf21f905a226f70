// A recording of the pool as a file: what it says, and whether one that is opened can be believed. It never has any text
// of a chat; chats are called "chat 1" and so on, and their titles are in it only where that was asked for.
//
//     {format: "pagedchat-kv-recording", version, made_at, block_size, num_blocks, base, events, owners, stats}
//     base    {seq, time, conserved, pins, states: a letter a block, held: [block, references, owners], last: [block, owner]}
//     events  as kv_feed.py tells them; one of type "gap" has the snapshot after a time that nobody saw
//     owners  [{id: "chat 1", title or null, hue}]
//     stats   [{place: events after the base, prompt_tokens, …}]

import { EVENT_TYPES } from "./event_words.js";
import { unpacked } from "./kv_unpacking.js";
import { KvModel, STATE_NAMES } from "./kvmodel.js";
import { COUNTERS, Recorder } from "./recorder.js";

const FORMAT = "pagedchat-kv-recording";
const VERSION = 1;
const MOST_BLOCKS = 4_000_000;
const LATEST_S = 8.64e12; // before and after 1970: what a Date can say
const LETTERS = "fcas";

/** All that a recorder keeps. `act` has: hueOf(owner), titleOf(owner) (null where it is not to be told). */
export function written(recorder, act, madeAt = new Date()) {
  const owners = new Map();
  const call = (owner) => {
    if (owner === null || owner === undefined) return null;
    if (!owners.has(owner)) owners.set(owner, { id: `chat ${owners.size + 1}`, title: act.titleOf(owner), hue: act.hueOf(owner) });
    return owners.get(owner).id;
  };
  const { base } = recorder;
  const told = { ...compacted(base, call), time: recorder.baseTime };
  const events = recorder.events.map((event) => ({ ...event, owner: call(event.owner),
    ...(event.snapshot ? { snapshot: renamed(event.snapshot, call) } : {}) }));
  const stats = recorder.stats.map(({ place, ...counters }) => ({ place: Math.max(0, place - recorder.first), ...counters }));
  return {
    format: FORMAT, version: VERSION, made_at: madeAt.toISOString(), block_size: base.blockSize, num_blocks: base.total,
    base: told, events, owners: [...owners.values()], stats,
  };
}

/** The pool of one moment, a row a block. */
export function writtenSnapshot(model, act, madeAt = new Date()) {
  const names = new Map();
  const call = (owner) => {
    if (!names.has(owner)) names.set(owner, act.titleOf(owner) ?? `chat ${names.size + 1}`);
    return names.get(owner);
  };
  return {
    format: "pagedchat-kv-snapshot", version: VERSION, made_at: madeAt.toISOString(), seq: model.seq,
    block_size: model.blockSize, num_blocks: model.total, ...model.totals, pinned: model.pins.size,
    blocks: Array.from(model.state, (state, id) => ({
      id, state: STATE_NAMES[state], ref_count: model.refs[id], owners: model.ownersOf(id).map(call), pinned: model.pins.has(id),
    })),
  };
}

/** A recording from a file's text: {recorder, names, hues, made}. Throws an Error with a sentence that names what is wrong. */
export function opened(text, name) {
  const file = parsed(text, name);
  try {
    return read(file);
  } catch (error) {
    if (!(error instanceof Damage)) throw error;
    throw new Error(`“${name}” is damaged: ${error.message}. Nothing was opened.`);
  }
}

class Damage extends Error {}

function parsed(text, name) {
  let file = null;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error(`“${name}” is no recording, or only a part of one: it is not whole JSON. Nothing was opened.`);
  }
  if (file?.format !== FORMAT) {
    throw new Error(`“${name}” is not a recording of KV blocks. Such files are saved from the menu of this panel. Nothing was opened.`);
  }
  if (Number.isInteger(file.version) && file.version > VERSION) {
    throw new Error(`“${name}” was made by a newer pagedchat: it is of version ${file.version}, and this one reads version ${VERSION}. Nothing was opened.`);
  }
  return file;
}

function read(file) {
  demand(file.version === VERSION, "its version is not a number of one");
  demand(whole(file.num_blocks, 1, MOST_BLOCKS) && whole(file.block_size, 1), "the size of its pool is missing");
  demand(Array.isArray(file.events), "its events are missing");
  const base = checkedSnapshot(file.base, file, "the pool at its beginning");
  const model = new KvModel();
  model.load(base);
  for (const row of listOf(base.last)) {
    demand(Array.isArray(row) && whole(row[0], 0, file.num_blocks - 1) && isOwner(row[1]), "the pool at its beginning does not say who held what last");
    model.lastOwner.set(row[0], row[1]);
  }
  const recorder = new Recorder(Infinity);
  recorder.begin(model, time(base.time, "its beginning"));
  let seq = base.seq;
  file.events.forEach((event, at) => {
    seq = checkedEvent(event, seq, file, `event ${at + 1}`);
    if (event.type === "gap") recorder.takeGap(event.snapshot, event.time);
    else recorder.take(event);
  });
  recorder.stats = listOf(file.stats).filter((one) => areCounters(one, file.events.length)).sort((one, other) => one.place - other.place);
  const owners = listOf(file.owners).filter((one) => typeof one?.id === "string");
  return {
    recorder, made: new Date(file.made_at), names: new Map(owners.map(({ id, title }) => [id, typeof title === "string" && title ? title : id])),
    hues: new Map(owners.map(({ id, hue }) => [id, whole(hue, 0, 5) ? hue : 4])),
  };
}

function checkedSnapshot(snapshot, { num_blocks: total, block_size: size }, what) {
  demand(snapshot && typeof snapshot === "object" && whole(snapshot.seq, 0), `${what} is missing`);
  const { states, held } = snapshot, pins = listOf(snapshot.pins);
  demand(typeof states === "string" && states.length === total && !/[^fcas]/.test(states), `${what} does not have a state for each of ${total} blocks`);
  demand(Array.isArray(held) && held.length === states.replace(/[^as]/g, "").length, `${what} does not say who holds what`);
  let next = 0;
  for (const row of held) {
    demand(Array.isArray(row) && whole(row[0], next, total - 1) && fits(states[row[0]], row[1]) && row[1] > 0,
      `${what} has a count that does not fit the state of its block`);
    demand(Array.isArray(row[2]) && row[2].every(isOwner), `${what} does not say who holds what`);
    next = row[0] + 1;
  }
  demand(pins.every((block) => whole(block, 0, total - 1)), `${what} has a pin on a block that the pool does not have`);
  return { ...snapshot, pins, num_blocks: total, block_size: size };
}

/** The number of an event that may follow the one of number `seq`. */
function checkedEvent(event, seq, file, what) {
  demand(event && typeof event === "object", `${what} is missing`);
  time(event.time, what);
  if (event.type === "gap") {
    Object.assign(event, { snapshot: checkedSnapshot(event.snapshot, file, `the pool at ${what}`) });
    demand(event.snapshot.seq >= seq, `${what} is older than the one before`);
    return event.snapshot.seq;
  }
  demand(EVENT_TYPES.includes(event.type), `${what} is of an unknown kind`);
  demand(event.seq === seq + 1, `${what} does not follow the one before`);
  demand(listed(event) <= file.num_blocks * 2 && typeof event.states === "string", `${what} does not say which blocks it is about`);
  const { blocks, ref_counts: counts, states } = unpacked(event);
  demand(blocks.every((block) => whole(block, 0, file.num_blocks - 1)), `${what} is about a block that the pool does not have`);
  demand(counts?.length === blocks.length && states.length === blocks.length && blocks.every((_, at) => fits(states[at], counts[at])),
    `${what} has counts that do not fit the states of its blocks`);
  demand(isOwner(event.owner ?? null) && whole(event.num_tokens ?? 0, 0), `${what} does not say whose it is, or of how many tokens`);
  demand(event.type !== "copied" || blocks.length === 2, `${what} is a copy without a source and a place where it went`);
  return event.seq;
}

/** How many blocks an event is about; NaN where it does not say so. */
function listed({ blocks, spans }) {
  if (Array.isArray(blocks)) return blocks.length;
  if (!Array.isArray(spans)) return NaN;
  return spans.reduce((sum, span) => sum + (Array.isArray(span) && Number.isInteger(span[1]) ? Math.abs(span[1]) : NaN), 0);
}

function fits(state, count) {
  return LETTERS.includes(state) && whole(count, 0) && (count > 1 ? state === "s" : count === 1 ? state === "a" : "fc".includes(state));
}

function isOwner(value) {
  return value === null || typeof value === "string";
}

/** Whether these are counters as they are kept, of a place in a recording of so many events. */
function areCounters(stats, events) {
  return whole(stats?.place, 0, events) && COUNTERS.every((name) => whole(stats[name], 0)) && stats.cached_tokens <= stats.prompt_tokens;
}

function listOf(value) {
  return Array.isArray(value) ? value : [];
}

function whole(value, least, most = Number.MAX_SAFE_INTEGER) {
  return Number.isInteger(value) && value >= least && value <= most;
}

function time(value, what) {
  demand(Number.isFinite(value) && Math.abs(value) <= LATEST_S, `the time of ${what} is missing or wrong`);
  return value;
}

function demand(good, words) {
  if (!good) throw new Damage(words);
}

/** A model as a snapshot of the kind that the server sends. */
function compacted(model, call) {
  const held = [];
  for (let block = 0; block < model.total; block++) {
    if (model.refs[block]) held.push([block, model.refs[block], model.ownersOf(block).map(call)]);
  }
  return {
    seq: model.seq, conserved: model.conserved, pins: [...model.pins], held,
    states: Array.from(model.state, (state) => LETTERS[state]).join(""),
    last: [...model.lastOwner].map(([block, owner]) => [block, call(owner)]),
  };
}

function renamed(snapshot, call) {
  const { seq, conserved, pins, states, held } = snapshot;
  return { seq, conserved, pins: pins ?? [], states, held: held.map(([block, refs, owners]) => [block, refs, owners.map(call)]) };
}
