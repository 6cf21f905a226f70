// What can be done with whole chats and with branches: menus, calls to the server, and the way back from each.

import { ACTIONS } from "./action_names.js";
import { askLine } from "./dialog.js";
import { exportAddress, FORMATS, sayExported } from "./export_files.js";
import { importFiles } from "./import.js";
import { manyChats } from "./many_chats.js";
import { actOf, showPresets } from "./presets.js";
import { complain, toast } from "./toasts.js";
import { tried } from "./tried.js";

export class Library {
  /** `page` has: socket, sidebar, session, create(options), open(id), show(id). */
  constructor(page) {
    this.page = page;
    this.rename = (session, title) => this.#change("rename", session, { title });
    this.remove = (session) => this.#remove(session);
    this.many = (sessions) => manyChats(sessions, this.#forMany());
  }

  #call(op, fields = {}) {
    return this.page.socket.call(op, fields);
  }

  #try(op, fields) {
    return tried(this.page.socket, op, fields);
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
      { label: ACTIONS.compact, icon: "compact", testid: "compact-chat", run: () => this.#compact(session) },
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

  #forMany() {
    const { page } = this;
    return {
      change: (op, session, fields) => this.#change(op, session, fields), call: (op, fields) => this.#try(op, fields),
      folders: () => page.sidebar.shelf.folders, exports: (ids) => this.exportChoices(...ids.map((id) => ({ id }))),
      removing: (id) => { if (id === page.current) page.removing = id; }, addFolder: () => this.addFolder(),
    };
  }

  /** Files to fetch; null means all chats. */
  exportChoices(...sessions) {
    const ids = sessions[0] ? sessions.map((one) => one.id) : [];
    return FORMATS.map(([format, label]) => ({ label, icon: "export", testid: `export-${format}`, href: exportAddress(format, ids),
      run: () => sayExported(label) }));
  }

  folderMenu(folder) {
    return [
      { label: "New chat here", icon: "plus", run: () => this.page.create({ folder: folder.id }) },
      { label: "Rename", icon: "edit", run: () => this.#renameFolder(folder) },
      { label: "Delete folder", icon: "trash", danger: true, run: () => this.#deleteFolder(folder) },
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

  async #compact(session) {
    await this.page.open(session.id);
    if (this.page.current === session.id) await this.page.compact();
  }

  async #forkWhole(session) {
    const made = await this.#try("copy", { session: session.id });
    if (made) await this.opened(made, "Copied to a new chat.");
  }

  /** Show a chat that was just made, and say where it came from. */
  async opened(session, words) {
    this.page.sidebar.put(session);
    await this.page.open(session.id);
    toast(words, { chat: session.id });
  }

  // -- folders ------------------------------------------------------------------------------------------------------

  async addFolder(session = null) {
    const name = await askLine("New folder", "Name of the folder", "", "Make it");
    if (!name) return null;
    const folder = await this.#try("add_folder", { name });
    if (folder && session) await this.#change("move", session, { folder: folder.id });
    return folder ?? null;
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
    showPresets(actOf(this.page));
  }

  import() {
    importFiles((id) => this.page.open(id), [...this.page.sidebar.sessions.values()].map(({ title }) => title));
  }
}
