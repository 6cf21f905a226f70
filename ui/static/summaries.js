// Summaries in the chat: a card that says what it stands for, and the messages above it that are sent no more.

import { announce } from "./announce.js";
import { h, icon, refill } from "./dom.js";
import { count, plural } from "./format.js";
import { complain } from "./toasts.js";

/** What a message shows beside its text because of how it came to be; called whenever it has changed. */
export function dress(message) {
  if (message.view.kind === "summary") {
    message.card ??= new SummaryCard(message);
    message.card.draw();
  }
  drawOrigin(message);
}

/** Messages above the last summary of the shown branch look as if they were put away. */
export function markUnsent(ids, items) {
  const from = ids.findLastIndex((id) => items.get(id).view.kind === "summary" && !items.get(id).growing);
  ids.forEach((id, at) => {
    const { element } = items.get(id);
    const unsent = at < from;
    element.classList.toggle("unsent", unsent);
    if (unsent) element.title = "Summed up below; not sent to the model any more";
    else element.removeAttribute("title");
  });
}

class SummaryCard {
  constructor(message) {
    this.message = message;
    this.open = true;
    this.told = false;
    const body = message.element.querySelector(".body");
    body.id = `pc-summary-${message.id}`;
    this.fold = h("button.summary-fold", { type: "button", "aria-controls": body.id, "data-testid": "summary-fold", onclick: () => this.#toggle() });
    this.words = h("p.summary-words");
    message.element.classList.add("summary");
    body.before(h("div.summary-head", { "data-testid": "summary-head" }, this.fold, this.words));
  }

  draw() {
    const { message } = this;
    const { growing, view } = message;
    message.element.classList.toggle("folded", !this.open);
    this.fold.setAttribute("aria-expanded", String(this.open));
    refill(this.fold, `${this.open}|${this.#figures()}`, () => [icon(this.open ? "down-small" : "right", 14), h("b", {}, "Summary"), h("span", {}, this.#figures())]);
    const left = view.generation?.left_out;
    const words = growing ? "The model sums up what is above. Stop leaves the chat as it was."
      : `The chat goes on from here: what is above stays, but is sent no more.${left ? ` The oldest ${plural(left, "message")} did not fit, and ${left === 1 ? "is" : "are"} not in it.` : ""}`;
    if (this.words.textContent !== words) this.words.textContent = words;
    this.#tellEnd();
  }

  #figures() {
    const { growing, view } = this.message;
    const made = view.generation;
    if (growing) return "being written";
    if (!made?.prompt_tokens) return "edited";
    const before = made.prompt_tokens + (made.left_out_tokens ?? 0);
    return `${count(before)} tokens before, ${count(made.completion_tokens ?? 0)} after`;
  }

  /** One that did not come to its end is gone with the next news of the branch. */
  #tellEnd() {
    const { hidden, error, status } = this.message.view;
    if (!hidden || status === "streaming" || this.told) return;
    this.told = true;
    if (error && status === "error") complain(new Error(error));
    else announce("No summary was written; the chat is as it was.");
  }

  #toggle() {
    this.open = !this.open;
    this.draw();
  }
}

/** "Branched from version 2 at token 41", under a reply that was given the beginning of another one. */
function drawOrigin(message) {
  const given = message.view.generation?.given_tokens;
  if (!given) return message.origin?.remove();
  const version = message.siblings.indexOf(message.view.copied_from) + 1;
  message.origin ??= h("p.origin", { "data-testid": "origin" });
  message.origin.textContent = `Branched from ${version ? `version ${version}` : "another version"} at token ${count(given)}`;
  if (!message.origin.isConnected) message.foot.before(message.origin);
  return undefined;
}
