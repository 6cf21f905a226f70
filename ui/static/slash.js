// Commands in the composer: "/" at the beginning opens the list of them, what is typed narrows it.

import { h } from "./dom.js";

const WORD = /^\/([a-z-]*)$/i;
const WHOLE = /^\/([a-z][a-z-]*)(?:\s+([\s\S]*))?$/i;

export class SlashMenu {
  /** `act` has: commands() -> [{name, takes, about}], fill(text), run(command, rest). */
  constructor(field, act) {
    this.field = field;
    this.act = act;
    this.found = [];
    this.at = 0;
    this.list = h("ul.commands", { role: "listbox", id: "pc-commands", "aria-label": "Commands" });
    this.said = h("span.unseen", { role: "status" });
    this.element = h("div.slash", { hidden: true, "data-testid": "commands" }, this.list,
      h("div.slash-hint", {}, "↑ ↓ choose · Tab completes · Esc closes · // sends a slash"));
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-haspopup", "listbox");
    field.addEventListener("blur", () => this.close());
    field.addEventListener("focus", () => this.typed());
  }

  get open() {
    return !this.element.hidden;
  }

  /** What a text asks for: {command, rest}, {unknown} for a name that is none, null for a plain message. */
  parse(text) {
    const [, name, rest = ""] = WHOLE.exec(text.trimEnd()) ?? [];
    if (!name) return null;
    const command = this.act.commands().find((one) => one.name === name.toLowerCase());
    return command ? { command, rest: rest.trim() } : { unknown: `/${name}` };
  }

  /** The text has changed. */
  typed() {
    const word = WORD.exec(this.field.value)?.[1];
    if (word === undefined || word !== this.left) this.left = null;
    if (word === undefined || this.left === word || document.activeElement !== this.field) return this.close();
    const name = word.toLowerCase();
    const begins = (one) => one.name.startsWith(name);
    const all = this.act.commands();
    this.found = all.filter(begins);
    if (!this.found.length && name.length > 1) this.found = all.filter((one) => one.name.includes(name));
    if (!this.found.length) return this.close();
    this.at = 0;
    this.element.hidden = false;
    this.field.setAttribute("aria-controls", "pc-commands");
    this.said.textContent = this.found.length === 1 ? "1 command" : `${this.found.length} commands`;
    return this.#draw();
  }

  close() {
    if (!this.open) return;
    this.element.hidden = true;
    this.said.textContent = "";
    for (const name of ["aria-activedescendant", "aria-controls"]) this.field.removeAttribute(name);
  }

  /** Returns whether the key was for the list. */
  key(event) {
    if (!this.open) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const command = this.found[this.at];
    if (step) {
      this.at = (this.at + step + this.found.length) % this.found.length;
      this.#draw();
    } else if (event.key === "Escape") {
      this.left = WORD.exec(this.field.value)?.[1] ?? null;
      this.close();
    } else if (event.key === "Tab" && !event.shiftKey) this.#complete(command);
    else if (event.key === "Enter" && !event.shiftKey) this.#choose(command);
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  #complete(command) {
    this.left = command.takes ? null : command.name;
    this.act.fill(`/${command.name}${command.takes ? " " : ""}`);
  }

  /** Run it; one that needs more is filled in. */
  #choose(command) {
    if (command.needs) this.#complete(command);
    else this.act.run(command, "");
  }

  #draw() {
    this.list.replaceChildren(...this.found.map((one, at) => h("li.command", {
      role: "option", id: `pc-command-${one.name}`, "aria-selected": String(at === this.at),
      onpointerdown: (event) => { event.preventDefault(); this.#choose(one); },
    }, h("b", {}, `/${one.name}`), one.takes ? h("i", {}, one.takes) : null, h("span", {}, one.about))));
    const chosen = this.list.children[this.at];
    this.field.setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView?.({ block: "nearest" });
  }
}
