// What can be done with whole chats and with branches: menus, calls to the server, and the way back from each.

import { showCompare } from "./compare.js";
import { askLine } from "./dialog.js";
import { plural } from "./format.js";
import { importFiles } from "./import.js";
import { showPresets } from "./presets.js";
import { complain, toast } from "./toasts.js";

const EXPORT = "/api/sessions/export";
const FORMATS = [
  ["markdown", "Markdown"], ["pagedchat", "pagedchat JSON"], ["openai", "OpenAI JSONL"], ["sharegpt", "ShareGPT"],
];

export class Library {
  /** `page` has: socket, sidebar, session, create(options), open(id), show(id). */
  constructor(page) {
    this.page = page;
    this.rename = (session, title) => this.#change("rename", session, { title });
    this.remove = (session) => this.#remove(session);
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

  /** A change that holds only for the chat as it is known here. */
  #change(op, session, fields) {
    const known = this.page.sidebar.sessions.get(session.id) ?? session;
    return this.#try(op, { session: session.id, version: known.version, ...fields });
  }

  // -- menus --------------------------------------------------------------------------------------------------------

  menu(session, { rename }) {
    const { pinned, archived } = session;
    return [
      { label: "Rename", icon: "edit", testid: "rename", run: rename },
      { label: pinned ? "Unpin" : "Pin", icon: "pin", testid: "pin", run: () => this.#change("pin", session, { on: !pinned }) },
      { label: "Move to folder", icon: "folder", testid: "move", more: () => this.#folderChoices(session) },
      { label: archived ? "Take out of the archive" : "Archive", icon: "archive", testid: "archive", run: () => this.#archive(session) },
      { label: "Copy the whole chat", icon: "fork", testid: "fork-whole", run: () => this.#forkWhole(session) },
      { label: "Export", icon: "export", testid: "export", more: () => this.exportChoices(session) },
      { label: "Delete", icon: "trash", testid: "delete", danger: true, separate: true, run: () => this.#remove(session) },
    ];
  }

  #folderChoices(session) {
    const { folders } = this.page.sidebar.shelf;
    const move = (folder) => this.#change("move", session, { folder });
    const sorted = [...folders].sort((a, b) => a.name.localeCompare(b.name));
    return [
      { label: "No folder", icon: "close", checked: !session.folder_id, run: () => move(null) },
      ...sorted.map(({ id, name }) => ({ label: name, icon: "folder", checked: session.folder_id === id, run: () => move(id) })),
      { label: "New folder…", icon: "plus", separate: true, run: () => this.addFolder(session) },
    ];
  }

  /** Files to fetch; `session` null means all chats. */
  exportChoices(session) {
    const ids = session ? `&ids=${encodeURIComponent(session.id)}` : "";
    return FORMATS.map(([format, label]) => ({ label, icon: "export", testid: `export-${format}`, href: `${EXPORT}?format=${format}${ids}` }));
  }

  folderMenu(folder) {
    return [
      { label: "New chat here", icon: "plus", run: () => this.page.create({ folder: folder.id }) },
      { label: "Rename", icon: "edit", run: () => this.#renameFolder(folder) },
      { label: "Delete folder", icon: "trash", danger: true, run: () => this.#deleteFolder(folder) },
    ];
  }

  /** What a message's menu offers: `siblings` are the versions of it. */
  messageMenu({ id, siblings, sibling_index: index, growing, made }) {
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

  // -- chats --------------------------------------------------------------------------------------------------------

  async #archive(session) {
    const on = !session.archived;
    const said = await this.#change("archive", session, { on });
    if (said && on) toast(`Archived “${session.title}”.`, { action: "Undo", run: () => this.#try("archive", { session: session.id, on: false }) });
  }

  async #remove(session) {
    this.page.removing = session.id;
    if ((await this.#try("delete", { session: session.id })) === undefined) return;
    toast(`Deleted “${session.title}”.`, { action: "Undo", run: () => this.restore("chat", session) });
  }

  async #forkWhole(session) {
    const made = await this.#try("copy", { session: session.id });
    if (made) await this.#opened(made, "Copied to a new chat.");
  }

  async #fork(message, mode) {
    const made = await this.#try("fork", { message, mode });
    if (made) await this.#opened(made, "Forked to this new chat.");
  }

  async #opened(session, words) {
    this.page.sidebar.put(session);
    await this.page.open(session.id);
    toast(words, { chat: session.id });
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

  // -- folders ------------------------------------------------------------------------------------------------------

  async addFolder(session = null) {
    const name = await askLine("New folder", "Name of the folder", "", "Make it");
    if (!name) return;
    const folder = await this.#try("add_folder", { name });
    if (folder && session) await this.#change("move", session, { folder: folder.id });
  }

  async #renameFolder(folder) {
    const name = await askLine("Rename folder", "Name of the folder", folder.name, "Rename");
    if (name && name !== folder.name) this.#try("rename_folder", { folder: folder.id, name });
  }

  async #deleteFolder(folder) {
    if ((await this.#try("delete_folder", { folder: folder.id })) === undefined) return;
    toast(`Deleted the folder “${folder.name}”; its chats are in the list.`, {
      action: "Undo", run: () => this.#try("undelete_folder", { folder: folder.id }),
    });
  }

  // -- trash, files -------------------------------------------------------------------------------------------------

  trash() {
    return this.#call("trash");
  }

  async restore(kind, { id, session_id: session }) {
    const said = await (kind === "chat" ? this.#try("undelete", { session: id }) : this.#try("restore_branch", { branch: id }));
    if (said !== undefined) await this.page.show(kind === "chat" ? id : session).catch(complain);
  }

  purge(ids) {
    return this.#try("purge", { ids });
  }

  presets() {
    showPresets({
      call: (op, fields) => this.#call(op, fields), begin: (preset) => this.page.create({ preset }), session: () => this.page.session,
      follow: (listener, signal) => this.page.socket.on("presets", ({ presets }) => listener(presets), signal),
    });
  }

  import() {
    importFiles((id) => this.page.open(id));
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
