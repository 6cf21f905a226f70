// What a screen reader says of replies: whole sentences while they are written, and how they ended. The messages
// themselves are no live region: a reply that grows would be read again from its beginning with every token.

import { h, byId, throttled } from "./dom.js";

const PAUSE_MS = 2_000; // between two things said
const KEPT = 12; // pieces that stay in the region
const SENTENCE = /^[\s\S]*(?:[.!?…:](?=\s)|[。！？\n])/;

export class ReadAloud {
  /** `page` has: socket, chat, current. Made after the page listens, so that the messages are up to date. */
  constructor(page) {
    this.page = page;
    this.said = new Map(); // message -> characters of it that were said
    this.region = h("div.unseen", { "aria-live": "polite", "aria-label": "Replies", role: "group", "data-testid": "said" });
    byId("pc-log").after(this.region);
    this.grow = throttled(PAUSE_MS, () => this.#growing());
    page.socket.on("patch", ({ session }) => { if (session === page.current) this.grow(); });
    page.socket.on("message", ({ session, message }) => {
      if (session === page.current && message.role === "assistant" && message.status !== "streaming") this.#ended(message);
    });
  }

  #growing() {
    const reply = this.page.chat.running;
    if (!reply) return;
    const rest = textOf(reply.text, true).slice(this.said.get(reply.id) ?? 0);
    const whole = rest.match(SENTENCE)?.[0];
    if (whole?.trim()) this.#say(reply.id, whole);
    else if (!this.said.has(reply.id)) this.#say(reply.id, "", "The reply begins.");
  }

  #ended({ id, status }) {
    const reply = this.page.chat.items.get(id);
    if (!reply || !this.said.has(id)) return;
    this.#say(id, textOf(reply.text).slice(this.said.get(id)));
    this.said.delete(id);
    const note = reply.note.hidden ? "" : reply.note.querySelector("span")?.textContent;
    this.#say(null, "", note || (status === "done" ? "End of the reply." : ""));
  }

  #say(id, text, words = text) {
    if (id) this.said.set(id, (this.said.get(id) ?? 0) + text.length);
    const piece = words.replace(/\s+/g, " ").trim();
    if (!piece) return;
    this.region.append(h("p", {}, piece));
    while (this.region.childElementCount > KEPT) this.region.firstChild.remove();
  }
}

/** What is read aloud: code by its name only, and of a block that `grows` when its fence is closed by what follows it.
 * It is read without laying the page out, as `innerText` would. */
function textOf(element, grows = false) {
  const blocks = [...element.querySelectorAll(".b")];
  return blocks.map((block) => {
    const code = block.querySelector(".code-holder");
    if (code && grows && block === blocks.at(-1)) return "";
    if (code) return `Code in ${code.querySelector(".code-bar span")?.textContent ?? "text"}.`;
    const text = block.textContent.trim();
    return block.querySelector("li, tr") ? text : text.replaceAll("\n", " ");
  }).join("\n");
}
