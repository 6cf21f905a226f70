// One sentence that says how much of a branch, or of a message that is being written, is found in the cache, and why the
// rest is not.

import { h, throttled } from "./dom.js";

const PAUSE_MS = 1500;

export class WhyLine {
  /** `act` has: call(op, args), session(), goTo(message), awake(), state() -> {session, end, total, found, growing}. */
  constructor(act) {
    this.act = act;
    this.places = [this.#place(), this.#place()];
    this.ask = throttled(PAUSE_MS, () => this.#ask());
    this.asked = null;
    this.busy = false;
  }

  #place() {
    const words = h("span"), go = h("button.link", { type: "button", hidden: true, onclick: () => this.act.goTo(this.message) }, "Go to message");
    const differs = h("p", { hidden: true }), next = h("p", { hidden: true });
    const element = h("div.why", { "data-testid": "kv-why" }, h("p", {}, words, " ", go), differs, next);
    return { element, words, go, differs, next };
  }

  /** The block table may say something else now. */
  changed() {
    if (!this.act.awake()) return;
    const key = this.#key();
    const { session, end } = this.act.state();
    if (key === null || (this.told && (this.told.session !== session || this.told.end !== end))) this.#tell(null);
    if (key === null) return;
    if (key !== this.asked) this.ask();
  }

  /** What the composer's message would find; null: nothing is written. */
  takeProbe(why) {
    for (const { next } of this.places) {
      next.hidden = !why;
      next.textContent = why ?? "";
    }
  }

  #key() {
    const { session, end, total, found, growing } = this.act.state();
    if (session === null || !total) return null;
    const whole = found >= total - 1;
    return [session, end, whole && growing ? "growing" : total, whole ? "whole" : found].join();
  }

  async #ask() {
    const key = this.#key();
    if (key === null || key === this.asked || this.busy || !this.act.awake()) return;
    this.busy = true;
    const found = await this.act.call("kv_why").catch(() => null); // no engine: the next change asks again
    this.busy = false;
    if (found && found.session === this.act.session() && found.end === this.act.state().end) this.#tell(found);
    this.asked = key;
    this.changed();
  }

  #tell(found) {
    if (found === null) this.asked = null;
    this.told = found;
    this.message = found?.message || null;
    for (const { element, words, go, differs } of this.places) {
      element.dataset.reason = found?.reason ?? "";
      words.textContent = found?.sentence ?? "";
      go.hidden = !this.message || found.reason === "new";
      differs.hidden = !found?.differs;
      differs.textContent = found?.differs ?? "";
    }
  }
}
