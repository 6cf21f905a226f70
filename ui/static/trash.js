// What was deleted: chats and branches, to be taken back or deleted forever.

import { confirmed } from "./dialog.js";
import { debounced, h, iconButton } from "./dom.js";
import { plural } from "./format.js";
import { heading, line } from "./list_rows.js";

const ROW = 54; // pixels
const AGAIN_MS = 200;

export class Trash {
  /** `library` has: trash() -> promise, restore(one), purge(ids). */
  constructor(library, redraw) {
    this.library = library;
    this.redraw = redraw;
    this.found = null;
    this.problem = "";
    this.empty = h("button.link", { type: "button", "data-testid": "empty-trash", onclick: () => this.#empty() }, "Empty");
    this.again = debounced(AGAIN_MS, () => this.load());
  }

  /** Something may have come or gone. */
  stale() {
    if (this.found) this.again();
  }

  async load() {
    try {
      this.found = await this.library.trash();
      this.problem = "";
    } catch (error) {
      this.problem = error.message;
    }
    this.redraw();
  }

  rows() {
    if (this.problem) return [line("none", this.problem)];
    if (!this.found) return [line("none", "…")];
    const { sessions, branches } = this.found;
    this.empty.hidden = !sessions.length && !branches.length;
    const rows = [];
    if (sessions.length) rows.push(heading("Chats"), ...sessions.map((one) => this.#chat(one)));
    if (branches.length) rows.push(heading("Branches"), ...branches.map((one) => this.#branch(one)));
    return rows.length ? rows : [line("none", "The trash is empty.")];
  }

  #chat(session) {
    return this.#row({ id: session.id, name: session.title, detail: `deleted ${day(session.deleted_at)}`, kind: "chat", one: session });
  }

  #branch(branch) {
    const name = branch.text?.trim() || "Message without text";
    const detail = `${plural(branch.messages, "message")} of ${branch.title || "a chat without a name"}`;
    return this.#row({ id: branch.id, name, detail, kind: "branch", one: branch });
  }

  #row({ id, name, detail, kind, one }) {
    return { key: `trash ${id}`, height: ROW, stamp: `${name}\n${detail}`, make: () => h("div.gone", { "data-testid": "trash-item", "data-gone-id": id },
      h("span.words", {}, h("b", { title: name }, name), h("small", {}, detail)),
      h("span.tools", {},
        iconButton("back", "Restore", () => this.library.restore(kind, one), { "data-testid": "restore" }),
        iconButton("trash", "Delete forever", () => this.#purge(kind, id, name), { "data-testid": "purge" }))) };
  }

  async #purge(kind, id, name) {
    const what = kind === "chat" ? `the chat “${short(name)}” with all its messages` : `the branch that begins with “${short(name)}”`;
    if (await confirmed("Delete forever?", `This deletes ${what}. It cannot be undone.`, "Delete forever")) {
      await this.library.purge([id]);
      this.load();
    }
  }

  async #empty() {
    const { sessions, branches } = this.found;
    const what = [sessions.length && plural(sessions.length, "chat"), branches.length && plural(branches.length, "branch", "branches")]
      .filter(Boolean).join(" and ");
    if (await confirmed("Empty the trash?", `This deletes ${what}. It cannot be undone.`, "Delete forever")) {
      await this.library.purge([...sessions, ...branches].map((one) => one.id));
      this.load();
    }
  }
}

function short(text) {
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function day(time) {
  return time ? new Date(time).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" }) : "";
}
