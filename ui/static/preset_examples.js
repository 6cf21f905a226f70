// Example messages of a preset: questions with their answers, which can be added, moved and taken away.

import { h, iconButton } from "./dom.js";

export class Examples {
  /** `examples` are {role, content} in turn; `pairs` [question, answer] of a chat that may be taken over; `changed()`. */
  constructor(examples, pairs, changed) {
    this.changed = changed;
    this.list = h("ol.examples");
    for (let at = 0; at < examples.length; at += 2) this.#add([examples[at].content, examples[at + 1]?.content ?? ""]);
    const add = h("button.quiet", { type: "button", onclick: () => { this.#add(["", ""]).querySelector("textarea").focus(); changed(); } }, "Add an example");
    this.element = h("div", {}, this.list, h("div.part-row", {}, add, pairs.length ? this.#offer(pairs) : null));
  }

  /** Messages in turn; pairs without a word are left out. */
  get value() {
    return [...this.list.children].flatMap((item) => {
      const [question, answer] = [...item.querySelectorAll("textarea")].map((field) => field.value);
      if (!question.trim() && !answer.trim()) return [];
      return [{ role: "user", content: question }, ...(answer.trim() ? [{ role: "assistant", content: answer }] : [])];
    });
  }

  /** How many of a chat's first messages become examples. */
  #offer(pairs) {
    const words = (number) => (number === 0 ? "none" : number === 1 ? "the first question and answer" : `the first ${number} questions and answers`);
    const choice = h("select", { "aria-label": "Messages of the chat as examples" },
      ...[0, ...pairs.map((_, index) => index + 1)].map((number) => h("option", { value: String(number) }, words(number))));
    choice.addEventListener("change", () => {
      this.list.replaceChildren();
      for (const pair of pairs.slice(0, Number(choice.value))) this.#add(pair);
      this.changed();
    });
    return h("label.offer", {}, h("span", {}, "From the chat:"), choice);
  }

  #add([question, answer]) {
    const fields = [["Question", question], ["Answer", answer]].map(([label, text]) => {
      const field = h("textarea.line", { rows: "2", oninput: () => this.changed() });
      field.value = text;
      return h("label", {}, h("span", {}, label), field);
    });
    const tools = h("span.example-tools", {},
      iconButton("up", "Move this example up", () => this.#move(item, -1)), iconButton("down", "Move this example down", () => this.#move(item, 1)),
      iconButton("trash", "Take this example away", () => this.#remove(item)));
    const item = h("li", { "data-testid": "example" }, tools, ...fields);
    this.list.append(item);
    return item;
  }

  #move(item, step) {
    const other = step < 0 ? item.previousElementSibling : item.nextElementSibling;
    if (!other) return;
    const button = document.activeElement;
    if (step < 0) other.before(item);
    else other.after(item);
    button?.focus();
    this.changed();
  }

  #remove(item) {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    (next?.querySelector("textarea") ?? this.element.querySelector("button")).focus();
    this.changed();
  }
}
