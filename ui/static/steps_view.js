// What the engine's newest steps ran: a bar for each, of decodes and chunks of prompts, and the same in words.

import { h, setText, shape } from "./dom.js";
import { count, plural } from "./format.js";
import { unpackedSteps } from "./kv_unpacking.js";

const KEPT = 40;
const LISTED = 5;
const HEIGHT = 72, SLOT = 10; // of the drawing, in its own units
const LEAST = 3; // what a decode or a chunk is drawn with at least
const KEY = [["decodes", "decodes"], ["chunk", "chunks of prompts"], ["lost", "preempted"], ["failed", "failed"]];

export class StepsView {
  /** `nameOf(owner)` says whose a chunk is, `hueOf(owner)` gives 0 to 5. */
  constructor(nameOf, hueOf) {
    Object.assign(this, { nameOf, hueOf });
    this.steps = [];
    this.budget = 0;
    this.chosen = null; // number of the step that is looked at; null: the newest
    this.told = h("small");
    this.scale = h("small.scale", { "aria-hidden": "true" });
    this.chart = shape("svg", { viewBox: `0 0 ${KEPT * SLOT} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.slider = h("input", {
      type: "range", step: "1", "aria-label": "Step of the engine", "data-testid": "step-slider",
      oninput: () => this.#choose(Number(this.slider.value)),
    });
    this.list = h("ol.step-list", { "data-testid": "step-list" });
    this.none = h("p.none", {}, "No step has run yet.");
    this.some = h("div", { hidden: true },
      h("div.step-chart", { onpointermove: (event) => this.#point(event), onpointerleave: () => this.#choose(null) }, this.chart, this.scale),
      this.slider,
      h("p.step-key", {}, ...KEY.map(([kind, words]) => h("span", {}, h(`i.${kind}`), words))),
      this.list);
    this.element = h("div", {}, h("h3", {}, "Steps of the engine", this.told),
      h("p.none.not-now", {}, "What steps ran is known of now only."), this.none, this.some);
  }

  /** Steps as they travel. `fresh`: they take the place of those that are known. */
  take(packed, fresh = false) {
    if (fresh) [this.steps, this.chosen] = [[], null];
    const newest = this.steps.at(-1)?.step ?? -1;
    if (!packed) return;
    this.budget = packed.budget;
    this.steps.push(...unpackedSteps(packed).filter(({ step }) => step > newest));
    this.steps.splice(0, this.steps.length - KEPT);
    if (this.chosen !== null && this.chosen < this.steps[0].step) this.chosen = null;
  }

  #choose(place) {
    const last = this.steps.length - 1;
    this.chosen = place === null || place >= last ? null : this.steps[Math.max(place, 0)].step;
    this.draw();
  }

  #point({ clientX }) {
    const { left, width } = this.chart.getBoundingClientRect();
    this.#choose(Math.floor(((clientX - left) / width) * KEPT) - (KEPT - this.steps.length));
  }

  draw() {
    const { steps, slider } = this;
    this.none.hidden = steps.length > 0;
    this.some.hidden = !steps.length;
    if (!steps.length) return;
    const last = steps.length - 1;
    const place = this.chosen === null ? last : steps.findIndex(({ step }) => step === this.chosen);
    setText(this.told, `room for ${plural(this.budget, "token")} each`);
    slider.max = String(last);
    slider.value = String(place);
    slider.setAttribute("aria-valuetext", this.words(steps[place]));
    this.#drawBars(place);
    this.list.replaceChildren(...steps.slice(Math.max(0, place - LISTED + 1), place + 1).reverse().map((step) => this.#line(step)));
  }

  #drawBars(place) {
    const { steps, budget } = this;
    const most = Math.max(...steps.map(({ tokens }) => tokens));
    const top = Math.min(budget, Math.max(8, 2 ** Math.ceil(Math.log2(most || 1))));
    setText(this.scale, top === budget ? `${plural(top, "token")}, all of the room` : `${count(top)} of the ${plural(budget, "token")}`);
    const decodes = shape("path", { class: "decodes" }); // one for all: most steps are nothing else
    let outline = "";
    const others = steps.flatMap((step, at) => {
      const left = (KEPT - steps.length + at) * SLOT;
      const height = step.decodes && heightOf(step.decodes, top);
      if (height) outline += `M ${left + 1.5} ${HEIGHT} v ${1 - height} h ${SLOT - 3} v ${height - 1} z `;
      return this.#bar(step, left, HEIGHT - height, top);
    });
    decodes.setAttribute("d", outline);
    const here = shape("rect", { class: "here", x: (KEPT - steps.length + place) * SLOT, y: 0, width: this.chosen === null ? 0 : SLOT, height: HEIGHT });
    this.chart.replaceChildren(here, decodes, ...others);
    const chunks = steps.reduce((sum, step) => sum + step.chunks.length, 0);
    this.chart.setAttribute("aria-label", `Tokens of the newest ${plural(steps.length, "step")}: ${count(Math.min(...steps.map(({ tokens }) => tokens)))} to ${count(most)} of ${count(budget)} each, with ${plural(chunks, "chunk")} of prompts`);
  }

  /** What there is above the decodes of a step: chunks of prompts, and a mark. */
  #bar({ chunks, failed, lost }, left, under, top) {
    const parts = chunks.map(({ owner, tokens }) => {
      const height = heightOf(tokens, top);
      under -= height;
      return shape("rect", {
        class: "chunk", style: `--c: var(--pc-own-${this.hueOf(owner)})`,
        x: left + 1.5, y: under.toFixed(1), width: SLOT - 3, height: (height - 1).toFixed(1),
      });
    });
    const above = Math.max(8, under);
    if (failed) parts.push(shape("path", { class: "failed", d: `M ${left + 2} ${above - 7} l 6 5 m 0 -5 l -6 5` }));
    else if (lost.length) parts.push(shape("path", { class: "lost", d: `M ${left + 2} ${above - 7} h 6 l -3 5 z` }));
    return parts;
  }

  #line(step) {
    return h("li", { class: step.failed ? "failed" : null, "data-step": String(step.step) },
      h("b", {}, `step ${count(step.step)}`), `: ${this.#parts(step).join(" · ")}`);
  }

  /** A step in words. */
  words(step) {
    return `step ${count(step.step)}: ${this.#parts(step).join(", ")}`;
  }

  #parts({ ms, decodes, waiting, chunks, lost, failed, tokens }) {
    return [
      failed && "failed",
      decodes && plural(decodes, "decode"),
      ...chunks.map((one) => `prefill of ${this.#name(one.owner)} ${reach(one)}`),
      `${count(tokens)} of ${plural(this.budget, "token")}`,
      waiting && `${count(waiting)} waiting`,
      lost.length && `preempted ${lost.map((owner) => this.#name(owner)).join(", ")}`,
      `${count(ms)} ms`,
    ].filter(Boolean);
  }

  #name(owner) {
    if (!owner) return "a deleted chat";
    const name = this.nameOf(owner);
    return ["this chat", "API"].includes(name) ? name : `“${name}”`;
  }
}

function heightOf(tokens, top) {
  return Math.max(LEAST, (tokens / top) * (HEIGHT - 8));
}

/** How far a chunk gets in its prompt. */
function reach({ from, tokens, total }) {
  return from ? `${count(tokens)}, to ${count(from + tokens)} of ${count(total)}` : `${count(tokens)} of ${count(total)}`;
}
