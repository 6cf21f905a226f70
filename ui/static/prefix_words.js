// What the tree of prefixes says of a run of blocks: its messages, what is shared with whom, what the fork cost.

import { count, plural } from "./format.js";

const MOST_NAMES = 3;
const ROLES = { system: "system", user: "you", assistant: "reply", tool: "tool" };

/** A message in short: "you 2", "reply 1 (2/3)". */
export function nameOf({ role, kind, number, version, versions }) {
  const name = kind === "summary" ? "summary" : role === "system" && !number ? "system" : `${ROLES[role] ?? role} ${number}`;
  return versions > 1 ? `${name} (${version}/${versions})` : name;
}

/** The messages that a run is named for, or a part of what it has. */
export function labelOf(tree, run) {
  const own = run.messages.filter(([, named]) => named);
  const names = (own.length ? own : run.messages).map(([at]) => nameOf(tree.messages[at]));
  const short = names.length > MOST_NAMES ? [names[0], "…", names.at(-1)].join(" ") : names.join(", ");
  return own.length || !names.length ? short : `part of ${short}`;
}

/** The message that a run is about: the first it is named for. */
function headOf(tree, run) {
  const [at] = run.messages.find(([, named]) => named) ?? run.messages[0] ?? [];
  return at === undefined ? "" : nameOf(tree.messages[at]);
}

/** Whether a run begins with another version of something: it was written later than what it parts from. */
export function isFork(tree, run) {
  return run.parent !== null && run.messages.some(([at, named]) => named && tree.messages[at].version > 1);
}

/** Blocks as people read them: "3–9, 12", and how many more there are. */
export function ranges(blocks, most = 4) {
  const found = [];
  for (const block of blocks) {
    const last = found.at(-1);
    if (last && block === last[1] + 1) last[1] = block;
    else found.push([block, block]);
  }
  const told = found.slice(0, most).map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
  return found.length > most ? `${told}, …` : told;
}

/** The runs before a run, from the beginning down. */
export function above(tree, run) {
  const found = [];
  for (let at = run.parent; at !== null; at = tree.runs[at].parent) found.unshift(tree.runs[at]);
  return found;
}

/** The other runs that go on where a run does. */
export function beside(tree, run) {
  return tree.runs.filter((one) => one !== run && one.parent === run.parent);
}

export function held(run) {
  return run.blocks.filter((block) => block !== null);
}

/** Who has a run's blocks. */
export function sharedBy(run) {
  return run.branches.length > 1 ? plural(run.branches.length, "branch", "branches") : "own";
}

/** What the first reply of a run cost: "3 new blocks, 1 copied, 13 tokens computed"; empty where nobody knows. */
export function costOf({ cost }) {
  if (!cost) return "";
  const computed = cost.prompt_tokens - cost.cached_tokens;
  return `${plural(cost.blocks_new, "new block")}, ${count(cost.blocks_copied)} copied, ${plural(computed, "token")} computed`;
}

/** [term, words] of all that is to be said of a run; `chatName` names who else uses its blocks. */
export function facts(tree, run, chatName) {
  return [sharedFact(tree, run), ownFact(run),
    run.twice.length && ["Read twice", `Block ${ranges(run.twice)} is also in another branch: both have the same tokens there until they part.`],
    run.others.length && ["In use by", run.others.map(chatName).join(", ")],
    costFact(tree, run)].filter(Boolean);
}

/** What a run has in common with those beside it: all that is above. */
function sharedFact(tree, run) {
  const before = above(tree, run);
  if (!before.length) return null;
  const [first, second, ...more] = beside(tree, run).map((one) => headOf(tree, one));
  const whom = [first, more.length ? `${plural(more.length + 1, "other")}` : second].filter(Boolean).join(" and ");
  const blocks = before.flatMap(held);
  const where = blocks.length ? `physical ${ranges(blocks)}` : "not in the pool now";
  return ["Shares", `${plural(run.first, "block")}${whom && ` with ${whom}`}: logical ${ranges(Array.from({ length: run.first }, (_, at) => at))}, ${where}`];
}

function ownFact(run) {
  const blocks = held(run), missing = run.blocks.length - blocks.length;
  const term = run.branches.length > 1 ? `In ${plural(run.branches.length, "branch", "branches")}` : "Own";
  const where = [blocks.length && `physical ${ranges(blocks)}`, missing && `${count(missing)} not in the pool now`].filter(Boolean).join(", ");
  return [term, `${plural(run.blocks.length, "block")} with ${plural(run.tokens, "token")}: ${where}`];
}

function costFact(tree, run) {
  const { cost } = run;
  if (!cost) return null;
  const computed = cost.prompt_tokens - cost.cached_tokens;
  return [isFork(tree, run) ? "The fork cost" : "It cost",
    `${plural(cost.blocks_new, "new block")}, ${count(cost.blocks_copied)} copied on write, ${count(cost.blocks_shared)} shared; `
    + `${count(computed)} of ${plural(cost.prompt_tokens, "prompt token")} computed, the rest found (when ${nameOf(tree.messages[cost.message])} was written)`];
}
