// Asks the engine what replies without any text wait for, while there are such replies and the page is looked at.

const EVERY_MS = 1_000;
const FIRST_MS = 300; // most replies have begun by then

export class Awaited {
  /** `page` has: socket, chat, sidebar, banner. */
  constructor(page) {
    this.page = page;
    this.told = {};
    page.socket.on("session", () => this.ask());
    page.socket.on("path", () => this.ask());
    page.socket.on("message", () => this.ask());
    page.socket.on("open", () => this.ask());
    document.addEventListener("visibilitychange", () => this.ask());
  }

  /** Look soon, unless that is planned already. */
  ask(after = FIRST_MS) {
    if (!this.timer) this.timer = setTimeout(() => this.#look(), after);
  }

  get #running() {
    return [...this.page.sidebar.sessions.values()].some((one) => one.running) || this.page.chat.running;
  }

  /** Replies in view that have no text yet. */
  get #shown() {
    return [...this.page.chat.items.values()].filter((message) => message.waits?.element.isConnected);
  }

  async #look() {
    const { page } = this;
    try {
      if (document.hidden || !page.banner.ready || !this.#running) return;
      const told = await page.socket.call("waits");
      this.#show(told);
      if (Object.keys(told).length || this.#shown.length) setTimeout(() => this.ask(0), EVERY_MS);
    } catch { /* a lost connection is said elsewhere */ } finally {
      this.timer = null;
    }
  }

  #show(told) {
    const { sidebar } = this.page;
    for (const message of this.#shown) message.waits.take(told[message.id] ?? null);
    const waiting = new Set(Object.values(told).filter(({ state }) => state !== "reading").map(({ session }) => session));
    for (const { session } of Object.values(this.told)) if (!waiting.has(session)) sidebar.showWaiting(session, false);
    for (const session of waiting) sidebar.showWaiting(session, true);
    this.told = told;
  }
}
