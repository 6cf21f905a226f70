// One message: its text, what is known about it, and what can be done with it.

import { Blocks } from "./blocks.js";
import { h, icon, iconButton, refill } from "./dom.js";
import { count, plural, rate, seconds } from "./format.js";
import { Editor } from "./editor.js";
import { Fold } from "./fold.js";
import { openMenu } from "./menu.js";
import { Thinking } from "./thinking.js";
import { Waits } from "./waits.js";

const ENDED = {
  stopped: "Stopped.",
  interrupted: "This reply was interrupted; what had arrived is here.",
  error: "The reply failed.",
};

export class Message {
  /** `act` has: copy(id, button), regenerate(id), edit(id, text), select(id), resume(id), menu(message) -> choices. */
  constructor(view, act) {
    this.act = act;
    this.id = view.id;
    this.role = view.role;
    this.editor = null;
    this.body = view.role === "assistant" ? new Blocks() : null;
    this.thinking = this.body ? new Thinking() : null;
    this.text = this.body ? this.body.element : h("div.typed");
    this.fold = this.body ? null : new Fold(this.text);
    this.waits = this.body ? new Waits() : null;
    this.note = h("div.note", { hidden: true });
    this.foot = h("footer.foot");
    this.element = h(`article.msg.${view.role}`, {
      "data-testid": "message", "data-role": view.role, "data-message-id": view.id,
    }, h("div.body", {}, this.text), this.note, this.foot);
    this.update(view);
  }

  get growing() {
    return this.view.status === "streaming";
  }

  update(view) {
    this.view = { ...this.view, ...view };
    const { element, growing } = this;
    element.dataset.status = this.view.status;
    element.setAttribute("aria-label", this.role === "user" ? "You" : this.role === "assistant" ? "Reply" : this.role);
    element.setAttribute("aria-busy", String(growing));
    if (!this.body) {
      this.text.textContent = this.view.content;
      this.fold.draw(this.view.content);
    } else {
      if (view.blocks) this.body.set(view.blocks);
      if (view.thoughts) this.thinking.blocks.set(view.thoughts);
    }
    this.#drawText();
    this.#drawNote();
    this.#drawFoot();
  }

  /** Returns false when the patch does not fit what is here: the reply has to be fetched again. */
  patch(frame) {
    const fits = (frame.part === "thoughts" ? this.thinking.blocks : this.body).patch(frame);
    this.#drawText();
    return fits;
  }

