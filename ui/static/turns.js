// What a reader does with messages: send, stop, regenerate, branch, edit, copy. Each goes to the server for the shown chat.

import { announce } from "./announce.js";
import { copyText } from "./clipboard.js";
import { Documents } from "./document.js";
import { complain, toast } from "./toasts.js";

const MOST_BEGUN = 5; // chats that other pages may have begun at the same time

export class Turns {
  /** `page` has: socket, chat, composer, banner, current, switching, show(id), showSettings(), messageActions. */
  constructor(page) {
    this.page = page;
    this.pending = null; // what is being sent: {session, parent, text}
  }

  /** What `Chat` and `Message` may ask for. */
  get actions() {
    return {
      copy: (id, button) => this.copy(id, button),
      copyText,
      run: (name, message, button) => this.page.messageActions.run(name, message, button),
      bar: (message) => this.page.messageActions.bar(message),
      menu: (message) => this.page.messageActions.menu(message),
      again: (message, view) => this.again(message, view),
      edit: async (message, text) => { await this.#call("edit", { message, text }); },
      select: (message, from) => this.select(message, from),
      resume: (message) => this.resume(message),
      stopAll: (ids) => this.stopAll(ids),
      leaveBranch: () => this.leaveBranch(),
      branchGone: () => this.branchGone(),
      dressPassages: (question, element) => this.documents.dress(question, element),
      drawFiles: (list, files) => this.documents.drawChips(list, files),
      older: () => this.#say("older"),
      idea: (text) => { this.page.composer.text = text; this.page.composer.focus(); },
      system: () => this.page.showSettings("chat"),
    };
  }

  /** Files of messages; made when the first message is. */
  get documents() {
    this.shownDocuments ??= new Documents(this.page);
    return this.shownDocuments;
  }

  #call(op, fields) {
    return this.page.socket.call(op, fields);
  }

