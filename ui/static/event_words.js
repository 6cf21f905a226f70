// KV events in words: short ones for a list, whole sentences for the one that is looked at.

import { count, plural } from "./format.js";
import { unpacked } from "./kv_unpacking.js";

export const EVENT_TYPES = [
  "allocated", "shared", "copied", "stored", "released", "evicted", "pinned", "unpinned", "preempted", "restored", "reset",
];
const RUNS = 3; // of neighbouring blocks that are named; more are counted

/** The blocks of an event: {from, to}, where `from` is the source of a copy, else null. */
export function placesOf(event) {
  if (!event || event.type === "gap") return { from: null, to: [] };
  const { type, blocks } = unpacked(event);
  return type === "copied" ? { from: blocks[0], to: [blocks[1]] } : { from: null, to: blocks };
}

/** A few words for a row of a list; `nameOf(owner)` says whose. */
export function shortWords(event, nameOf) {
  if (event.type === "gap") return `${plural(event.missed, "event")} not seen`;
  const { type, blocks, num_tokens: tokens, owner } = unpacked(event);
  const parts = [];
  if (type === "copied") parts.push(`${blocks[0]} → ${blocks[1]}`, tokens ? plural(tokens, "token") : "");
  else {
    parts.push(blocks.length === 1 ? `block ${blocks[0]}` : blocks.length ? plural(blocks.length, "block") : "");
    if (type === "stored" && blocks.length === 1 && tokens) parts.push(plural(tokens, "token"));
  }
  parts.push(owner ? nameOf(owner) : "");
  return parts.filter(Boolean).join(" · ");
}

/** What has happened, as a sentence. */
export function longWords(event, nameOf) {
  if (event.type === "gap") return `Nobody looked: ${plural(event.missed, "event")} before this moment were not seen.`;
  const { type, blocks, num_tokens: tokens, owner } = unpacked(event);
  const who = owner ? nameOf(owner) : null;
  const Who = who ? who[0].toUpperCase() + who.slice(1) : null;
  const what = blocksIn(blocks), one = blocks.length === 1;
  return {
    allocated: () => `${Who ?? "A request"} got ${what}, empty, to write to.`,
    shared: () => `${Who ?? "A request"} took ${what}, where what it needs is computed already.`,
    copied: () => `Copy on write: block ${blocks[0]} was copied to block ${blocks[1]}${tokens ? `, ${plural(tokens, "token")} of it` : ""}, before ${who ?? "a request"} writes there.`,
    stored: () => `${What(what)} can be found by other requests from now on${one && tokens ? `: ${plural(tokens, "token")}` : ""}${who ? `, computed for ${who}` : ""}.`,
    released: () => (who ? `${Who} gave ${what} back.` : `The copy is done: ${what} was let go of.`),
    evicted: () => `What ${what} held was given up; ${one ? "it is" : "they are"} free now.`,
    pinned: () => `${What(what)} ${one ? "is" : "are"} pinned: kept whatever else is needed.`,
    unpinned: () => `${What(what)} ${one ? "is" : "are"} no longer pinned.`,
    preempted: () => `The pool is full: ${who ?? "a request"} loses its blocks and waits.`,
    restored: () => `${Who ?? "A request"} runs again after its wait.`,
    reset: () => `All that was cached was forgotten${blocks.length ? `: ${plural(blocks.length, "block")}` : ""}.`,
  }[type]();
}

/** "block 5", "blocks 0–2, 7", "12 blocks". */
function blocksIn(blocks) {
  const sorted = [...blocks].sort((a, b) => a - b);
  if (sorted.length === 1) return `block ${sorted[0]}`;
  const runs = [];
  for (const block of sorted) {
    const run = runs.at(-1);
    if (run && block === run[1] + 1) run[1] = block;
    else runs.push([block, block]);
    if (runs.length > RUNS) return `${count(blocks.length)} blocks`;
  }
  return `blocks ${runs.map(([first, last]) => (first === last ? first : `${first}–${last}`)).join(", ")}`;
}

function What(words) {
  return words[0].toUpperCase() + words.slice(1);
}
