// The parts of the panel about prefixes, put into it: the tab with their tree, and the line that says why not all is found.

import { PrefixTree } from "./prefix_tree.js";
import { WhyLine } from "./why_line.js";

/** `panel` is the KV panel, before its tabs are made. */
export function prefixesOf(panel) {
  const { act } = panel;
  const awake = (...tabs) => panel.feed.following && panel.feed.live && panel.past === null && !document.hidden && tabs.includes(panel.tabs.chosen);
  const why = new WhyLine({
    call: act.call, session: act.session, goTo: act.goTo, awake: () => awake("table", "prefixes"), state: () => stateOf(panel),
  });
  const tree = new PrefixTree({
    call: act.call, session: act.session, hueOf: act.hueOf, nameOf: act.titleOf, goTo: act.goTo, awake: () => awake("prefixes"),
    stamp: () => [act.session(), act.branch(), panel.model.epoch, panel.model.seq].join(" "),
    mark: (blocks) => panel.grid.mark(blocks), choose: (blocks) => panel.branch.table.markRows(blocks), pick: (block) => panel.pick(block),
  }, why.places[1].element);
  panel.branch.table.element.append(why.places[0].element);
  panel.onPick((block) => tree.pick(block));
  panel.onDraw(() => {
    tree.changed();
    why.changed();
  });
  return { tree, why };
}

/** What the block table says: tokens of the branch, and how many of them are found from the beginning on. */
function stateOf({ act, branch: { table, end } }) {
  let total = 0, found = 0, whole = true;
  for (const { tokens, cached } of table.rows) {
    total += tokens;
    if (whole) found += cached;
    whole &&= cached === tokens;
  }
  return { session: table.session, end, total, found, growing: act.growing() };
}
