// What a reader does with messages: send, stop, answer again, edit, copy. Each goes to the server for the shown chat.

import { copyText } from "./clipboard.js";
import { complain } from "./toasts.js";

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
      regenerate: (message) => this.regenerate(message),
      edit: async (message, text) => { await this.#call("edit", { message, text }); },
      select: (message) => this.#say("select", { message }),
      resume: (message) => { this.page.chat.toEnd(); this.#say("resume", { message }); },
      older: () => this.#say("older"),
      idea: (text) => { this.page.composer.text = text; this.page.composer.focus(); },
      system: () => this.page.showSettings(),
      menu: (message) => this.page.messageActions.menu(message),
    };
  }

  #call(op, fields) {
    return this.page.socket.call(op, fields);
  }

  #say(op, fields) {
    return this.#call(op, fields).catch(complain);
  }

  regenerate(message) {
    this.page.chat.toEnd();
    return this.#say("regenerate", { message });
  }

  async send(text) {
    const { page } = this;
    await page.switching;
    const parent = page.chat.ids.at(-1) ?? null;
    const session = page.current;
    this.pending = { session, parent, text };
    try {
      const sent = await this.#call("send", { session, parent, text });
      this.pending = null;
      page.chat.toEnd();
      if (session === null && page.current === null) await page.show(sent.session);
    } catch (error) {
      if (!error.lost) this.pending = null;
      throw error;
    }
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

  stop() {
    const message = this.page.chat.running?.id;
    if (message) this.#say("stop", { message });
  }

  probe(text) {
    const { page } = this;
    if (!page.banner.ready) return Promise.resolve(null);
    return this.#call("probe", { session: page.current, parent: page.chat.ids.at(-1) ?? null, text });
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
