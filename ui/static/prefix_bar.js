// The bar of a run of blocks: a cell for each while they have room, else as long as they are many. What is in the pool is
// filled, hatched where branches share it, and what is not is an outline.

import { h } from "./dom.js";

const CELL = 8; // pixels, as in prefix_tree.css
const MOST_CELLS = 36;

/** `run` has: blocks, counts, branches. */
export function prefixBar(run) {
  const { blocks } = run;
  const parts = [];
  blocks.forEach((block, at) => {
    const kind = block === null ? "missing" : countAt(run, at) ? "active" : "cached";
    const last = parts.at(-1);
    if (last?.kind === kind) last.size++;
    else parts.push({ kind, size: 1 });
  });
  const cells = blocks.length <= MOST_CELLS;
  return h(`span.bar${cells ? ".cells" : ""}`, {
    "aria-hidden": "true", "data-cells": blocks.map((block) => block ?? "").join(" "), style: cells ? `width:${blocks.length * CELL - 1}px` : "",
  }, ...parts.map(({ kind, size }) => h(`i.${kind}`, { style: `flex:${size} 0 0` })), h("b.pick"));
}

function countAt({ counts }, at) {
  return Array.isArray(counts) ? counts[at] : counts;
}
