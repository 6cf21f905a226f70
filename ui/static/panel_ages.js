// The parts of the panel about how old blocks are: the colours of the grid, and the list of what is held for little.

import { BlockAges } from "./block_ages.js";
import { GridModes } from "./grid_modes.js";
import { IdleList } from "./idle_list.js";

/** `panel` is the KV panel, with its grid and its card. */
export function agesOf(panel) {
  const ages = new BlockAges(() => panel.act.call("kv_ages"));
  const idle = new IdleList(panel);
  const modes = new GridModes(panel, ages);
  panel.card.element.append(idle.element);
  return { ages, idle, modes };
}
