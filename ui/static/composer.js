// Where the reader writes: drafts for each chat, Send or Stop, and what sending would cost.

import { byId, debounced, h, icon, iconButton } from "./dom.js";
import { Drafts } from "./drafts.js";
import { count, plural } from "./format.js";

const PROBE_PAUSE_MS = 350;

/** Why what was sent before is computed again; a new message needs no reason. */
const REASONS = {
  caching_off: "prefix caching is off",
  evicted: "earlier blocks made room for others",
  template: "the chat template rewrites an earlier reply",
};

export class Composer {
  /** `act` has: send(text) -> promise, stop(), probe(text) -> promise, editLast(), saveDraft(session, text, version). */
  constructor(act) {
    this.act = act;
    this.session = null;
    this.drafts = new Drafts(act.saveDraft, (session, text) => this.#offer(session, text));
    this.busy = false;
    this.running = false;
    this.field = h("textarea", {
      id: "pc-composer", "data-testid": "composer", rows: "1", placeholder: "Write a message",
      "aria-label": "Message", oninput: () => this.#typed(), onkeydown: (event) => this.#key(event),
    });
    this.send = h("button.primary", { type: "button", "data-testid": "send", onclick: () => this.submit() },
      "Send", icon("up", 14));
    this.stop = h("button.primary.stop", { type: "button", "data-testid": "stop", onclick: () => act.stop() },
      h("i.square"), "Stop");
    this.probe = h("span.probe", { "aria-live": "off" });
    this.problem = h("div.problem", { role: "alert", hidden: true });
    this.other = h("div.other-draft", { role: "status", hidden: true, "data-testid": "other-draft" });
    this.place = h("span.place", {}, this.send);
    byId("pc-foot").append(h("form.box", { onsubmit: (event) => { event.preventDefault(); this.submit(); } },
      this.problem, this.other, this.field, h("div.row", {}, this.probe, this.place)));
    this.askProbe = debounced(PROBE_PAUSE_MS, () => this.#showProbe());
    this.#typed(false);
    // What is typed first belongs here; on a touch screen the focus would bring up its keyboard.
    if (matchMedia("(pointer: fine)").matches && [null, document.body].includes(document.activeElement)) this.focus();
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    this.field.value = value;
    this.#typed();
  }

  /** Show the draft of another chat; `null` is the chat that begins with the first message. With `keep`, what was
   * typed while the page was still connecting comes along. */
  open(session, keep = false) {
    const typed = keep ? this.text : "";
    if (typed && session !== this.session) this.drafts.typed(this.session, "");
    this.session = session;
    if (typed) this.drafts.typed(session, typed);
    this.#showDraft();
  }

  #showDraft() {
    this.field.value = this.drafts.text(this.session);
    this.other.hidden = true;
    this.complain(null);
    this.#typed(false);
  }

  /** The server tells the draft of a chat. While the reader is at the field, only `fresh` ones come in by themselves. */
  takeDraft(session, draft, fresh = false) {
    const here = (session ?? "") === (this.session ?? "");
    const keep = here && !fresh && document.activeElement === this.field;
    if (draft && this.drafts.take(session, draft, keep) && here) this.#showDraft();
  }

  #offer(session, text) {
    if ((session ?? "") !== (this.session ?? "")) return;
    const use = () => { this.other.hidden = true; this.text = text; this.focus(); };
    this.other.hidden = false;
    this.other.replaceChildren(h("span", {}, `Another window has a different draft here: “${text.length > 90 ? `${text.slice(0, 88)}…` : text}”`),
      h("button.link", { type: "button", onclick: use }, "Use it"),
      iconButton("close", "Keep mine", () => { this.other.hidden = true; }));
  }

  setRunning(running) {
    if (running === this.running) return;
    this.running = running;
    this.place.replaceChildren(running ? this.stop : this.send);
    this.askProbe();
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  /** The connection is back: what was said of its loss holds no longer. */
  connected() {
    if (this.undelivered) this.complain(null);
  }

  complain(words) {
    if (!words) this.undelivered = false;
    this.problem.hidden = !words;
    this.problem.textContent = words ?? "";
  }

  async submit() {
    const text = this.text;
    if (!text.trim() || this.busy) return;
    if (this.running) return this.complain("A reply is being written here: stop it first, or wait for its end.");
    this.#setBusy(true);
    try {
      await this.act.send(text);
      this.delivered(this.session, text);
    } catch (error) {
      this.undelivered = Boolean(error.lost);
      this.complain(error.lost ? `${error.message} Your text is kept here.` : error.message);
    } finally {
      this.#setBusy(false);
    }
  }

  /** The server has stored `text` and let go of its draft; so does this page, unless something else was typed since. */
  delivered(session, text) {
    if (this.drafts.text(session) === text) this.drafts.typed(session, "", 0);
    if (this.session === session && this.text === text) {
      this.field.value = "";
      this.#typed(false);
    }
    this.complain(null);
  }

  #setBusy(busy) {
    this.busy = busy;
    this.send.classList.toggle("busy", busy);
    this.#enable();
  }

  #enable() {
    this.send.disabled = this.busy || !this.text.trim();
  }

  #typed(remember = true) {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    this.#enable();
    if (remember) {
      this.complain(null);
      this.drafts.typed(this.session, this.text);
    }
    this.probe.classList.add("stale");
    this.askProbe?.();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "ArrowUp" && !this.text) {
      if (this.act.editLast()) event.preventDefault();
    }
  }

  async #showProbe() {
    const text = this.text.trim() && !this.running ? this.text : null;
    const session = this.session;
    const found = text === null ? null : await this.act.probe(text).catch(() => null);
    if (session !== this.session || (text !== null && text !== this.text)) return;
    this.probe.classList.remove("stale");
    if (!found) return this.probe.replaceChildren(h("span.hint", {}, "Enter sends · Shift Enter starts a new line"));
    const parts = ["If you send this now: ", h("b", {}, `${count(found.cached_tokens)} cached`), ", ",
      h("b", {}, `${count(found.to_compute)} to compute`)];
    const left = found.max_model_len - found.prompt_tokens;
    const out = found.left_out_messages ?? 0;
    if (out) parts.push(` · ${plural(out, "earlier message")} left out`);
    else if (found.max_model_len) parts.push(left > 0 ? ` · ${count(left)} tokens left` : " · longer than the context");
    if (REASONS[found.reason]) parts.push(` · ${REASONS[found.reason]}`);
    this.probe.replaceChildren(h("span.cost", {}, ...parts));
  }
}
