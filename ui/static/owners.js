// What the KV panel calls those who hold blocks, as of now: the shown chat, another one by its title, or a request.

export class Owners {
  /** `page` has: current, sidebar. */
  constructor(page) {
    this.page = page;
    this.gone = new Map(); // titles of chats that were in the list
  }

  nameOf(owner) {
    if (owner === this.page.current) return "this chat";
    const title = this.page.sidebar.sessions.get(owner)?.title;
    if (title === undefined) return this.gone.has(owner) ? `${this.gone.get(owner)} (deleted)` : "API";
    this.gone.set(owner, title);
    return title;
  }

  /** The shown chat is left: its title may be all that is known of it later. */
  note(session) {
    if (session) this.gone.set(session.id, session.title);
  }
}
