// What was typed and not sent, for each chat: at once in this browser, a moment later on the server, where other pages
// find it. A text typed here is never replaced by one from elsewhere; that one is offered.

const KEY = "pagedchat.draft.";
const PAUSE_MS = 500;
const LONGEST = 200_000; // characters; longer texts stay in this page until it is left

export class Drafts {
  /** `save(session, text, version)` stores one on the server and resolves with {version}; `offer(session, text)` is
   * told of another page's text that has to wait, null when there is none any more. */
  constructor(save, offer) {
    this.saveThere = save;
    this.offer = offer;
    this.known = new Map(); // session -> {text, version, dirty}
    this.timers = new Map();
    this.unstored = new Set(); // chats that leave nothing in this browser; null while a temporary one begins
    addEventListener("pagehide", () => { for (const session of this.known.keys()) this.#store(session, true); });
  }

  text(session) {
    return this.#of(session).text;
  }

  /** The reader has typed. */
  typed(session, text, wait = PAUSE_MS) {
    const draft = this.#of(session);
    if (text === draft.text) return;
    Object.assign(draft, { text, dirty: true });
    this.#store(session);
    clearTimeout(this.timers.get(session));
    this.timers.set(session, setTimeout(() => this.#save(session), wait));
  }

  /** The server has this draft of a chat. With `keep` what is here stays, and the other text is offered; it goes to the
   * server with the next key stroke. Returns whether the text here has become another one. */
  take(session, { text, version }, keep) {
    const draft = this.#of(session);
    if (version <= draft.version) return false;
    const known = draft.version;
    draft.version = version;
    if (draft.saving === text) return false; // what this page sends just now
    if (text === draft.text || !(draft.dirty || (keep && draft.text))) {
      const changed = text !== draft.text;
      Object.assign(draft, { text, dirty: false });
      this.#store(session);
      return changed;
    }
    draft.dirty = true;
    this.#store(session);
    if (text && known) this.offer(session, text);
    return false;
  }

  /** Save what could not be saved before. */
  flush() {
    for (const [session, draft] of this.known) if (draft.dirty) this.#save(session);
  }

  #of(session) {
    const key = session ?? "";
    if (!this.known.has(key)) this.known.set(key, read(key));
    return this.known.get(key);
  }

  async #save(session) {
    const draft = this.#of(session);
    const { text, version } = draft;
    clearTimeout(this.timers.get(session));
    if (!draft.dirty || text.length > LONGEST || draft.saving !== null || (!session && this.unstored.has(null))) return;
    draft.saving = text;
    try {
      const saved = await this.saveThere(session, text, version);
      draft.version = Math.max(draft.version, saved?.version ?? 0);
      draft.dirty = draft.text !== text;
      this.#store(session);
    } catch { /* it stays here; the next key stroke or connection tries again */ } finally {
      draft.saving = null;
    }
    if (draft.dirty && draft.text !== text) this.#save(session); // typed meanwhile
  }

  #store(session, all = false) {
    const { text, version, dirty } = this.#of(session);
    if (text.length > LONGEST && !all) return;
    try {
      if ((text || dirty) && !this.unstored.has(session || null)) localStorage.setItem(KEY + (session || "new"), JSON.stringify({ text, version, dirty }));
      else localStorage.removeItem(KEY + (session || "new"));
    } catch { /* storage is off or full: the text stays in this page */ }
  }
}

function read(session) {
  const none = { text: "", version: 0, dirty: false, saving: null };
  try {
    const stored = localStorage.getItem(KEY + (session || "new"));
    if (stored === null) return none;
    const { text, version, dirty } = JSON.parse(stored);
    return typeof text === "string" ? { text, version: Number(version) || 0, dirty: Boolean(dirty), saving: null } : none;
  } catch {
    return none;
  }
}
