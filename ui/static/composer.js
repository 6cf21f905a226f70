// Where the reader writes: drafts for each chat, files, Send or Queue and Stop, and what sending would cost.

import { byId, h, icon, sentence } from "./dom.js";
import { ContextBar } from "./context_bar.js";
import { DraftOffer, Drafts } from "./drafts.js";
import { fit } from "./field.js";
import { FileChips } from "./file_chips.js";
import { SlashMenu } from "./slash.js";

const PLACEHOLDER = "Write a message";
const PLACEHOLDER_RUNNING = "Write the next message";
const LEFT = "Your message was not sent: its chat was left before its file was read. It waits there.";
const TALLEST = 1 / 3; // of the window

export class Composer {
  /** `act` has: send(text, files, stored), queue(text, files), probe(text, files), each a promise; stop(), stopOthers(), editLast(),
   * arrived() -> promise that the chat which was asked for is shown, begin() -> promise of a chat's id,
   * saveDraft(session, text, version), call(op, fields), told(probe), commands -> list, run(command, rest) -> whether it is done with,
   * and limits() -> {context, ready}. */
  constructor(act) {
    this.act = act;
    this.session = null;
    this.drafts = new Drafts(act.saveDraft, (session, text) => { if (this.#shows(session)) this.other.show(text); });
    this.other = new DraftOffer((text) => { this.text = text; this.focus(); });
    this.busy = false;
    this.running = false;
    this.field = h("textarea", {
      id: "pc-composer", "data-testid": "composer", rows: "1", placeholder: PLACEHOLDER, "aria-label": "Message",
      "aria-describedby": "pc-context", oninput: () => this.#typed(), onkeydown: (event) => this.#key(event),
    });
    this.send = h("button.primary", { type: "button", "data-testid": "send", onclick: () => this.submit() },
      "Send", icon("up", 14));
    this.queue = h("button.quiet.queue", { type: "button", "data-testid": "queue", hidden: true,
      title: "Sent when this reply has ended", onclick: () => this.submit() }, icon("clock"), "Queue");
    this.stop = h("button.primary.stop", { type: "button", "data-testid": "stop", onclick: () => act.stop() },
      h("i.square"), "Stop");
    this.stopOthers = h("button.quiet.others", { type: "button", "data-testid": "stop-others", hidden: true,
      onclick: () => act.stopOthers() }, h("i.square"), h("span"));
    this.context = new ContextBar({ ask: (text, files) => act.probe(text, files), state: () => this.#state(),
      told: (found) => { this.files.told(found?.files); act.told(found); }, offer: (found) => act.offer(found) });
    this.files = new FileChips({
      call: act.call, session: () => this.session, begin: () => act.begin(), changed: () => this.#filesChanged(),
      insert: (text, session) => this.insert(text, session),
    });
    this.slash = new SlashMenu(this.field, { commands: () => act.commands, fill: (text) => { this.text = text; this.focus(); },
      run: (command, rest) => this.#run(command, rest) });
    this.problem = h("div.problem", { role: "alert", hidden: true });
    this.place = h("span.place", {}, this.stopOthers, this.queue, this.send);
    byId("pc-foot").append(h("form.box", { onsubmit: (event) => { event.preventDefault(); this.submit(); } },
      this.slash.element, this.slash.said, this.problem, this.other.element, this.files.element, this.field, this.context.bar,
      h("div.row", {}, this.files.button, this.context.words, this.place)));
    this.files.listen(this.field);
    addEventListener("resize", () => this.#fit());
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

  #shows(session) {
    return (session ?? "") === (this.session ?? "");
  }

  /** Show the draft of another chat; `null` is the chat that begins with the first message. With `keep`, what was
   * typed while the page was still connecting comes along. */
  open(session, keep = false) {
    const typed = keep ? this.text : "";
    if (typed && session !== this.session) this.drafts.typed(this.session, "");
    const other = session !== this.session;
    this.session = session;
    if (other) this.files.open(session);
    if (typed) this.drafts.typed(session, typed);
    this.#showDraft();
  }

  #showDraft() {
    this.field.value = this.drafts.text(this.session);
    this.other.hide();
    this.complain(null);
    this.#typed(false);
  }

  /** The server tells the draft of a chat. While the reader is at the field, only `fresh` ones come in by themselves. */
  takeDraft(session, draft, fresh = false) {
    const here = this.#shows(session);
    const keep = here && !fresh && document.activeElement === this.field;
    if (draft && this.drafts.take(session, draft, keep) && here) this.#showDraft();
  }

  /** A text that was written before comes in front of what is here, which the server has done with its draft too. */
  takeBack(session, text, draft) {
    const here = this.#shows(session) ? this.text : this.drafts.text(session);
    const whole = here === draft.text ? here : [text, here].filter((part) => part.trim()).join("\n\n");
    this.drafts.replace(session, whole, draft);
    if (!this.#shows(session)) return;
    this.#showDraft();
    this.focus();
  }

  /** Put a text in place of what is selected, as if it had been typed; behind the draft of a chat that is not shown. */
  insert(text, session) {
    if (!this.#shows(session)) {
      return this.drafts.typed(session, [this.drafts.text(session), text].filter((part) => part.trim()).join("\n\n"));
    }
    const { field } = this;
    field.focus({ preventScroll: true });
    if (!document.execCommand("insertText", false, text)) { // a browser without it: no undo, but the text
      field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
      this.#typed();
    }
  }

  setRunning(running) {
    if (running === this.running) return;
    this.running = running;
    this.field.placeholder = running ? PLACEHOLDER_RUNNING : PLACEHOLDER;
    const held = this.place.contains(document.activeElement);
    this.place.replaceChildren(this.stopOthers, this.queue, running ? this.stop : this.send);
    if (held) this.focus();
    this.#enable();
    this.askProbe();
  }

  /** So many replies are written that are not shown: where the shown one has ended, they have a Stop too. */
  setOthers(number) {
    this.stopOthers.hidden = !number || this.running;
    this.stopOthers.lastChild.textContent = number > 1 ? `Stop ${number} others` : "Stop the other";
  }

  askProbe() {
    this.context?.ask();
  }

  focus() {
    this.field.focus({ preventScroll: true });
  }

  /** The connection is back: what was said of its loss holds no longer. */
  connected() {
    if (this.undelivered) this.complain(null);
    this.files.refresh();
  }

  /** Say what is wrong, with a way out: {label, run}. */
  complain(words, action = null) {
    if (!words) this.undelivered = false;
    this.problem.hidden = !words;
    this.problem.replaceChildren(...(words ? [h("span", {}, ...sentence(words))] : []));
    if (words && action) {
      this.problem.append(h("button.link", { type: "button", onclick: () => { this.complain(null); action.run(); } }, action.label));
    }
  }

  /** Send what is typed, or run it where it is a command; with `plain` it is a message whatever it looks like. */
  async submit({ plain = false } = {}) {
    const text = this.text;
    if (!text.trim() || this.busy) return;
    const command = plain ? null : this.slash.parse(text);
    if (command?.unknown) {
      return this.complain(`There is no command ${command.unknown}.`, { label: "Send it as text", run: () => this.submit({ plain: true }) });
    }
    if (command) return this.#run(command.command, command.rest);
    await this.#deliver(text, !plain && text.startsWith("//") ? text.slice(1) : text);
  }

  async #deliver(typed, text) {
    this.#setBusy(true);
    const { refused } = this.files; // one that is still being read may turn out to be another, and is to be seen
    try {
      await this.act.arrived();
      const { session, files } = await this.files.settled();
      if (session !== this.session) throw new Error(LEFT);
      const stored = () => this.delivered(session, typed); // a chat that begins with it is shown only then
      await this.drafts.send(session, () => (this.running ? this.act.queue(text, files) : this.act.send(text, files, stored)));
      this.files.sent(files, refused);
      this.delivered(session, typed);
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

  async #run(command, rest) {
    const typed = this.text;
    this.slash.close();
    this.complain(null);
    try {
      const said = await this.act.run(command, rest);
      if (typeof said === "string") return this.complain(said);
      if (this.text === typed) this.text = "";
    } catch (error) {
      this.complain(error.message);
    }
  }

  #setBusy(busy) {
    this.busy = busy;
    for (const button of [this.send, this.queue]) button.classList.toggle("busy", busy);
    this.#enable();
  }

  #enable() {
    const nothing = this.busy || !this.text.trim();
    this.send.disabled = this.queue.disabled = nothing;
    this.queue.hidden = !this.running || !this.text.trim() || Boolean(this.slash?.parse(this.text)?.command);
  }

  #fit() {
    fit(this.field, Math.max(72, innerHeight * TALLEST));
  }

  #typed(remember = true) {
    this.#fit();
    this.#enable();
    this.slash.typed();
    if (remember) {
      this.complain(null);
      this.drafts.typed(this.session, this.text);
    }
    this.context.stale();
  }

  #filesChanged() {
    this.#enable();
    this.context.stale();
  }

  #state() {
    const message = this.text.startsWith("//") ? this.text.slice(1) : this.slash.parse(this.text) ? "" : this.text;
    return { session: this.session, text: message, files: this.files.ready, running: this.running, ...this.act.limits() };
  }

  #key(event) {
    if (event.isComposing || event.keyCode === 229 || this.slash.key(event)) return; // 229: an input method has the key
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.submit();
    } else if (event.key === "ArrowUp" && !this.text) {
      if (this.act.editLast()) event.preventDefault();
    }
  }
}
