// The savings meter: blocks as they are, as they would be if none were shared, and with whole contexts set aside.

import { h } from "./dom.js";
import { count, percent, plural } from "./format.js";

const BARS = [
  ["physical", "used", "Blocks that requests hold"],
  ["logical", "without sharing", "Each block as often as requests refer to it"],
  ["contiguous", "set aside whole", "The longest context for each request that runs, as without paging"],
];

export class Savings {
  constructor() {
    this.info = {};
    this.key = null;
    this.rows = Object.fromEntries(BARS.map(([name, title, why]) => {
      const [bar, value] = [h("i"), h("b", {}, "–")];
      return [name, { bar, value, element: h(`div.${name}`, { title: why, "data-testid": `savings-${name}` }, h("span", {}, title), h("u", {}, bar), value) }];
    }));
    this.sentence = h("p.about", { "data-testid": "savings-words" });
    this.element = h("div", {}, h("h3", {}, "What paging saves", h("small", {}, "in blocks")),
      h("div.savings", {}, ...Object.values(this.rows).map(({ element }) => element)), this.sentence);
  }

  /** `info` of the engine: max_model_len, kv_groups. */
  tellInfo(info) {
    this.info = info ?? {};
  }

  /** Of a pool at a moment, and how many requests ran then; null: not known. */
  draw(model, running) {
    const figures = this.#figures(model, running);
    const key = JSON.stringify([figures, running, this.info.max_model_len]);
    if (key === this.key) return;
    this.key = key;
    const most = Math.max(1, ...Object.values(figures).map((value) => value ?? 0));
    for (const [name, { bar, value }] of Object.entries(this.rows)) {
      bar.style.width = `${(100 * (figures[name] ?? 0)) / most}%`;
      value.textContent = figures[name] === null ? "–" : count(figures[name]);
    }
    this.sentence.textContent = this.#words(figures, running, model.total);
  }

  #figures(model, running) {
    const { active } = model.totals;
    const { max_model_len: longest, kv_groups: groups } = this.info;
    const contiguous = running === null || !longest ? null : running * (groups?.length || 1) * Math.ceil(longest / model.blockSize);
    return { physical: active, logical: model.references, contiguous };
  }

  #words({ physical, logical, contiguous }, running, total) {
    if (!physical) return "No request holds a block now: nothing is set aside for chats that rest.";
    const shared = logical > physical
      ? `Sharing keeps ${plural(logical - physical, "block")} from being stored again`
      : "No block is shared now";
    if (contiguous === null) return `${shared}.`;
    const beyond = contiguous > total ? `, more than the ${count(total)} that there are` : "";
    return `${shared}; ${plural(running, "whole context")} would take ${plural(contiguous, "block")}${beyond}: ${percent(physical / contiguous).replace(" ", "\u00a0")} of that is used.`;
  }
}
