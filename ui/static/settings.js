// The settings of the open chat. The widgets are Gradio's; this fills them, reads them and shows them as a dialog.

import { byId, debounced, icon } from "./dom.js";
import { count } from "./format.js";

const FIELDS = ["system_prompt", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const OFF = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, max_tokens: 1024, seed: null };
const SAVE_PAUSE_MS = 400;
const CHANGE_MS = 60;

export class Settings {
  /** `act` has: save(session, change) -> promise, fill() asks Gradio to take the values, closed(). */
  constructor(act) {
    this.act = act;
    this.values = FIELDS.map((name) => OFF[name] ?? null);
    this.save = debounced(SAVE_PAUSE_MS, () => this.#save());
    window.pagedchat = {
      ...window.pagedchat,
      settingsValues: () => this.values,
      settingsChanged: (values) => this.#changed(values),
      settingsFilled: () => this.#reveal(),
    };
  }

  /** The dialog's element appears when Gradio has built it. */
  get element() {
    return byId("pc-settings");
  }

  get isOpen() {
    return document.documentElement.hasAttribute("data-settings");
  }

  show(session, info) {
    const params = session.params ?? {};
    const system = session.system_prompt ?? info.default_system_prompt ?? "";
    this.values = [system, ...FIELDS.slice(1).map((name) => params[name] ?? OFF[name])];
    this.shown = [...this.values];
    this.session = null;
    this.next = session.id;
    this.info = info;
    this.act.fill();
  }

  /** The widgets have their values: now they may be seen and changed. */
  #reveal() {
    this.#dress();
    this.#showEngine();
    this.session = this.next;
    if (this.isOpen) return;
    document.documentElement.setAttribute("data-settings", "");
    byId("pagedchat").inert = true;
    this.element.querySelector("textarea")?.focus();
  }

  /** What holds for all chats and is chosen when the server starts. */
  #showEngine() {
    const { max_num_seqs, max_model_len, device, dtype, kernels, reason } = this.info;
    const facts = [
      max_num_seqs && `${count(max_num_seqs)} replies at once, more wait their turn`,
      max_model_len && `context of ${count(max_model_len)} tokens`,
      kernels && `${dtype} on ${device}, ${kernels} kernels${reason ? `: ${reason}` : ""}`,
    ].filter(Boolean);
    this.element.querySelector(".set-engine").textContent = facts.length ? `Engine: ${facts.join("; ")}.` : "";
  }

  async close() {
    if (!this.isOpen || this.closing) return;
    this.closing = true;
    await new Promise((done) => setTimeout(done, CHANGE_MS)); // the last change is still on its way here
    this.closing = false;
    await this.#save();
    document.documentElement.removeAttribute("data-settings");
    byId("pagedchat").inert = false;
    this.act.closed();
  }

  #dress() {
    const { element } = this;
    if (element.dataset.dressed) return;
    element.dataset.dressed = "yes";
    element.setAttribute("role", "dialog");
    element.setAttribute("aria-modal", "true");
    element.setAttribute("aria-labelledby", "pc-set-title");
    const close = element.querySelector(".set-close");
    close.append(icon("close"));
    close.addEventListener("click", () => this.close());
    element.querySelector(".set-reset").addEventListener("click", () => this.#reset());
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); this.close(); }
    });
    document.addEventListener("pointerdown", (event) => {
      if (this.isOpen && !element.contains(event.target)) this.close();
    });
  }

  #changed(values) {
    if (!this.session) return;
    this.values = values;
    if (FIELDS.some((_, index) => values[index] !== this.shown[index])) this.#say("");
    this.save();
  }

  async #save() {
    this.save.cancel();
    const change = {};
    FIELDS.forEach((name, index) => {
      if (this.values[index] !== this.shown[index]) change[name] = this.values[index];
    });
    if (!Object.keys(change).length) return;
    this.shown = [...this.values];
    await this.#send(change);
  }

  async #reset() {
    this.save.cancel();
    const session = await this.#send({ reset: true });
    if (session) this.show(session, session.info);
  }

  async #send(change) {
    try {
      const session = await this.act.save(this.session, change);
      this.#say("Saved");
      return session;
    } catch (error) {
      this.#say(error.message);
      return null;
    }
  }

  #say(words) {
    this.element.querySelector(".set-saved").textContent = words;
  }
}
