// The panel in one sentence, for who does not see it: said politely when much has changed since it was said last, once the
// engine is calm again, and to everybody who asks for it in the menu.

import { h } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { toast } from "./toasts.js";

const NOTABLE = 0.1; // of the pool: a smaller change of what is in use or cached is not worth a word

export class PanelSummary {
  /** `panel` has: model, stats, feed.live, menu. */
  constructor(panel) {
    this.panel = panel;
    this.said = null;
    this.element = h("p.unseen", { role: "status", "data-testid": "kv-summary" });
    panel.menu.add({ words: "Sum it up", icon: "reply", testid: "kv-sum-up", run: () => toast(this.words) });
  }

  get words() {
    const { model, stats, feed: { live } } = this.panel;
    if (!model.loaded) return "Nothing is known of the KV blocks yet.";
    const { free, cached, active, shared } = model.totals;
    const used = active ? `${count(active)} in use${shared ? `, ${count(shared)} of them shared` : ""}` : "none in use";
    const lost = stats.preemptions ? `; ${plural(stats.preemptions, "preemption")} so far` : "";
    const sum = !live ? "not live" : model.conserved ? "counts add up" : "counts do not add up";
    return `Of ${plural(model.total, "KV block")} ${used}, ${count(cached)} cached, ${count(free)} free (${percent((active + cached) / model.total)} hold something)${lost}; ${sum}.`;
  }

  /** The engine is calm: say what has changed if it is much. What the panel opens with is no change. */
  note() {
    const now = this.#moment();
    const before = this.said ?? now;
    const much = ["cached", "active"].some((name) => Math.abs(now[name] - before[name]) >= NOTABLE);
    if (this.said && !much && now.preemptions === before.preemptions && now.conserved === before.conserved) return;
    if (this.said) this.element.textContent = this.words;
    this.said = now;
  }

  #moment() {
    const { model: { total, totals, conserved }, stats } = this.panel;
    return { cached: totals.cached / total, active: totals.active / total, conserved, preemptions: stats.preemptions ?? 0 };
  }
}
