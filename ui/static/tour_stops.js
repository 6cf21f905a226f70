// The stops of the tour: six claims about this cache, each with numbers of the shown chat. Nothing is drawn here.
// A stop is {id, title, tab, at, look(page, found)}. `look` gives {words, facts, ask}: two plain sentences, the numbers in
// them by name, and what can be asked for if a number is not there yet: {words, waits, run(page) -> found}.

import { count, percent, plural, rate } from "./format.js";

const NOTHING_YET = "This chat has no blocks yet: send a message first. Its blocks are listed here then.";
const UNSEEN_MS = 3_000; // until a reply that has not come to the page is taken for ended
const TRIAL = "One after the other is what a limit of one running request would do.";

export const STOPS = [
  { id: "table", title: "A block table", tab: "table", at: ".kv-parts", look: lookAtTable },
  { id: "scheduling", title: "Memory is not scheduling", at: ".usage", setting: true, look: lookAtScheduling },
  { id: "speed", title: "One request is not faster", at: ".gauges", look: lookAtSpeed },
  { id: "prefix", title: "A stable prefix is found, a changed one is not", at: ".gauges", load: askPrefix, look: lookAtPrefix },
  { id: "full", title: "A full pool means preemptions", at: ".usage", look: lookAtPool },
  { id: "fork", title: "What a fork costs", tab: "prefixes", at: ".kv-parts", load: askFork, look: lookAtFork },
];

// -- a block table ----------------------------------------------------------------------------------------------------

function lookAtTable({ panel }) {
  const rows = panel.branch.table.rows;
  const held = rows.filter(({ physical }) => physical !== null);
  if (!held.length) return { words: NOTHING_YET, facts: { logical: rows.length, physical: 0, steps: 0, jumps: 0 } };
  let [steps, jumps] = [0, 0];
  for (let at = 1; at < rows.length; at++) {
    const [before, here] = [rows[at - 1].physical, rows[at].physical];
    if (before === null || here === null) continue;
    steps++;
    if (here !== before + 1) jumps++;
  }
  const where = `This branch is ${plural(rows.length, "logical block")} long, and the table says in which of the pool's ${plural(held.length, "physical block")} each lies.`;
  const how = jumps ? `They are not contiguous: ${count(jumps)} of the ${plural(steps, "step")} from one to the next ${jumps === 1 ? "does" : "do"} not lead to the block after it.`
    : `They need not be contiguous, and here they are: none of the ${plural(steps, "step")} leads elsewhere than to the block after it.`;
  return { words: `${where} ${how}`, facts: { logical: rows.length, physical: held.length, steps, jumps } };
}

// -- memory is not scheduling, and one request is not faster -----------------------------------------------------------

const measureSpeed = {
  words: "Measure it here", waits: "Measuring with a few short replies…",
  run: async ({ socket, current, tour }) => ({ speed: await socket.call("tour_speed", { session: current, parent: tour.parent }) }),
};

function lookAtScheduling({ panel, info, tour }, { speed }) {
  const limit = info.max_num_seqs ?? null;
  const { active } = panel.model.totals;
  const speedNow = tour.rateNow;
  const facts = { limit, active, blocks: panel.model.total, rate: speedNow.toFixed(1) };
  const setting = limit ? `At most ${plural(limit, "reply runs", "replies run")} at once here, which is set at the start` : "How many replies run at once is for that server to say";
  const use = `${percent(active / panel.model.total)} of the pool is in use`;
  const now = `${setting}; now ${use} and ${speedNow ? `${rate(speedNow)} come out` : "no reply runs"}.`;
  if (!speed) return { words: `${now} A limit of one leaves the memory as large as it is, and most of it unused: measure it.`, facts, ask: measureSpeed };
  const { replies, alone, together } = speed;
  const tried = `Tried with ${count(replies)} short replies, one at a time used at most ${plural(alone.peak_blocks, "block")} and gave ${rate(alone.rate)}; all at once used ${count(together.peak_blocks)} and gave ${rate(together.rate)}.`;
  return {
    words: `${now} ${tried}`, note: TRIAL, ask: { ...measureSpeed, words: "Measure again" },
    facts: { ...facts, replies, alone: alone.peak_blocks, together: together.peak_blocks, tokens: alone.tokens + together.tokens },
  };
}

