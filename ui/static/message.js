// One message: its text, what is known about it, and what can be done with it.

import { ACTIONS } from "./action_names.js";
import { Blocks } from "./blocks.js";
import { h, icon, refill } from "./dom.js";
import { EditDraft, leftEdit } from "./edit_drafts.js";
import { Editor } from "./editor.js";
import { Fold } from "./fold.js";
import { STATES } from "./format.js";
import { footParts, openMessageMenu } from "./message_foot.js";
import { RawView } from "./raw_view.js";
import { Thinking } from "./thinking.js";
import { Waits } from "./waits.js";

const ENDED = {
  stopped: "Stopped.",
  interrupted: "This reply was interrupted; what had arrived is here.",
  error: "The reply failed.",
};

const NAMES = { user: "You", assistant: "Reply", system: "System message", tool: "Tool" };

export class Message {
  /** `act` has: run(name, message, button) for what stands in `bar(message)` and `menu(message)`, edit(id, text),
   * select(id, from), resume(id), again(id, view). */
  constructor(view, act) {
    this.act = act;
    this.id = view.id;
    this.role = view.role;
    this.editor = null;
    this.body = view.role === "assistant" ? new Blocks((block) => act.dressPassages(view.parent_id, block)) : null;
    this.thinking = this.body ? new Thinking(view.id) : null;
    this.text = this.body ? this.body.element : h("div.typed");
    this.fold = this.body ? null : new Fold(this.text);
    this.waits = this.body ? new Waits() : null;
    this.files = this.role === "user" ? h("ul.msg-files", { "aria-label": "Files of this message", hidden: true }) : null;
    this.note = h("div.note", { hidden: true });
    this.raw = null;
    this.beside = h("div.beside", { hidden: true, role: "group", "aria-label": "Replies written at once", "data-testid": "parallel" });
    this.foot = h("footer.foot");
    this.element = h(`article.msg.${view.role}`, {
      "data-testid": "message", "data-role": view.role, "data-message-id": view.id, tabIndex: -1,
    }, h("div.body", {}, this.text), this.files, this.note, this.beside, this.foot);
    this.update(view);
    this.left = leftEdit(this.view, () => this.startEditing());
    if (this.left) this.foot.before(this.left);
  }

  get growing() {
    return this.view.status === "streaming";
  }

  get siblings() {
    return this.view.siblings ?? [];
  }

  /** Its place among its siblings, from 1. */
  get index() {
    return this.view.sibling_index;
  }

  /** Whether a model wrote it, to its end. */
  get made() {
    return Boolean(this.view.generation?.model) && !this.growing;
  }

  update(view) {
    const outdated = this.view?.content !== view.content || this.view?.status !== view.status;
    this.view = { ...this.view, ...view };
    const { element, growing } = this;
    element.dataset.status = this.view.status;
    element.setAttribute("aria-label", this.#name());
    if (this.raw && outdated) this.showRaw(null);
    element.setAttribute("aria-busy", String(growing));
    if (!this.body) {
      this.text.textContent = this.view.content;
      this.fold.draw(this.view.content);
      if (this.files) this.act.drawFiles(this.files, this.view.files ?? []);
    } else {
      if (view.blocks) this.body.set(view.blocks);
      if (view.thoughts) this.thinking.blocks.set(view.thoughts);
    }
    this.#drawText();
    this.#drawNote();
    this.#drawFoot();
  }

  /** What a screen reader calls it: who wrote it, which version, in which state. */
  #name() {
    const { role, kind, status } = this.view;
    const name = kind === "summary" ? "Summary" : NAMES[role] ?? role;
    const version = this.siblings.length > 1 ? `, version ${this.index} of ${this.siblings.length}` : "";
    const state = this.unsaved ? "not saved yet" : STATES[status];
    return `${name}${version}${state ? `, ${state}` : ""}`;
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
    if (this.waits.element.previousSibling !== this.text) this.text.after(this.waits.element);
  }

  #drawNote() {
    const { status } = this.view;
    const words = this.#ending();
    this.note.hidden = !words;
    if (!words) return;
    const { resumable, unsaved } = this;
    const link = (text, onclick, testid) => h("button.link", { type: "button", onclick, "data-testid": testid }, text);
    const again = () => this.act.again(this.id, this.view);
    refill(this.note, `${status}|${words}|${resumable}|${unsaved}`, () => [
      status === "error" || status === "interrupted" || unsaved ? icon("warn") : status === "stopped" ? icon("stop", 13) : null,
      h("span", {}, words),
      resumable ? link(ACTIONS.resume, () => this.act.resume(this.id), "continue") : null,
      status === "error" || status === "interrupted" ? link("Try again", again, "try-again") : null,
      this.role === "user" ? link("Get a reply", again) : null,
      unsaved && !this.growing ? link("Copy it", () => this.act.run("copy", this, this.foot.querySelector("[data-testid=copy]"))) : null,
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

  /** Whether it ended before it was whole. */
  get cut() {
    const { status, generation } = this.view;
    return ["stopped", "interrupted", "error"].includes(status) || generation?.finish_reason === "length";
  }

  /** Whether a model can continue it: it was cut, or a person wrote it. */
  get resumable() {
    const { content, reasoning, generation, kind } = this.view;
    const mine = !this.growing && !generation && !kind;
    return this.role === "assistant" && (this.cut || mine) && !this.unsaved && Boolean(content || reasoning);
  }

  #drawFoot() {
    const { siblings, sibling_index: index, generation, status } = this.view;
    const held = this.foot.contains(document.activeElement);
    refill(this.foot, JSON.stringify([siblings, index, generation, status, this.resumable, this.growing && this.rate]), () => footParts(this));
    if (held && !this.foot.contains(document.activeElement)) this.element.focus({ preventScroll: true });
  }

  openMenu() {
    openMessageMenu(this);
  }

  showRate(words) {
    this.rate = words;
    this.#drawFoot();
  }

  /** Whether it ends the shown branch: a question there has no reply. */
  setLast(last) {
    if (last === this.last) return;
    this.last = last;
    this.element.classList.toggle("ends", last);
    this.#drawNote();
  }

  /** Show it as it is stored (see RawView), or as usual for null. */
  showRaw(found) {
    const focused = this.raw?.element.contains(document.activeElement);
    this.raw?.element.remove();
    this.raw = found && new RawView(found, () => this.act.run("show-raw", this));
    this.element.classList.toggle("is-raw", Boolean(found));
    if (found) this.text.after(this.raw.element);
    else if (focused) this.element.focus({ preventScroll: true });
  }

  startEditing() {
    this.showRaw(null);
    if (this.editor) return this.editor.focus();
    this.editor = new Editor(this.view.content, this.role, {
      save: async (text) => { await this.act.edit(this.id, text); this.stopEditing(); },
      cancel: () => this.stopEditing(), again: () => this.startEditing(),
    }, new EditDraft(this.view));
    this.left?.remove();
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
