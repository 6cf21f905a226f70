// The settings as a dialog: the fields of the open chat, which are Gradio's widgets, and the other sections beside them.

import { byId, debounced, h, icon } from "./dom.js";
import { differing, emptyValues, FIELDS, inWords, isNumber, labelOf, RARE, storedValue, usualOf, valuesOf } from "./settings_fields.js";
import { SettingsNav } from "./settings_nav.js";
import { settingsSections } from "./settings_sections.js";

const SAVE_PAUSE_MS = 400;
const CHANGE_MS = 60;

export class Settings {
  /** `act` has: save(session, change, version) -> promise, fill() asks Gradio to take the values, closed(), and `page`,
   * whose other parts the sections speak of. */
  constructor(act) {
    this.act = act;
    this.typed = new Map(); // what was typed outside of a field's range, by name
    this.values = emptyValues();
    this.facts = { usual: {}, installation: null };
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

  /** Open at a section; `null` shows the list of sections where there is no room for both. */
  show(session, info, facts = this.facts, section = null) {
    this.facts = facts;
    this.section = section;
    this.#take(session, info);
  }

  #take(session, info) {
    this.values = valuesOf(session, info);
    this.shown = [...this.values];
    this.typed.clear();
    this.session = null;
    this.next = session.id;
    this.chat = session;
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
    this.#take(session, this.info);
    this.values = merged;
    this.say("Changed in another window; it is shown as it is now.");
  }

  /** The widgets have their values: now they may be seen and changed. */
  #reveal() {
    this.#dress();
    this.session = this.next;
    this.#mark();
    this.sections.find((one) => one.id === "model").fill();
    if (this.isOpen) return;
    this.say("");
    document.documentElement.setAttribute("data-settings", "");
    byId("pagedchat").inert = true;
    this.nav.show(this.section ?? this.nav.current ?? "chat", { page: this.section !== null });
    (this.nav.onPage ? this.nav.title : this.nav.buttons.get(this.nav.current)).focus({ preventScroll: true });
    if (this.nav.current === "chat" && this.section) this.element.querySelector("textarea")?.focus();
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
    element.setAttribute("aria-label", "Settings");
    const close = element.querySelector(".set-close");
    close.append(icon("close"));
    close.addEventListener("click", () => this.close());
    this.sections = settingsSections(this);
    element.querySelector(".set-pages").replaceChildren(...this.sections.map((one) => one.element).filter((one) => one.id !== "pc-set-chat"));
    this.nav = new SettingsNav(element, this.sections, (id) => {
      this.say("");
      this.sections.find((one) => one.id === id).fill?.();
    });
    const more = element.querySelector(".set-more");
    more.addEventListener("click", () => this.#fold(more.getAttribute("aria-expanded") === "true"));
    element.addEventListener("input", ({ target }) => this.#mind(target));
    element.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("pointerdown", ({ target }) => {
      if (this.isOpen && !element.contains(target) && !target.closest("dialog")) this.close();
    });
  }

  #key(event) {
    if (event.key !== "Escape" || event.isComposing) return;
    event.stopPropagation();
    if (this.nav.onPage) this.nav.list(true);
    else this.close();
  }

  #fold(closed) {
    this.element.querySelector(".set-more").setAttribute("aria-expanded", String(!closed));
    this.element.toggleAttribute("data-more", !closed);
  }

  #changed(values) {
    if (!this.session) return;
    this.values = values;
    const words = this.#remarks();
    if (words || FIELDS.some((_, index) => values[index] !== this.shown[index])) this.say(words, Boolean(words));
    this.save();
  }

  async #save() {
    this.save.cancel();
    const change = {};
    FIELDS.forEach((name, index) => {
      if (this.values[index] === this.shown[index] || isOutside(this.#field(name))) return;
      this.shown[index] = this.values[index];
      change[name] = storedValue(name, this.values[index]);
    });
    if (!Object.keys(change).length) return;
    await this.#send(change);
  }

  /** Give settings back to the model: some by name, or all. */
  async reset(names = null) {
    this.save.cancel();
    const change = names ? Object.fromEntries(names.map((name) => [name, null])) : { reset: true };
    const session = await this.#send(change);
    if (session) this.#take(session, this.info);
  }

  async #send(change) {
    this.sending = true;
    try {
      const session = await this.act.save(this.session, change, this.version);
      this.version = session.version;
      this.chat = session;
      this.#mark();
      const words = this.#remarks();
      this.say(words || "Saved", Boolean(words));
      return session;
    } catch (error) {
      this.say(error.message, true);
      return null;
    } finally {
      this.sending = false;
    }
  }

  /** Beside each field that is not what the model would use: what that is, and the way back. */
  #mark() {
    const { usual } = this.facts;
    const own = new Set(differing(this.chat, usual));
    if (this.chat.system_prompt !== null) own.add("system_prompt");
    for (const name of FIELDS) {
      const block = byId(`pc-set-${name}`);
      block.querySelector(".set-own")?.remove();
      if (!own.has(name)) continue;
      const usually = name === "system_prompt" ? "" : `: ${inWords(name, usualOf(name, usual))}`;
      block.append(h("p.set-own", {}, h("button.link", { type: "button", onclick: () => this.reset([name]) },
        `Back to the model's${usually}`, h("span.unseen", {}, ` (${labelOf(name).toLowerCase()})`))));
    }
    if (RARE.some((name) => own.has(name))) this.#fold(false);
    this.sections.find((one) => one.id === "chat").mark([...own]);
  }

  /** The box of a number, null for a text. */
  #field(name) {
    return isNumber(name) ? this.element.querySelector(`input[type=number][aria-label$="${labelOf(name)}"]`) : null;
  }

  /** Remember what does not fit into its field: Gradio refuses it without a word, or takes the nearest value. */
  #mind(input) {
    const name = FIELDS.find((one) => isNumber(one) && input.getAttribute("aria-label")?.endsWith(labelOf(one)));
    if (!name) return;
    if (isOutside(input)) this.typed.set(name, input.value);
    else this.typed.delete(name);
    if (this.typed.has(name)) this.say(this.#remarks(), true);
  }

  /** What became of values that do not fit, a sentence each. */
  #remarks() {
    return [...this.typed].map(([name, typed]) => {
      const field = this.#field(name);
      const range = field.max === "" ? `must be at least ${field.min}` : `goes from ${field.min} to ${field.max}`;
      return `${labelOf(name)} ${range}: ${typed} ${isOutside(field) ? "is not saved" : `became ${field.value}`}.`;
    }).join(" ");
  }

  say(words, problem = false) {
    const place = this.element.querySelector(".set-saved");
    place.textContent = words;
    place.classList.toggle("problem", problem);
  }
}

function isOutside(input) {
  return Boolean(input) && (input.validity.rangeUnderflow || input.validity.rangeOverflow);
}
