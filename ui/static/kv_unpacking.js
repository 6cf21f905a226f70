// What travels of the pool is packed (see kv_packing.py and pool_views.py); here it is whole again.

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

/** The events of a frame, each as the engine told it; those about many blocks keep their `spans` (see kvmodel.js). */
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
