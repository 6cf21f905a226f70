// What can be done with a message besides reading and answering it: its menu, and the way back from each choice.

import { showCompare } from "./compare.js";
import { plural } from "./format.js";
import { complain, toast } from "./toasts.js";

export class MessageActions {
  /** `page` has: socket, current, library. */
  constructor(page) {
    this.page = page;
  }

  #call(op, fields = {}) {
    return this.page.socket.call(op, fields);
  }

  /** Run a call; what goes wrong is said. Resolves with undefined then. */
  async #try(op, fields) {
    try {
      return await this.#call(op, fields);
    } catch (error) {
      complain(error);
      return undefined;
    }
  }

  /** What the menu offers: `siblings` are the versions of it. */
  menu({ id, siblings, sibling_index: index, growing, made }) {
    const fork = (mode) => this.#fork(id, mode);
    return [
      { label: "Fork to a new chat", icon: "fork", testid: "fork", more: [
        { label: "Up to here", icon: "fork", testid: "fork-branch", run: () => fork("branch") },
        { label: "With other versions on the way", icon: "fork", testid: "fork-siblings", run: () => fork("siblings") },
        { label: "The whole chat", icon: "fork", testid: "fork-tree", run: () => fork("tree") },
      ] },
      siblings.length > 1 && { label: "Compare versions", icon: "compare", testid: "compare-versions", run: () => this.#compare(siblings, index) },
      made && { label: "Check that it comes again", icon: "check", testid: "reproduce", run: () => this.#reproduce(id) },
      !growing && { label: "Delete from here", icon: "trash", testid: "delete-branch", danger: true, separate: true, run: () => this.#deleteBranch(id) },
    ];
  }

  async #fork(message, mode) {
    const made = await this.#try("fork", { message, mode });
    if (made) await this.page.library.opened(made, "Forked to this new chat.");
  }

  #compare(siblings, index) {
    const [first, second] = index > 1 ? [siblings[index - 2], siblings[index - 1]] : siblings;
    showCompare(siblings, first, second, (a, b) => this.#call("compare", { a, b }));
  }

  /** Have the model write a reply again, unseen, and say whether it is the same. */
  async #reproduce(message) {
    const chat = this.page.current;
    toast("Writing this reply again, unseen …", { chat });
    const found = await this.#try("reproduce", { message });
    if (found && chat === this.page.current) toast(outcome(found), { chat });
  }

  /** Take a message away with all that follows it. */
  async #deleteBranch(message) {
    const chat = this.page.current;
    const gone = await this.#try("delete_branch", { message });
    if (!gone) return;
    toast(`Deleted ${plural(gone.messages, "message")}.`, {
      action: "Undo", run: () => this.#try("restore_branch", { branch: gone.undo }), chat,
    });
  }
}

/** What became of a reply that was made again. */
function outcome({ same, first_difference: first, tokens, changed, promised }) {
  if (changed.includes("model")) return "Another model is loaded now, so this reply cannot be made again.";
  if (changed.includes("prompt")) return "What this reply answered cannot be made again exactly.";
  if (same) return `The same ${plural(tokens, "token")} came again.`;
  const why = changed.includes("engine") ? " The engine is not set as it was then."
    : promised ? "" : " This engine does not promise the same tokens.";
  return `It differs from token ${first + 1} of ${tokens} on.${why}`;
}
