// Messages that wait for the end of a reply: below the chat as bubbles, in the order in which they will be sent.

import { h, icon, iconButton, unfit } from "./dom.js";
import { plural } from "./format.js";
import { complain, toast } from "./toasts.js";
import { tried } from "./tried.js";

export class Waiting {
  /** `page` has: socket, chat, composer, current, open(id, options). */
  constructor(page) {
    this.page = page;
    this.items = [];
    this.element = h("section.waiting", { "aria-label": "Messages that wait", "data-testid": "waiting" });
    page.socket.on("queue", ({ session_id: session, queue }) => { if (session === page.current) this.take(queue); });
  }

  #call(op, fields) {
    return this.page.socket.call(op, { session: this.page.current, ...fields });
  }

  #try(op, fields) {
    return tried(this.page.socket, op, { session: this.page.current, ...fields });
  }

  /** What waits in the shown chat. */
  take(items) {
    this.items = items;
    this.page.composer.files.setQueued(items.flatMap((one) => one.files.map((file) => file.id)));
    this.draw();
  }

  /** Let a message wait for the reply that is being written. */
  async add(text, files) {
    const { chat } = this.page;
    if (!chat.running) return this.page.turns.send(text, files); // it has just ended
    await this.#call("queue", { message: chat.running.id, text, files, typed: true });
    return chat.toEnd();
  }

  /** Put the bubbles under the shown branch. Those of other branches are one line. */
  draw() {
    const { chat } = this.page;
    const there = new Set(chat.ids);
    const here = this.items.filter((one) => there.has(one.under_id));
    const elsewhere = this.items.filter((one) => !there.has(one.under_id));
    const focused = this.element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const parts = here.map((one, at) => this.#bubble(one, at, here));
    if (elsewhere.length) parts.push(this.#elsewhere(elsewhere));
    this.element.replaceChildren(...parts);
    chat.setTail(parts.length ? this.element : null);
    if (focused) [...this.element.querySelectorAll("button")].find((one) => one.dataset.key === focused)?.focus();
  }

  #bubble(one, at, all) {
    const button = (name, label, run, more = {}) => iconButton(name, label, run, { "data-key": `${one.id} ${name}`, ...more });
    const many = all.length > 1;
    return h("article.queued", { "data-testid": "queued", "data-queued-id": one.id, "data-held": String(Boolean(one.held)), "aria-label": "Waiting message" },
      h("div.typed", {}, one.text),
      one.files.length ? h("ul.sent-files", {}, ...one.files.map((file) => h("li", {}, icon("file"), file.name))) : null,
      h("footer.foot", {},
        h("span.state", {}, icon(one.held ? "pause" : "clock"), h("span", {}, one.held ? `Held. ${one.held}` : at ? "Waits its turn" : "Sent when this reply has ended")),
        one.held ? h("button.link", { type: "button", "data-testid": "send-now", "data-key": `${one.id} send`, onclick: () => this.#sendNow(one) },
          this.page.chat.running ? "Wait for this reply" : "Send now") : null,
        h("span.acts", {},
          many ? button("up", "Send earlier", () => this.#move(all, at, -1), { ...unfit(at === 0), "data-testid": "queued-up" }) : null,
          many ? button("down", "Send later", () => this.#move(all, at, 1), { ...unfit(at === all.length - 1), "data-testid": "queued-down" }) : null,
          button("edit", "Take back into the composer", () => this.#edit(one), { "data-testid": "queued-edit" }),
          button("close", "Remove", () => this.#remove(one, at), { "data-testid": "queued-remove" }))));
  }

  #elsewhere(items) {
    const show = () => this.page.open(this.page.current, { message: items[0].under_id });
    const after = this.page.chat.last?.id;
    const bring = async () => { for (const one of items) await this.#try("bring_queued", { queued: one.id, message: after }); };
    return h("p.elsewhere", { "data-testid": "waiting-elsewhere" }, icon("clock"),
      h("span", {}, items.length === 1 ? "1 message waits in another branch." : `${plural(items.length, "message")} wait in other branches.`),
      h("button.link", { type: "button", onclick: show }, "Show"),
      this.page.chat.running ? h("button.link", { type: "button", onclick: bring }, "Wait here instead") : null);
  }

  #sendNow(one) {
    return this.#try("send_queued", { queued: one.id, parent: this.page.chat.last?.id ?? null });
  }

  #move(all, at, step) {
    if (!all[at + step]) return undefined;
    const ids = all.map((one) => one.id);
    [ids[at], ids[at + step]] = [ids[at + step], ids[at]];
    return this.#try("order_queue", { ids });
  }

  async #edit(one) {
    const session = this.page.current;
    await this.page.composer.drafts.flush();
    const taken = await this.#try("take_queued", { queued: one.id });
    if (taken) this.page.composer.takeBack(session, taken.text, taken.draft);
  }

  async #remove(one, place) {
    const session = this.page.current;
    const gone = await this.#try("remove_queued", { queued: one.id });
    if (!gone) return;
    const back = () => this.page.socket.call("queue", { session, message: gone.after, text: gone.text, files: gone.files, place }).catch(complain);
    toast("Removed a waiting message.", { action: "Undo", run: back, chat: session });
  }
}
