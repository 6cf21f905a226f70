// The panel's part about the engine's work: its figures over the last minutes, what paging saves, what its steps run.
// Data comes in by methods; nothing is asked for or drawn while another part is shown.

import { h } from "./dom.js";
import { Savings } from "./savings.js";
import { SeriesView } from "./series.js";
import { StepsView } from "./steps_view.js";

export class EngineTab {
  /** `act` has: follow(on), which has steps told and answers with those there are; nameOf(owner), hueOf(owner), redraw(). */
  constructor(act) {
    this.act = act;
    this.series = new SeriesView();
    this.steps = new StepsView(act.nameOf, act.hueOf);
    this.savings = new Savings();
    this.shown = this.following = this.fresh = false;
    this.element = h("div.part.engine-part", {}, this.series.element, this.steps.element, this.savings.element);
  }

  /** Whether this part is the one that is shown. */
  show(on) {
    this.shown = this.fresh = on;
    this.#ask();
    this.act.redraw();
  }

  /** Whether the page is told of anything. */
  follow(on) {
    this.following = on;
    if (this.shown) this.#ask();
  }

  async #ask() {
    if (!this.following) return;
    const found = await this.act.follow(this.shown).catch(() => null);
    if (!found || !this.shown) return;
    this.steps.take(found.steps, true);
    this.take(found.stats);
    this.act.redraw();
  }

  /** The engine's facts: see Savings. */
  tellInfo(info) {
    this.savings.tellInfo(info);
  }

  /** Counters, and new steps if there are any; told at a time in seconds. */
  take(stats, time) {
    this.series.take(stats, time);
    if (stats.new_steps) this.steps.take(stats.new_steps);
    this.fresh = true;
  }

  /** The panel shows the pool as it was at a time in seconds; null: now, NaN: at a time of another engine. */
  mark(time) {
    this.series.mark(time);
    this.fresh = true;
  }

  /** Draw what is new, and what is saved in a pool at a moment; `running`: how many requests ran then, null if not known. */
  draw(model, running) {
    if (!this.shown || !this.fresh) return; // blocks change far more often than there is something to be told
    this.fresh = false;
    this.savings.draw(model, running);
    this.series.draw();
    this.steps.draw();
  }
}
