// What was typed into the edit of a message and not saved: kept in this browser, offered again after a reload.

import { DRAFTS, unstored } from "./drafts.js";
import { h } from "./dom.js";

const KEY = `${DRAFTS}edit.`;

export class EditDraft {
  /** `view` has: id, session_id, content. */
  constructor(view) {
    this.key = KEY + view.id;
    this.session = view.session_id;
    this.sent = view.content ?? "";
  }

  /** The text that was left here; null if there is none, or it is the message's own. */
  get text() {
    try {
      const text = localStorage.getItem(this.key);
      return text === this.sent ? null : text;
    } catch {
      return null; // storage is off
    }
  }

  keep(text) {
    if (text === this.sent || unstored.has(this.session)) return this.drop();
    try { localStorage.setItem(this.key, text); } catch { /* storage is off or full: the text stays in this page */ }
    return undefined;
  }

  drop() {
    try { localStorage.removeItem(this.key); } catch { /* storage is off */ }
  }
}

/** The line under a message whose edit was left; null if there is none. */
export function leftEdit(view, goOn) {
  const draft = view.session_id ? new EditDraft(view) : null;
  if (!draft?.text) return null;
  const line = h("div.note.left-edit", { "data-testid": "left-edit" },
    h("span", {}, "You were editing this message."),
    h("button.link", { type: "button", onclick: () => goOn() }, "Go on"),
    h("button.link", { type: "button", onclick: () => { draft.drop(); line.remove(); } }, "Discard"));
  return line;
}
