// What can be done with a message: one list for the buttons under it, its menu and its keys; and the way back from each.

import { ACTIONS } from "./action_names.js";
import { announce } from "./announce.js";
import { showCompare } from "./compare.js";
import { showDetails } from "./details_dialog.js";
import { plural } from "./format.js";
import { askRegenerate } from "./regenerate_dialog.js";
import { toast } from "./toasts.js";
import { tried } from "./tried.js";
import { showTokens } from "./token_view.js";

const WRITTEN = "This reply is still being written: stop it first, or wait for its end";
const COUNTS = [2, 3, 4, 8];
const isTurn = ({ role }) => role === "user" || role === "assistant";

/** In the menu's order: `name` (also the test id), `label` (or a function of the message), `icon`, `key` of a message that
 * has the focus, `when(message)`, `run(page, message, button)` or `more(page, message)` with a list in its place. `bar`:
 * a button under the message in place of a line in the menu; `waits`: not before a running reply has ended; `here`: only
 * where the message is shown. */
export const ENTRIES = [
  { name: "copy", label: "Copy message", icon: "copy", key: "c", bar: true, run: ({ turns }, message, button) => turns.copy(message.id, button) },
  { name: "edit", label: ACTIONS.edit, icon: "edit", key: "e", bar: true, waits: true, here: true, run: (page, message) => message.startEditing() },
  { name: "regenerate", label: ACTIONS.regenerate, icon: "again", key: "r", bar: true, waits: true,
    unfit: (message) => (isTurn(message) ? null : "Regenerate is for a question or a reply"),
    run: ({ turns }, message) => turns.regenerate(message.id) },
  { name: "go-on", label: ACTIONS.resume, icon: "play", key: "n", bar: ({ cut }) => !cut, when: (message) => message.resumable,
    run: ({ turns }, message) => turns.resume(message.id) },
  { name: "branch-here", label: ACTIONS.branch, icon: "branch", key: "b", bar: true, waits: true, here: true, when: ({ role }) => role !== "user",
    run: ({ turns }, message) => turns.branchFrom(message) },
  { name: "branch-token", label: "Branch at a token…", icon: "token", waits: true, when: ({ made, role }) => made && role === "assistant",
    run: (page, message) => void showTokens(page, message) },
  { name: "stop-reply", label: "Stop this reply", icon: "stop", key: "s", when: (message) => message.growing, run: ({ turns }, { id }) => turns.stopAll([id]) },
  { name: "regenerate-several", label: ACTIONS.several, icon: "again", waits: true, when: isTurn,
    more: ({ messageActions }, message) => COUNTS.map((count) => ({
      label: `${count} replies`, icon: "again", testid: `regenerate-${count}`, run: () => messageActions.several(message, count) })) },
  { name: "regenerate-with", label: ACTIONS.with, icon: "tune", key: "w", waits: true, when: isTurn,
    run: ({ messageActions }, message) => messageActions.regenerateWith(message) },
  { name: "fork", label: ACTIONS.fork, icon: "fork", key: "f", separate: true,
    run: ({ messageActions }, { id }) => messageActions.fork(id, "branch"),
    more: ({ messageActions }, { id }) => [
      { label: "Up to here", icon: "fork", testid: "fork-branch", run: () => messageActions.fork(id, "branch") },
      { label: "With other versions on the way", icon: "fork", testid: "fork-siblings", run: () => messageActions.fork(id, "siblings") },
      { label: "The whole chat", icon: "fork", testid: "fork-tree", run: () => messageActions.fork(id, "tree") },
    ] },
  { name: "compare-versions", label: ACTIONS.compare, icon: "compare", key: "=", when: ({ siblings }) => siblings.length > 1,
    run: ({ messageActions }, message) => messageActions.compareVersions(message) },
  { name: "show-raw", label: (message) => (message.raw ? "Show as usual" : "Show raw text"), icon: "raw", key: "v", waits: true, here: true, separate: true,
    run: ({ turns }, message) => turns.toggleRaw(message) },
  { name: "show-details", label: ACTIONS.details, icon: "info", key: "i", run: ({ messageActions }, message) => messageActions.details(message) },
  { name: "show-blocks", label: ACTIONS.blocks, icon: "grid", here: true, run: ({ messageActions }, { id }) => messageActions.showBlocks(id) },
  { name: "check-again", label: ACTIONS.reproduce, icon: "check", when: ({ made }) => made,
    run: ({ messageActions }, message) => messageActions.details(message, true) },
  { name: "delete-branch", label: ACTIONS.remove, icon: "trash", key: "d", danger: true, separate: true, waits: true,
    run: ({ messageActions }, { id }) => messageActions.deleteBranch(id) },
];

export class MessageActions {
  /** `page` has: socket, turns, chat, session, info, current, library. */
  constructor(page) {
    this.page = page;
  }

