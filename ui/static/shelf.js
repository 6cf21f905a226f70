// What the page knows of all chats and folders, and the order in which a list shows them.

import { dayGroup } from "./format.js";

const OPEN = "pagedchat.folders";

export class Shelf {
  constructor() {
    this.sessions = new Map();
    this.folders = [];
    this.folded = new Set(read());
  }

  load(sessions, folders) {
    this.sessions = new Map(sessions.map((session) => [session.id, session]));
    this.folders = folders;
  }

  put(session) {
    if (session.deleted_at) this.sessions.delete(session.id);
    else this.sessions.set(session.id, session);
  }

  fold(id) {
    if (!this.folded.delete(id)) this.folded.add(id);
    try { localStorage.setItem(OPEN, JSON.stringify([...this.folded])); } catch { /* storage is off */ }
  }

  get archived() {
    return this.#ordered((one) => one.archived);
  }

  /** The parts of the list in order: {name, sessions} with `folder` for those that fold. Each chat is in one of them. */
  parts() {
    const known = new Set(this.folders.map((folder) => folder.id));
    const inFolder = new Map(this.folders.map((folder) => [folder.id, []]));
    const [pinned, days] = [[], new Map()];
    const now = new Date();
    for (const one of this.#ordered((session) => !session.archived)) {
      if (one.pinned) pinned.push(one);
      else if (known.has(one.folder_id)) inFolder.get(one.folder_id).push(one);
      else {
        const day = dayGroup(one.updated_at, now);
        if (!days.has(day)) days.set(day, []);
        days.get(day).push(one);
      }
    }
    const byName = [...this.folders].sort((a, b) => a.name.localeCompare(b.name));
    return [
      ...(pinned.length ? [{ name: "Pinned", sessions: pinned }] : []),
      ...byName.map((folder) => ({ name: folder.name, folder, sessions: inFolder.get(folder.id) })),
      ...[...days].map(([name, sessions]) => ({ name, sessions })),
    ];
  }

  #ordered(takes) {
    return [...this.sessions.values()].filter((one) => !one.temporary && takes(one)).sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  }
}

function read() {
  try { return JSON.parse(localStorage.getItem(OPEN)) ?? []; } catch { return []; }
}
