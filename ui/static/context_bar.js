// What the context would hold if the message were sent now: a bar, and the same in words.
//
//   |█████████ cached █████|//// to compute ////|∙∙∙∙ the reply ∙∙∙∙|            left            |
//
// The engine tells it between two steps, so a page that nobody looks at asks when it is looked at again.

import { debounced, h } from "./dom.js";
import { count, plural } from "./format.js";

const PAUSE_MS = 350;
const NEAR_END = 0.9; // of the context, prompt and reply together

/** Why what was sent before is computed again; a new message needs no reason. */
const REASONS = {
  caching_off: "prefix caching is off",
  evicted: "earlier blocks made room for others",
  template: "the chat template rewrites an earlier reply",
};

export class ContextBar {
  /** `act` has: ask(text, files) -> promise of a probe, state() -> {session, text, files, running, ready, empty},
   * told(found), offer(found) -> what else to say of it, or null. */
  constructor(act) {
    this.act = act;
    this.parts = { cached: h("i.cached"), compute: h("i.compute"), reply: h("i.reply") };
    this.track = h("span.track", { role: "img", "data-testid": "context-bar" }, ...Object.values(this.parts));
    this.typed = h("span.typed-tokens", { "data-testid": "typed-tokens" });
    this.bar = h("div.context", {}, this.track, this.typed);
    this.words = h("span.probe", { id: "pc-context", "aria-live": "off" });
    this.later = debounced(PAUSE_MS, () => this.#show());
    this.due = false; // whether something has changed since it was last asked
    document.addEventListener("visibilitychange", () => { if (this.due && !document.hidden) this.ask(); });
    this.#draw(null, { text: "" });
  }

  /** Something has changed: what is shown is not what would be sent. */
  stale() {
    for (const element of [this.bar, this.words]) element.classList.add("stale");
    this.ask();
  }

  ask() {
    this.later();
  }

  async #show() {
    this.due = document.hidden;
    if (this.due) return;
    const asked = this.act.state();
    const found = await this.#asked(asked);
    const now = this.act.state();
    if (asked.session !== now.session || asked.text !== now.text || String(asked.files) !== String(now.files)) return;
    for (const element of [this.bar, this.words]) element.classList.remove("stale");
    this.act.told(found);
    this.#draw(found, asked);
  }

  async #asked({ text, files, running, ready, empty }) {
    if (!ready || running || (empty && !text.trim() && !files.length)) return null;
    return this.act.ask(text, files).catch(() => null);
  }

  #draw(found, { text, files = [], running = false }) {
    const asking = Boolean(text.trim() || files.length);
    this.#drawBar(found, running);
    this.typed.textContent = found && text.trim() && found.typed_tokens ? `${plural(found.typed_tokens, "token")} typed` : "";
    if (!found || !asking) return this.words.replaceChildren(h("span.hint", {}, ...this.#hint(running, text, found)));
    const offer = this.act.offer(found);
    this.words.replaceChildren(h("span.cost", {}, ...this.#cost(found, Boolean(offer))), ...(offer ? [offer] : []));
  }

  #hint(running, text, found) {
    if (running) return [text.trim() ? "Enter queues it: it is sent when this reply has ended" : "What you send now waits for the end of this reply"];
    const parts = ["Enter sends", "Shift Enter starts a new line"];
    if (found?.max_model_len) parts.push(`${count(found.prompt_tokens)} of ${count(found.max_model_len)} tokens used`);
    return parts.flatMap((words, at) => [at ? " · " : "", h("span.whole", {}, words)]);
  }

  /** `offered` is what to do about messages that are left out, so that it says how many. */
  #cost(found, offered) {
    if (found.refused) return [h("span.warn", {}, found.refused)];
    const parts = ["If you send this now: ", h("b", {}, `${count(found.cached_tokens)} cached`), ", ",
      h("b", {}, `${count(found.to_compute)} to compute`)];
    const left = found.max_model_len - found.prompt_tokens;
    const out = found.left_out_messages ?? 0;
    if (out && !offered) parts.push(" · ", h("span.warn", {}, `${plural(out, "earlier message")} left out`));
    if (found.max_model_len && left <= 0) parts.push(" · ", h("span.warn", {}, "longer than the context"));
    else if (found.max_model_len) parts.push(` · ${count(left)} tokens left`);
    if (left > 0 && found.reply_limit > left) parts.push(h("span.warn", {}, ", less than the reply limit"));
    for (const words of found.more ?? []) parts.push(` · ${words}`);
    if (REASONS[found.reason]) parts.push(` · ${REASONS[found.reason]}`);
    return parts;
  }

  #drawFull(words) {
    this.bar.classList.remove("none");
    this.bar.dataset.near = "true";
    for (const [name, part] of Object.entries(this.parts)) part.style.width = name === "compute" ? "100%" : "0";
    this.track.setAttribute("aria-label", `Context: ${words}`);
    this.bar.title = words;
  }

  #drawBar(found, running) {
    const length = found?.max_model_len;
    if (found?.refused) return this.#drawFull(found.refused);
    this.bar.classList.toggle("none", !length && !running);
    if (!length) {
      if (!running) this.track.setAttribute("aria-label", "Context: not known");
      return;
    }
    const reply = Math.max(0, Math.min(found.reply_limit ?? 0, length - found.prompt_tokens));
    const share = (tokens) => `${(100 * Math.min(tokens, length)) / length}%`;
    this.parts.cached.style.width = share(found.cached_tokens);
    this.parts.compute.style.width = share(found.to_compute);
    this.parts.reply.style.width = share(reply);
    const near = found.prompt_tokens + (found.reply_limit ?? 0) > length * NEAR_END || found.left_out_messages;
    this.bar.dataset.near = String(Boolean(near));
    const words = `Context of ${count(length)} tokens: ${count(found.cached_tokens)} cached, ${count(found.to_compute)} to compute, ` +
      `${count(Math.max(0, length - found.prompt_tokens))} left, up to ${count(reply)} of them for the reply`;
    this.track.setAttribute("aria-label", words);
    this.bar.title = words;
  }
}
