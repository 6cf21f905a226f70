// The figures at the top of the panel: gauges, the bar of the pool and its legend. All are of the model that is shown.

import { h, setText } from "./dom.js";
import { bytes, count, percent } from "./format.js";

const LEGEND = ["active", "shared", "cached", "free"];

export class Figures {
  /** `act` has: hueOf(owner). */
  constructor(model, grid, act) {
    Object.assign(this, { model, grid, act });
    this.stats = {};
    this.bytes = 0;
    this.gauges = Object.fromEntries(["hits", "load", "preemptions", "sharing"].map((name) => [name, h("b", {}, "–")]));
    this.size = h("small");
    this.bar = h("div.usage", { role: "img" }, h("i.active"), h("i.shared"), h("i.cached"));
    this.legend = Object.fromEntries(LEGEND.map((name) => [name, h("b", {}, "–")]));
    this.mine = h("b", {}, "–");
    this.ofBranch = h("span.mine", { hidden: true, title: "Pale in the colour of the shown chat" }, h("i"), "cached, this branch ", this.mine);
    const gauge = (name, label, title) => h("div", { title }, this.gauges[name], h("span", {}, label));
    this.elements = [
      h("div.gauges", {},
        gauge("hits", "prefix hits", "Share of all prompt tokens whose KV was found in the cache"),
        gauge("load", "running / waiting", "Requests in the engine"),
        gauge("preemptions", "preempted", "Requests that lost their blocks for a while because the pool was full"),
        gauge("sharing", "saved by sharing", "References over blocks in use: how often each block would be stored without sharing")),
      h("div", {}, this.bar, h("div.legend", {}, ...Object.entries(this.legend).map(([name, value]) =>
        h(`span.${name}`, {}, h("i"), `${name} `, value)), this.ofBranch, this.size)),
    ];
  }

  /** How much memory the engine's pool takes. */
  tellBytes(kvBytes) {
    this.bytes = kvBytes ?? 0;
  }

  draw(live) {
    const { free, cached, active, shared } = this.model.totals;
    const { stats, gauges, legend } = this;
    const { total, blockSize, names } = this.model;
    const sharing = this.model.sharing;
    setText(gauges.hits, stats.prompt_tokens ? percent(stats.cached_tokens / stats.prompt_tokens) : "–");
    setText(gauges.load, !live || stats.running === undefined ? "–" : `${stats.running} / ${stats.waiting ?? 0}`);
    setText(gauges.preemptions, stats.preemptions === null ? "–" : count(stats.preemptions ?? 0));
    setText(gauges.sharing, sharing === null ? "–" : `${sharing.toFixed(1)}×`);
    const share = (value) => `${(100 * value) / total}%`;
    const widths = { active: active - shared, shared, cached };
    for (const [name, value] of Object.entries(widths)) this.bar.querySelector(`.${name}`).style.width = share(value);
    for (const [name, value] of Object.entries({ active, shared, cached, free })) setText(legend[name], count(value));
    const ofEngine = names === null && this.bytes; // a recording may be of another pool
    setText(this.size, `${count(total)} × ${count(blockSize)} tokens${ofEngine ? `, ${bytes(this.bytes)}` : ""}`);
    const mine = this.grid.numPale;
    this.ofBranch.hidden = !mine;
    this.ofBranch.style.setProperty("--c", `var(--pc-own-${this.act.hueOf(this.grid.branchOwner)})`);
    setText(this.mine, count(mine));
    this.bar.setAttribute("aria-label", `${active} active, ${cached} cached, ${free} free`);
  }
}
