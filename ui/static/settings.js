// The settings of the open chat. The widgets are Gradio's; this fills them, reads them and shows them as a dialog.

import { byId, debounced, icon } from "./dom.js";
import { bytes, count } from "./format.js";

const FIELDS = ["system_prompt", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];
const LABELS = {
  temperature: "Temperature", top_p: "Top-p", top_k: "Top-k", min_p: "Min-p", max_tokens: "Reply limit", seed: "Seed",
};
const OFF = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, max_tokens: 1024, seed: null };
const SAVE_PAUSE_MS = 400;
const CHANGE_MS = 60;

export class Settings {
  /** `act` has: save(session, change, version) -> promise, fill() asks Gradio to take the values, closed(). */
  constructor(act) {
    this.act = act;
    this.typed = new Map(); // what was typed outside of a field's range, by name
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
    this.values = valuesOf(session, info);
    this.shown = [...this.values];
    this.typed.clear();
    this.session = null;
    this.next = session.id;
    this.version = session.version;
    this.info = info;
    this.act.fill();
  }

  /** The chat has changed, perhaps in another window: fields that nobody has touched here show it. */
  take(session) {
    if (session.id !== this.session || !this.isOpen || this.sending) return;
    this.version = session.version;
    const [shown, values] = [this.shown, this.values];
    const there = valuesOf(session, this.info);
    if (FIELDS.every((_, index) => there[index] === shown[index])) return;
    const merged = there.map((value, index) => (values[index] === shown[index] ? value : values[index]));
    this.show(session, this.info);
    this.values = merged;
    this.#say("Changed in another window; it is shown as it is now.");
  }

  /** The widgets have their values: now they may be seen and changed. */
  #reveal() {
    this.#dress();
    this.#showEngine();
    this.session = this.next;
    if (this.isOpen) return;
    this.#say("");
    document.documentElement.setAttribute("data-settings", "");
    byId("pagedchat").inert = true;
    this.element.querySelector("textarea")?.focus();
  }

  /** What holds for all chats and is chosen when the server starts. */
  #showEngine() {
    const { max_num_seqs, max_model_len, device, dtype, kernels, reason, threads } = this.info;
    const { num_blocks, block_size, kv_bytes } = this.info;
    const facts = [
      max_num_seqs && `${count(max_num_seqs)} replies at once, more wait their turn`,
      max_model_len && `context of ${count(max_model_len)} tokens`,
      kv_bytes && `KV cache of ${count(num_blocks)} blocks, ${count(num_blocks * block_size)} tokens, ${bytes(kv_bytes)}`,
      threads && `${count(threads)} ${threads === 1 ? "thread" : "threads"}`,
      kernels && `${dtype} on ${device}, ${kernels} kernels${reason ? `: ${reason}` : ""}`,
    ].filter(Boolean);
    const since = this.info.rolled_back && new Date(this.info.rolled_back).toLocaleString();
    const back = since ? `Rolled back since ${since} to the configuration that answered before; ` +
      "“pagedchat rollback --undo” on the terminal and a new start return to your own settings." : "";
    this.element.querySelector(".set-engine").textContent =
      [facts.length ? `Engine: ${facts.join("; ")}.` : "", back].filter(Boolean).join(" ");
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
    element.addEventListener("input", ({ target }) => this.#mind(target));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.isComposing) { event.stopPropagation(); this.close(); }
    });
    document.addEventListener("pointerdown", (event) => {
      if (this.isOpen && !element.contains(event.target)) this.close();
    });
  }

  #changed(values) {
    if (!this.session) return;
    this.values = values;
    const words = this.#remarks();
    if (words || FIELDS.some((_, index) => values[index] !== this.shown[index])) this.#say(words, Boolean(words));
    this.save();
  }

  async #save() {
    this.save.cancel();
    const change = {};
    FIELDS.forEach((name, index) => {
      if (this.values[index] === this.shown[index] || isOutside(this.#field(name))) return;
      change[name] = this.shown[index] = this.values[index];
    });
    if (!Object.keys(change).length) return;
    await this.#send(change);
  }

  async #reset() {
    this.save.cancel();
    const session = await this.#send({ reset: true });
    if (session) this.show(session, this.info);
  }

  async #send(change) {
    this.sending = true;
    try {
      const session = await this.act.save(this.session, change, this.version);
      this.version = session.version;
      const words = this.#remarks();
      this.#say(words || "Saved", Boolean(words));
      return session;
    } catch (error) {
      this.#say(error.message, true);
      return null;
    } finally {
      this.sending = false;
    }
  }

  /** The box of a number, null for a text. */
  #field(name) {
    return LABELS[name] ? this.element.querySelector(`input[type=number][aria-label$="${LABELS[name]}"]`) : null;
  }

  /** Remember what does not fit into its field: Gradio refuses it without a word, or takes the nearest value. */
  #mind(input) {
    const name = FIELDS.find((one) => LABELS[one] && input.getAttribute("aria-label")?.endsWith(LABELS[one]));
    if (!name) return;
    if (isOutside(input)) this.typed.set(name, input.value);
    else this.typed.delete(name);
    if (this.typed.has(name)) this.#say(this.#remarks(), true);
  }

  /** What became of values that do not fit, a sentence each. */
  #remarks() {
    return [...this.typed].map(([name, typed]) => {
      const field = this.#field(name);
      const range = field.max === "" ? `must be at least ${field.min}` : `goes from ${field.min} to ${field.max}`;
      return `${LABELS[name]} ${range}: ${typed} ${isOutside(field) ? "is not saved" : `became ${field.value}`}.`;
    }).join(" ");
  }

  #say(words, problem = false) {
    const place = this.element.querySelector(".set-saved");
    place.textContent = words;
    place.classList.toggle("problem", problem);
  }
}

function valuesOf(session, info) {
  const params = session.params ?? {};
  const system = session.system_prompt ?? info.default_system_prompt ?? "";
  return [system, ...FIELDS.slice(1).map((name) => params[name] ?? OFF[name])];
}

function isOutside(input) {
  return Boolean(input) && (input.validity.rangeUnderflow || input.validity.rangeOverflow);
}