function lookAtSpeed({ panel }, { speed }) {
  const running = panel.stats.running ?? 0;
  if (!speed) {
    return { words: `${plural(running, "reply runs", "replies run")} now. Paging makes room for more replies at once; it does not make one of them faster.`,
      facts: { running }, ask: measureSpeed };
  }
  const { replies, alone, together } = speed;
  const slower = alone.rate_each !== null && together.rate_each !== null && together.rate_each <= alone.rate_each;
  const each = (run) => (run.rate_each === null ? "too fast to tell" : rate(run.rate_each));
  return {
    words: `One reply alone came at ${each(alone)}, and each of ${count(replies)} at once at ${each(together)}${slower ? ": company does not make it faster" : ""}. All together gave ${rate(together.rate)}, against ${rate(alone.rate)} one after the other.`,
    facts: { running, replies, each: alone.rate_each?.toFixed(1), beside: together.rate_each?.toFixed(1), total: together.rate.toFixed(1) },
    ask: { ...measureSpeed, words: "Measure again" },
  };
}

// -- a stable prefix --------------------------------------------------------------------------------------------------

async function askPrefix({ socket, current, tour }) {
  return { prefix: await socket.call("tour_prefix", { session: current, parent: tour.parent }) };
}

function lookAtPrefix(page, { prefix }) {
  if (!prefix) return { words: "The engine is asked what this chat's next prompt would find.", facts: {} };
  const { plain, stamped, line } = prefix;
  const of = (one) => `${count(one.cached_tokens)} of ${count(one.prompt_tokens)} tokens`;
  return {
    words: `Of this chat's next prompt ${of(plain)} would be found in the cache. With “${line}” in front of it only ${of(stamped)} would, as a block is found only if all before it is the same.`,
    facts: { cached: plain.cached_tokens, prompt: plain.prompt_tokens, "stamped-cached": stamped.cached_tokens, "stamped-prompt": stamped.prompt_tokens },
  };
}

// -- a full pool ------------------------------------------------------------------------------------------------------

function lookAtPool({ panel }) {
  const { total, blockSize, totals: { active, cached } } = panel.model;
  const preemptions = panel.stats.preemptions ?? 0;
  return {
    words: `The pool has ${plural(total, "block")} of ${count(blockSize)} tokens, so ${count(total * blockSize)} tokens fit; ${count(active)} are in use and ${count(cached)} cached, which are given up first. If replies need more, one of them loses its blocks and computes them again later: ${plural(preemptions, "preemption")} so far.`,
    facts: { blocks: total, tokens: total * blockSize, active, cached, preemptions },
  };
}

// -- a fork -----------------------------------------------------------------------------------------------------------

/** The last message with several versions: the newest one of a reply, or the reply to the shown one of a question. */
function forked({ chat }) {
  const at = chat.ids.findLastIndex((one) => chat.items.get(one)?.siblings.length > 1);
  if (at < 0) return null;
  const id = chat.ids[at], { role, siblings } = chat.items.get(id);
  if (role === "assistant") return { message: siblings.at(-1), version: siblings.length, what: "Version {} of this reply" };
  const message = chat.ids.slice(at + 1).find((one) => chat.items.get(one)?.role === "assistant");
  return message ? { message, version: siblings.indexOf(id) + 1, what: "The reply to version {} of the question" } : null;
}

async function askFork(page) {
  const found = forked(page);
  if (!found) return { fork: null };
  const { runs } = await page.socket.call("details", { message: found.message });
  const run = runs.find(({ blocks_new: fresh }) => typeof fresh === "number");
  return { fork: run ? { ...run, who: found.what.replace("{}", count(found.version)) } : null };
}

const regenerate = {
  words: "Regenerate the last reply", waits: "The reply is written again…",
  run: async (page) => {
    const { chat, current } = page;
    const last = chat.ids.findLast((one) => chat.items.get(one)?.role === "assistant");
    const reply = await page.turns.askRegenerate(last);
    let seen = false;
    setTimeout(() => { seen = true; page.tour.draw(); }, UNSEEN_MS); // one that ends without any text may never be shown
    await page.tour.until(() => {
      seen ||= Boolean(chat.running) || chat.items.has(reply);
      return page.current !== current || (seen && !chat.running);
    });
    return askFork(page);
  },
};

function lookAtFork(page, { fork }) {
  if (fork) {
    const { blocks_new: fresh, blocks_shared: shared, blocks_copied: copied, who } = fork;
    return {
      words: `${who} shares ${plural(shared, "block")} with the version before, took ${plural(fresh, "new block")}, and copied ${count(copied)} at its first write. Without sharing it would have needed ${count(fresh + shared)} of its own.`,
      facts: { new: fresh, shared, copied },
    };
  }
  const any = page.chat.ids.some((id) => page.chat.items.get(id)?.role === "assistant");
  return {
    words: "No reply of this branch has a second version yet. One more shares the blocks of all that is above it, and takes new ones only for itself.",
    facts: {}, ask: any && !page.chat.running ? regenerate : null,
  };
}