  #call(op, fields = {}) {
    return this.page.socket.call(op, fields);
  }

  #try(op, fields) {
    return tried(this.page.socket, op, fields);
  }

  // -- the list -----------------------------------------------------------------------------------------------------

  /** Buttons under a message: {name, label, icon, disabled: why it cannot be done now, or null}. */
  bar(message) {
    return offered(message).filter((entry) => inBar(entry, message)).map((entry) => ({
      name: entry.name, label: labelOf(entry, message), icon: entry.icon,
      disabled: reason(entry, message),
    }));
  }

  /** Lines of its menu. A message that is not shown is told as {id, role, siblings, sibling_index, growing, made}; what
   * has a button where it is shown is in its menu then. */
  menu(told) {
    const message = this.page.chat.items.get(told.id) ?? { view: {}, ...told, index: told.sibling_index, away: true };
    const lines = offered(message).filter((entry) => !reason(entry, message) &&
      (message.away ? entry.name !== "copy" : !inBar(entry, message)));
    return lines.map((entry) => ({
      label: labelOf(entry, message), icon: entry.icon, testid: entry.name, danger: entry.danger, separate: entry.separate,
      more: entry.more && (() => entry.more(this.page, message)), run: entry.more ? null : () => this.run(entry.name, message),
    }));
  }

  /** Do it, from a button, a key or a command; false if it cannot be done with this message now. */
  run(name, message, button = null) {
    const entry = offered(message).find((one) => one.name === name);
    const unfit = entry && reason(entry, message);
    if (unfit) toast(`${unfit}.`, { chat: this.page.current });
    if (!entry?.run || unfit) return false;
    entry.run(this.page, message, button);
    return true;
  }

  // -- other replies ------------------------------------------------------------------------------------------------

  get #params() {
    return this.page.session?.params ?? {};
  }

  /** Some replies at once; where all would be the same, the reader is asked for other settings first. */
  several(message, count) {
    return this.#params.temperature === 0 ? this.regenerateWith(message, count) : this.page.turns.regenerate(message.id, count);
  }

  regenerateWith(message, count = 1) {
    const { page } = this;
    return askRegenerate({
      params: this.#params, own: message.view.generation?.own ?? {}, model: page.info.model, count,
      run: ({ n, params }) => page.turns.askRegenerate(message.id, n, params),
    });
  }

  // -- copies, versions, facts --------------------------------------------------------------------------------------

  async fork(message, mode) {
    const made = await this.#try("fork", { message, mode });
    if (made) await this.page.library.opened(made, "Forked to this new chat.");
  }

  /** The two versions around the one that is shown; more can be chosen there. */
  compareVersions({ siblings, index }) {
    const at = Math.max(0, index - 2);
    return this.compare(siblings.slice(at, at + 2), { choices: siblings });
  }

  /** Show branches side by side; see `showCompare`. */
  compare(ids, options = {}) {
    return showCompare(ids, options, {
      ask: (some, further) => this.#call("compare", { ids: some, follow: further }),
      select: (message) => this.#try("select", { message }),
    });
  }

  /** Mark the message's blocks in the KV panel. */
  async showBlocks(message) {
    const { layout, panel } = this.page;
    const opened = layout.showPanel();
    if (!(await panel.branch.showMessage(message, opened))) toast("None of its blocks is in the pool now.", { chat: this.page.current });
  }

  /** All that is known of a message; `begin`: also reproduce its last run. */
  details({ id, role }, begin = false) {
    return showDetails(role, {
      details: () => this.#call("details", { message: id }), reproduce: (run, told) => this.#reproduce(id, run, told),
      stop: () => this.#call("stop_reproducing").catch(() => {}), begin,
    });
  }

  /** `told(tokens)` hears how many there are; null if it was stopped. */
  async #reproduce(message, run, told) {
    const over = new AbortController();
    this.page.socket.on("reproducing", (frame) => { if (frame.message === message) told(frame.tokens); }, over.signal);
    try {
      return await this.#call("reproduce", { message, run });
    } finally {
      over.abort();
    }
  }

  /** Take a message away with all that follows it. */
  async deleteBranch(message) {
    const chat = this.page.current;
    const gone = await this.#try("delete_branch", { message });
    if (!gone) return;
    toast(`Deleted ${plural(gone.messages, "message")}.`, {
      action: "Undo", chat, run: async () => {
        if (await this.#try("restore_branch", { branch: gone.undo })) announce(`${plural(gone.messages, "message")} restored.`);
      },
    });
  }
}

function offered(message) {
  return ENTRIES.filter(({ when, here }) => (!when || when(message)) && !(here && message.away));
}

/** Why it cannot be done now; null if it can. */
function reason({ unfit, waits }, message) {
  return unfit?.(message) ?? (waits && message.growing ? WRITTEN : null);
}

function inBar({ bar }, message) {
  return typeof bar === "function" ? bar(message) : Boolean(bar);
}

function labelOf({ label }, message) {
  return typeof label === "function" ? label(message) : label;
}
