// What travels of the pool and of steps is packed (see kv_packing.py, step_packing.py and pool_views.py); here it is whole again.

/** The blocks of runs of [blocks skipped since the run before, how many, …]. */
export function spread(runs, visit) {
  let block = 0;
  for (const run of runs) {
    block += run[0];
    for (const end = block + run[1]; block < end; block++) visit(block, run);
  }
}

/** A snapshot with one letter a block (`states`), and `held`: [block, references, owners] of each held one. */
export function unpackedSnapshot({ states, owners, held, ...rest }) {
  const blocks = [];
  spread(held, (block, [, , count, whose]) => blocks.push([block, count, whose.map((at) => owners[at])]));
  return { ...rest, states: states.map(([letter, size]) => letter.repeat(size)).join(""), held: blocks };
}

/** The events of a frame, each as the engine told it; those about many blocks keep their `spans`: see `unpacked`. */
export function unpackedEvents({ seq, time, types, owners, rows }) {
  let due = seq;
  return rows.map(([type, where, counts, states, tokens, owner, after, number = due]) => {
    due = number + 1;
    const told = { seq: number, type: types[type], num_tokens: tokens, owner: owners[owner] ?? null, time: (1e3 * time + after) / 1e3 };
    if (where?.of) return { ...told, spans: where.of, ref_counts: counts, states };
    const blocks = typeof where === "number" ? [where] : where;
    return { ...told, blocks, ref_counts: typeof counts === "number" ? blocks.map(() => counts) : counts,
      states: states?.length === 1 ? states.repeat(blocks.length) : states };
  });
}

/** An event with the number, count and state of each of its blocks: that of one about many is kept with `spans` of them. */
export function unpacked(event) {
  if (!event.spans) return event;
  const blocks = event.spans.flatMap(([first, size]) =>
    Array.from({ length: Math.abs(size) }, (_, at) => first + (size < 0 ? -at : at)));
  const { ref_counts: counts, states } = event;
  return {
    ...event, blocks,
    ref_counts: Array.isArray(counts) ? counts : blocks.map(() => counts),
    states: states.length === 1 ? states.repeat(blocks.length) : states,
  };
}

/** Steps of the engine, one by one. */
export function unpackedSteps({ owners, runs }) {
  return runs.flatMap(([first, times, decodes, waiting, chunks = [], lost = [], failed = 0]) => times.map((ms, at) => ({
    step: first + at, ms, decodes, waiting, failed: Boolean(failed), lost: lost.map((place) => owners[place]),
    chunks: chunks.map(([place, from, tokens, total]) => ({ owner: owners[place], from, tokens, total })),
    tokens: chunks.reduce((sum, [, , tokens]) => sum + tokens, decodes),
  })));
}