  #drawText() {
    if (!this.body) return;
    const empty = !this.body.html.length;
    this.thinking.draw(this.growing && empty);
    if (this.thinking.empty) this.thinking.element.remove();
    else if (!this.thinking.element.parentElement) this.text.before(this.thinking.element);
    const thinks = !this.thinking.empty && empty;
    const awaiting = this.growing && empty && !thinks;
    this.element.classList.toggle("awaiting", awaiting);
    this.body.caret(this.growing && !thinks);
    if (!awaiting) return this.waits.element.remove();
    this.waits.draw();
    if (!this.waits.element.isConnected) this.text.append(this.waits.element);
  }

  #drawNote() {
    const { status } = this.view;
    const words = this.#ending();
    this.note.hidden = !words;
    if (!words) return;
    const { resumable, unsaved } = this;
    const link = (text, onclick, testid) => h("button.link", { type: "button", onclick, "data-testid": testid }, text);
    refill(this.note, `${status}|${words}|${resumable}`, () => [
      status === "error" || status === "interrupted" || unsaved ? icon("warn") : null,
      h("span", {}, words),
      resumable ? link("Continue", () => this.act.resume(this.id), "continue") : null,
      status === "error" ? link("Try again", () => this.act.regenerate(this.id)) : null,
      this.role === "user" ? link("Get a reply", () => this.act.regenerate(this.id)) : null,
    ]);
    this.note.dataset.kind = unsaved ? "unsaved" : status;
  }

  /** What to say about how it ended; nothing for a whole reply. */
  #ending() {
    const { status, error, generation } = this.view;
    if (this.role === "user") return this.last ? "This message has no reply." : null;
    if (this.unsaved) return error;
    if (status === "done") return generation?.finish_reason === "length" ? "The reply limit was reached." : null;
    return status === "stopped" ? ENDED.stopped : ENDED[status] && (error || ENDED[status]);
  }

  /** A reply that did not fail, with an error: it could not be stored so far. */
  get unsaved() {
    return this.role === "assistant" && Boolean(this.view.error) && ["streaming", "done", "stopped"].includes(this.view.status);
  }

  get resumable() {
    const { status, generation, content, reasoning } = this.view;
    const cut = ["stopped", "interrupted", "error"].includes(status) || generation?.finish_reason === "length";
    return this.role === "assistant" && cut && !this.unsaved && Boolean(content || reasoning);
  }

  #drawFoot() {
    const { siblings = [], sibling_index: index, generation, status } = this.view;
    refill(this.foot, JSON.stringify([siblings, index, generation, status, this.growing && this.rate]), () => [
      siblings.length > 1 ? this.#siblings(siblings, index) : null,
      this.role === "assistant" ? this.#stats(generation) : null,
      h("span.acts", {}, ...this.#actions()),
    ]);
  }

  #siblings(ids, index) {
    const go = (step) => this.act.select(ids[index - 1 + step]);
    return h("span.sib", { role: "group", "aria-label": "Versions of this message" },
      iconButton("left", "Previous version", () => go(-1), { "data-testid": "sibling-prev", disabled: index <= 1 }),
      h("span.at", { "data-testid": "sibling-label" }, `${index}/${ids.length}`),
      iconButton("right", "Next version", () => go(1), { "data-testid": "sibling-next", disabled: index >= ids.length }));
  }

  #stats(generation) {
    const made = generation ?? {};
    const parts = [];
    if (made.prompt_tokens && made.cached_tokens !== null && made.cached_tokens !== undefined) {
      const share = Math.round((100 * made.cached_tokens) / made.prompt_tokens);
      parts.push(h("span.meter", {}, h("span", {}, `${count(made.cached_tokens)} of ${count(made.prompt_tokens)}`, h("span.wide", {}, " tokens"), " reused"),
        h("u", { style: `--p:${share}%`, "aria-hidden": "true" })));
    }
    if (typeof made.ttft_s === "number") parts.push(h("span", {}, `first token ${seconds(made.ttft_s)}`));
    if (this.growing && this.rate) parts.push(h("span", {}, this.rate));
    else if (!this.growing && made.tokens_per_second) parts.push(h("span", {}, rate(made.tokens_per_second)));
    if (made.left_out) parts.push(h("span", { "data-testid": "left-out" }, `${count(made.left_out)} earlier left out`));
    if (!parts.length) return null;
    return h("span.stats", { "data-testid": "reply-stats", title: details(made) }, ...parts);
  }

  #actions() {
    const busy = this.growing && { disabled: true, title: "This reply is still being written: stop it first, or wait for its end" };
    return [
      iconButton("copy", "Copy message", (event) => this.act.copy(this.id, event.currentTarget), { "data-testid": "copy" }),
      iconButton("edit", "Edit", () => this.startEditing(), { "data-testid": "edit", ...busy }),
      iconButton("again", this.role === "user" ? "Answer again" : "Regenerate", () => this.act.regenerate(this.id),
        { "data-testid": "regenerate", ...busy }),
      this.#more(),
    ];
  }

  #more() {
    const { siblings = [], sibling_index: index } = this.view;
    const more = iconButton("more", "More", () => openMenu(more, this.act.menu({
      id: this.id, siblings, sibling_index: index, growing: this.growing, made: Boolean(this.view.generation) && !this.growing,
    }), { label: "More about this message" }), { "data-testid": "message-menu", "aria-haspopup": "menu" });
    return more;
  }

  showRate(words) {
    this.rate = words;
    this.#drawFoot();
  }

  /** Whether it ends the shown branch: a question there has no reply. */
  setLast(last) {
    if (last === this.last) return;
    this.last = last;
    this.#drawNote();
  }

  startEditing() {
    if (this.editor) return this.editor.focus();
    this.editor = new Editor(this.view.content, this.role, {
      save: async (text) => { await this.act.edit(this.id, text); this.stopEditing(); },
      cancel: () => this.stopEditing(),
    });
    this.element.classList.add("editing");
    this.text.after(this.editor.element);
    this.editor.focus();
  }

  stopEditing() {
    this.editor?.element.remove();
    this.editor = null;
    this.element.classList.remove("editing");
    this.foot.querySelector("[data-testid=edit]")?.focus({ preventScroll: true });
  }
}

function details(made) {
  const lines = [];
  if (made.model) lines.push(made.model);
  if (made.prompt_tokens) {
    lines.push(`prompt ${plural(made.prompt_tokens, "token")}: ${count(made.cached_tokens ?? 0)} cached, ` +
      `${count(made.computed_tokens ?? 0)} computed`);
  }
  if (made.completion_tokens) lines.push(`reply ${plural(made.completion_tokens, "token")}`);
  const times = [["queue", made.queue_s], ["prefill", made.prefill_s], ["decode", made.decode_s]]
    .filter(([, value]) => typeof value === "number").map(([name, value]) => `${name} ${seconds(value)}`);
  if (times.length) lines.push(times.join(" · "));
  if (typeof made.blocks_new === "number") {
    lines.push(`blocks: ${made.blocks_new} new, ${made.blocks_shared} shared, ${made.blocks_copied} copied`);
  }
  if (made.note) lines.push(made.note);
  if (made.preemptions) lines.push(plural(made.preemptions, "preemption"));
  return lines.join("\n");
}
