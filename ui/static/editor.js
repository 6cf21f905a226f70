// A message being edited in place.

import { h } from "./dom.js";
import { fit } from "./field.js";
import { toast } from "./toasts.js";

export class Editor {
  /** `act` has: save(text) -> promise, cancel(), again() after a cancel that is taken back. `draft` keeps what is typed
   * (see EditDraft). What was typed stays when saving fails. */
  constructor(content, role, act, draft = null) {
    this.act = act;
    this.draft = draft;
    this.content = content ?? "";
    this.field = h("textarea.edit-field", {
      "aria-label": "Edit this message", "data-testid": "edit-field", rows: "1",
      onkeydown: (event) => this.#key(event), oninput: () => this.#typed(),
    });
    this.field.value = draft?.text ?? this.content;
    this.save = h("button.primary", { type: "button", "data-testid": "edit-save", onclick: () => this.#save() },
      role === "user" ? "Save and send" : "Save");
    this.problem = h("span.problem", { role: "alert" });
    this.element = h("div.editor", {}, this.field, h("div.editor-row", {},
      h("span.hint", {}, `${role === "user" ? "A new version is answered" : "A new version"}; the old one stays. Ctrl+Enter saves, Esc cancels.`),
      this.problem,
      h("button.quiet", { type: "button", onclick: () => this.#cancel() }, "Cancel"), this.save));
  }

  focus() {
    this.field.focus();
    this.#fit();
  }

  #typed() {
    this.draft?.keep(this.field.value);
    this.#fit();
  }

  #cancel() {
    const text = this.field.value;
    this.draft?.drop();
    this.act.cancel();
    if (text === this.content || !text.trim() || !this.draft) return;
    const back = () => { this.draft.keep(text); this.act.again(); };
    toast("The edit was discarded.", { action: "Undo", run: back, chat: this.draft.session });
  }

  #fit() {
    fit(this.field, innerHeight * 0.6, 2);
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.#cancel();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.#save();
    }
  }

  async #save() {
    if (!this.field.value.trim()) return this.#say("There is nothing to save.");
    this.save.disabled = true;
    try {
      await this.act.save(this.field.value);
      this.draft?.drop();
    } catch (error) {
      this.#say(error.message);
      this.field.focus();
    } finally {
      this.save.disabled = false;
    }
  }

  #say(words) {
    this.problem.textContent = words;
  }
}
