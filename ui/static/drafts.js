// What was typed and not sent, for each chat: at once in this browser, a moment later on the server, where other pages
// find it. A text typed here is never replaced by one from elsewhere; that one is offered.

import { h, iconButton } from "./dom.js";

const KEY = "pagedchat.draft.";
export const DRAFTS = KEY;
/** Chats that leave nothing in this browser; null while a temporary one begins. */
export const unstored = new Set();
const PAUSE_MS = 500;
const LONGEST_WAIT = 1_000; // ms that a message waits for its draft
const LONGEST = 200_000; // characters; longer texts stay in this page until it is left

export class Drafts {
  /** `save(session, text, version)` stores one on the server and resolves with {version}; `offer(session, text)` is
   * told of another page's text that has to wait, null when there is none any more. */
  constructor(save, offer) {
    this.saveThere = save;
    this.offer = offer;
    this.known = new Map(); // session -> {text, version, dirty}
    this.timers = new Map();
    this.unstored = unstored;
    addEventListener("pagehide", () => { for (const session of this.known.keys()) this.#store(session, true); });
  }

  text(session) {
    return this.#of(session).text;
  }

  /** The reader has typed. */
  typed(session, text, wait = PAUSE_MS) {
    const draft = this.#of(session);
    if (text === draft.text) return;
    Object.assign(draft, { text, dirty: true, forgotten: false });
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
    if (draft.sending && !text && !draft.dirty) draft.stored = true;
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

  /** The server has made `saved` the draft of a chat; here it is `text`, which may hold more than that. */
  replace(session, text, saved) {
    const draft = this.#of(session);
    clearTimeout(this.timers.get(session));
    Object.assign(draft, { text, version: Math.max(draft.version, saved.version), dirty: text !== saved.text });
    this.#store(session);
    if (draft.dirty) this.#save(session);
  }

  /** `work` sends the draft of a chat, and the server lets go of it in the same step. Where the connection is lost before
   * the answer, the draft tells which of both happened: so it is brought there first, if that is soon done. */
  async send(session, work) {
    const draft = this.#of(session);
    const brought = (async () => { await draft.saved; await this.#save(session); })();
    await Promise.race([brought, new Promise((done) => setTimeout(done, LONGEST_WAIT))]);
    Object.assign(draft, { sending: true, stored: false });
    try {
      await work();
    } catch (error) {
      if (!error.lost || !draft.stored) throw error;
    } finally {
      draft.sending = false;
    }
  }

  /** Remove all that this browser keeps; returns how many there were. What is typed here comes back with the next key. */
  forget() {
    for (const draft of this.known.values()) draft.forgotten = true;
    const keys = storedKeys();
    for (const key of keys) localStorage.removeItem(key);
    return keys.length;
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

  #save(session) {
    const draft = this.#of(session);
    return draft.saving === null ? (draft.saved = this.#bring(session)) : draft.saved;
  }

  async #bring(session) {
    const draft = this.#of(session);
    const { text, version } = draft;
    clearTimeout(this.timers.get(session));
    if (!draft.dirty || text.length > LONGEST || (!session && this.unstored.has(null))) return;
    draft.saving = text;
    try {
      const saved = await this.saveThere(session, text, version);
      draft.version = Math.max(draft.version, saved?.version ?? 0);
      draft.dirty = draft.text !== text;
      this.#store(session);
    } catch { /* it stays here; the next key stroke or connection tries again */ } finally {
      draft.saving = null;
    }
    if (draft.dirty && draft.text !== text) await this.#save(session); // typed meanwhile
  }

  #store(session, all = false) {
    const { text, version, dirty, forgotten } = this.#of(session);
    if (forgotten || (text.length > LONGEST && !all)) return;
    try {
      if ((text || dirty) && !this.unstored.has(session || null)) localStorage.setItem(KEY + (session || "new"), JSON.stringify({ text, version, dirty }));
      else localStorage.removeItem(KEY + (session || "new"));
    } catch { /* storage is off or full: the text stays in this page */ }
  }
}

/** Where this browser keeps drafts, of messages and of edits. */
export function storedKeys() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(KEY));
  } catch {
    return []; // storage is off
  }
}

/** The line that offers another window's text. */
export class DraftOffer {
  constructor(use) {
    this.use = use;
    this.element = h("div.other-draft", { role: "status", hidden: true, "data-testid": "other-draft" });
  }

  show(text) {
    this.element.hidden = false;
    const short = text.length > 90 ? `${text.slice(0, 88)}…` : text;
    this.element.replaceChildren(h("span", {}, `Another window has a different draft here: “${short}”`),
      h("button.link", { type: "button", onclick: () => { this.hide(); this.use(text); } }, "Use it"),
      iconButton("close", "Keep mine", () => this.hide()));
  }

  hide() {
    this.element.hidden = true;
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
