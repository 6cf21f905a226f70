// Replies to one question that are written at once: which of them are done, how fast the others are, and their Stop.

import { announce } from "./announce.js";
import { h, icon, iconButton, refill } from "./dom.js";
import { count, plural, rate } from "./format.js";

const ENDS = { done: ["check", "done"], stopped: ["stop", "stopped"], interrupted: ["warn", "interrupted"], error: ["warn", "failed"] };

export class Parallel {
  /** `act` has: select(id), stop(ids). */
  constructor(act) {
    this.act = act;
    this.states = new Map(); // by message: {status, tokens, rate}
    this.batches = new Map(); // by question: ids of the replies that were written at the same time
  }

  /** Another chat is shown. */
  clear() {
    this.states.clear();
    this.batches.clear();
  }

  /** A reply has begun, gone on or ended, be it shown or not: {id, parent_id, status}, and tokens once it has ended. */
  take({ id, parent_id: question, status, tokens = null }) {
    const batch = this.batches.get(question) ?? new Set();
    if (status === "streaming") this.batches.set(question, batch.add(id));
    if (!batch.has(id)) return;
    this.states.set(id, { ...this.states.get(id), status, tokens });
    if (this.#running(batch).length) return;
    if (batch.size > 1) announce(`${plural(batch.size, "reply", "replies")} are done.`);
    for (const one of batch) this.states.delete(one);
    this.batches.delete(question);
  }

  /** Those that still run are `ids`: what else was known as running ended while the connection was lost. */
  keep(ids) {
    for (const [question, batch] of this.batches) {
      for (const id of this.#running(batch)) if (!ids.includes(id)) this.take({ id, parent_id: question, status: "done" });
    }
  }

  /** How fast one that runs is; false if it is none of several. */
  rate(id, speed) {
    const state = this.states.get(id);
    if (state) state.rate = speed;
    return Boolean(state);
  }

  /** Ids of all that are being written in the chat, but for `shown`. */
  others(shown) {
    return [...this.batches.values()].flatMap((batch) => this.#running(batch)).filter((id) => id !== shown);
  }

  #running(batch) {
    return [...batch].filter((id) => this.states.get(id)?.status === "streaming");
  }

  /** Show under `message` what runs beside it: nothing, where it is alone. */
  draw(message) {
    const { siblings = [], parent_id: question, role } = message.view;
    const batch = role === "assistant" ? this.batches.get(question) : null;
    const ids = batch ? siblings.filter((id) => batch.has(id)) : [];
    const shown = ids.length > 1 || (ids.length === 1 && ids[0] !== message.id);
    if (message.beside.hidden === shown) message.beside.hidden = !shown;
    if (!shown) return refill(message.beside, "", () => []);
    const rows = ids.map((id) => ({ id, number: siblings.indexOf(id) + 1, on: id === message.id, ...this.states.get(id) }));
    refill(message.beside, JSON.stringify(rows), () => this.#row(rows, siblings.length));
  }

  #row(rows, total) {
    const running = rows.filter(({ status }) => status === "streaming").map(({ id }) => id);
    return [
      h("span.beside-words", {}, running.length === rows.length ? `Writing ${rows.length} at once`
        : `${rows.length - running.length} of ${rows.length} ended`),
      ...rows.map((row) => this.#chip(row, total)),
      running.length > 1 ? h("button.link", { type: "button", "data-testid": "stop-all", onclick: () => this.act.stop(running) },
        "Stop all") : null,
    ];
  }

  #chip({ id, number, on, status, tokens, rate: speed }, total) {
    const runs = status === "streaming";
    const [sign, ended] = ENDS[status] ?? [null, ""];
    const figure = runs ? (speed ? rate(speed) : "starts") : status === "done" && tokens ? plural(tokens, "token") : ended;
    const unseen = (words) => h("span.unseen", {}, words);
    return h("span.beside-one", { "data-testid": "parallel-reply", "data-message-id": id, "data-status": status, "data-on": String(on) },
      h("button", { type: "button", "aria-current": on ? "true" : null, onclick: () => this.act.select(id) },
      unseen(on ? "Version " : "Show version "), h("b", {}, count(number)), unseen(` of ${total}, ${runs ? "being written, " : ended ? `${ended}, ` : ""}`),
      sign ? icon(sign, 13) : h("i", { "aria-hidden": "true" }), h("span", {}, figure), unseen(on ? ", shown" : "")),
      runs ? iconButton("stop", `Stop version ${number}`, () => this.act.stop([id]), { "data-testid": "parallel-stop" }) : null);
  }
}