  #say(op, fields) {
    return this.#call(op, fields).catch(complain);
  }

  // -- other replies ------------------------------------------------------------------------------------------------

  /** Another reply, or `count` of them at once; `params` hold for them alone. What goes wrong is said. */
  regenerate(message, count = 1, params = null) {
    return this.askRegenerate(message, count, params).catch(complain);
  }

  /** The same, and what goes wrong is thrown; the id of the first new reply. */
  async askRegenerate(message, count = 1, params = null) {
    const { chat } = this.page;
    if (chat.branch.on) chat.leaveBranch();
    if (chat.ids.at(-1) === message) chat.toEnd();
    else if (chat.ids.includes(message)) chat.hold(message);
    const { reply } = await this.#call("regenerate", { message, count, params });
    announce(count > 1 ? `Writing ${count} replies at once.` : "Writing another reply.");
    return reply;
  }

  /** Once more with what this reply had: its own settings, if it had some. */
  again(message, { generation }) {
    return this.regenerate(message, 1, generation?.own ?? null);
  }

  resume(message) {
    this.page.chat.toEnd();
    return this.#say("resume", { message: message.id ?? message });
  }

  // -- versions -----------------------------------------------------------------------------------------------------

  /** Show another message; in place of `from`, where that is a version of it. */
  select(message, from = null) {
    const { chat } = this.page;
    const shown = from ?? chat.ids.find((id) => chat.items.get(id).siblings.includes(message));
    if (shown && shown !== message) chat.hold(shown);
    return this.#say("select", { message });
  }

  /** The version before or after; false if there is none. */
  step(message, by) {
    const next = message.siblings[message.index - 1 + by];
    if (next) this.select(next, message.id);
    return Boolean(next);
  }

  // -- branches -----------------------------------------------------------------------------------------------------

  /** The next message goes under this one. Nothing moves before it is sent. */
  branchFrom({ id }) {
    const { chat, composer } = this.page;
    if (id !== chat.endId) {
      chat.branchFrom(id);
      this.page.changed();
      composer.askProbe();
    }
    announce("Your next message goes under this reply.");
    composer.focus();
  }

  /** Back to the end of the shown branch; false if the reader was there. */
  leaveBranch() {
    const { chat, composer } = this.page;
    if (!chat.branch.on) return false;
    chat.leaveBranch();
    this.page.changed();
    composer.askProbe();
    return true;
  }

  /** The chat has changed where the next message was to go: another window, say. Its text stays where it is. */
  branchGone() {
    if (!this.pending) toast("This chat has changed; your message goes to its end now.", { chat: this.page.current });
  }

  // -- raw text -----------------------------------------------------------------------------------------------------

  async toggleRaw(message) {
    if (message.raw) return message.showRaw(null);
    try {
      message.showRaw(await this.#call("raw", { message: message.id }));
      announce("Raw text.");
    } catch (error) {
      complain(error);
    }
    return undefined;
  }

  // -- sending and stopping -----------------------------------------------------------------------------------------

  /** `stored` is told once the server has it, before the chat that it begins is shown. */
  async send(text, files = [], stored = () => {}) {
    const { page } = this;
    await page.switching;
    const parent = page.chat.endId;
    const session = page.current;
    const meant = page.chat.branch.id !== null && page.chat.branch.id === parent; // a branch that was asked for
    const before = session === null ? new Set(page.sidebar.sessions.keys()) : null;
    this.pending = { session, parent, text, before };
    try {
      const sent = await this.#call("send", { session, parent, text, files });
      this.pending = null;
      stored();
      if (meant) page.chat.branch.end();
      else if (sent.beside) this.#saySplit(session, sent.beside);
      page.chat.toEnd();
      if (session === null && page.current === null) await page.show(sent.session);
    } catch (error) {
      if (!error.lost) this.pending = null;
      throw error;
    }
  }

  /** After a lost connection: the chat that the first message of one has begun after all, if it was stored. */
  async begun(sessions) {
    const { pending, page } = this;
    if (!pending?.before) return null;
    this.pending = null;
    for (const { id } of sessions.filter((one) => !pending.before.has(one.id)).slice(0, MOST_BEGUN)) {
      const { messages, earlier } = await page.socket.call("open", { session: id });
      if (earlier || messages[0]?.content !== pending.text) continue;
      page.composer.delivered(null, page.composer.text);
      return id;
    }
    return null;
  }

  /** After a lost connection: was the question that was being sent stored after all? */
  settle() {
    const { pending, page } = this;
    if (!pending || pending.session !== page.current) return;
    const views = page.chat.ids.map((id) => page.chat.items.get(id).view);
    const stored = views.some((view) => view.role === "user" && (view.parent_id ?? null) === pending.parent &&
      view.content === pending.text);
    if (stored) page.composer.delivered(pending.session, pending.text);
    this.pending = null;
  }

  /** Stop the shown reply, or, where that has ended, those that are written beside it. */
  stop() {
    const { running, others } = this.page.chat;
    return this.stopAll(running ? [running.id] : others);
  }

  stopAll(ids) {
    return Promise.all(ids.map((message) => this.#say("stop", { message })));
  }

  /** The chat had gone on in another window before this page knew: what is sent from here is a branch of its own. */
  #saySplit(session, beside) {
    toast("This chat had gone on in another window: your message begins a branch beside that.", {
      action: "Show the other", run: () => this.#say("select", { message: beside }), chat: session,
    });
  }

  probe(text, files = []) {
    const { page } = this;
    if (!page.banner.ready) return Promise.resolve(null);
    return this.#call("probe", { session: page.current, parent: page.chat.endId, text, files });
  }

  editLast() {
    const { chat } = this.page;
    const id = chat.ids.findLast((one) => chat.items.get(one).role === "user");
    if (id) chat.items.get(id).startEditing();
    return Boolean(id);
  }

  async copy(id, button) {
    const view = this.page.chat.items.get(id).view;
    copyText(view.content ?? (await this.#call("text", { message: id })), button);
  }
}
