// Files of messages: chips under a question, the passages that numbers in its reply name, and a look at their text.

import { showDialog } from "./dialog.js";
import { h, icon, iconButton, refill, unfit } from "./dom.js";
import { count } from "./format.js";
import { complain } from "./toasts.js";

const STEP = 20_000; // characters that come at once, as many as the server sends

export class Documents {
  /** `page` has: socket, chat. */
  constructor(page) {
    this.page = page;
    page.chat.column.addEventListener("click", (event) => {
      const number = event.target.closest("button.cite");
      if (number) this.openPassage(number.dataset.question, Number(number.dataset.cite)).catch(complain);
    });
  }

  /** The passages that a question quotes: [{n, file, name, number}]. */
  passages(question) {
    const { items, quotedAbove } = this.page.chat;
    return items.get(question)?.view.sources ?? quotedAbove.filter((one) => one.question === question);
  }

  /** By number, what a question and those above it quote: {question, name}. */
  quoted(question) {
    const { items, quotedAbove } = this.page.chat;
    const found = new Map(quotedAbove.map(({ n, question: above, name }) => [n, { question: above, name }]));
    const ids = [];
    for (let id = question; items.has(id); id = items.get(id).view.parent_id) ids.unshift(id);
    for (const id of ids) for (const { n, name } of this.passages(id)) found.set(n, { question: id, name });
    return found;
  }

  /** In a part of the reply to `question`, numbers in brackets that name a passage open it; all others are text. */
  dress(question, element) {
    const buttons = element.querySelectorAll("button.cite");
    if (!buttons.length) return;
    const quoted = this.quoted(question);
    for (const button of buttons) {
      const found = quoted.get(Number(button.dataset.cite));
      if (!found) {
        button.replaceWith(button.textContent);
        element.normalize();
        continue;
      }
      button.dataset.question = found.question;
      button.dataset.testid = "cite";
      button.title = `Passage ${button.dataset.cite}, from “${found.name}”`;
      button.setAttribute("aria-label", button.title);
    }
  }

  /** Fill the list under a question with its files. */
  drawChips(list, files) {
    list.hidden = !files.length;
    refill(list, JSON.stringify(files), () => files.map((file) => h("li", {}, h("button", {
      type: "button", "data-testid": "file", title: `Show what “${file.name}” says`,
      onclick: (event) => this.#openChip(event, file).catch(complain),
    }, icon("file"), h("b", {}, file.name), file.how ? h("span", {}, file.how) : null))));
  }

  /** A file of this message, or the first passage that it quotes of one that a message above has. */
  #openChip(event, file) {
    if (file.id) return this.open(file.id);
    return this.openPassage(event.target.closest("[data-message-id]").dataset.messageId, file.passage);
  }

  /** Show the text of a file from its beginning. */
  async open(file) {
    const found = await this.page.socket.call("document", { file, offset: 0 });
    return new Viewer(this.page.socket).show(found);
  }

  /** Show a passage that a question quotes, marked in its surroundings. */
  async openPassage(question, n) {
    const numbers = this.passages(question).map((one) => one.n);
    const find = (number) => this.page.socket.call("cited", { message: question, n: number });
    return new Viewer(this.page.socket, numbers, find).show(await find(n));
  }
}

/** A dialog with a part of a document's text, which grows in both directions. */
class Viewer {
  constructor(socket, numbers = [], find = null) {
    this.socket = socket;
    this.numbers = numbers;
    this.find = find;
    this.head = h("div.doc-head");
    this.earlier = h("button.older", { type: "button", onclick: () => this.#more(-1) }, "Show earlier text");
    this.later = h("button.older", { type: "button", onclick: () => this.#more(1) }, "Show later text");
    this.text = h("div.doc-text", { "data-testid": "document-text" });
    this.scroller = h("div.doc-scroll", { tabIndex: 0, "data-first": "", role: "region" }, this.earlier, this.text, this.later);
  }

  show(found) {
    this.#take(found);
    const closed = showDialog(found.name, () => [this.head, this.scroller], { wide: true, testid: "document" });
    this.#goToMark();
    return closed;
  }

  #take(found) {
    const { name, text, offset, passage } = found;
    this.found = { ...found, end: offset + text.length };
    this.scroller.setAttribute("aria-label", `Text of ${name}`);
    this.#draw();
    const of = this.numbers.length > 1 ? ` of ${this.numbers.length}` : "";
    const words = passage
      ? [h("b", {}, `Passage ${passage.n}${of}`), ` · part ${count(passage.number)} of ${count(passage.of)} of the file`]
      : [found.problem ?? `${count(found.total)} characters`];
    const at = passage ? this.numbers.indexOf(passage.n) : -1;
    const step = (name_, label, by) => iconButton(name_, label, () => this.#go(this.numbers[at + by]),
      { ...unfit(this.numbers[at + by] === undefined), "data-testid": label === "Next passage" ? "passage-next" : "passage-prev" });
    refill(this.head, JSON.stringify([name, passage]), () => [h("span", { role: "status" }, ...words),
      ...(passage && this.numbers.length > 1 ? [step("left", "Previous passage", -1), step("right", "Next passage", 1)] : [])]);
  }

  #draw() {
    const { file, text, offset, end, total, passage } = this.found;
    this.earlier.hidden = offset <= 0 || !file;
    this.later.hidden = end >= total || !file;
    if (!passage) return this.text.replaceChildren(text);
    const cut = (from, to) => text.slice(Math.max(0, from - offset), Math.max(0, to - offset));
    const mark = h("mark", { "data-testid": "passage" }, cut(passage.start, passage.end));
    return this.text.replaceChildren(cut(offset, passage.start), mark, cut(passage.end, end));
  }

  #goToMark() {
    this.text.querySelector("mark")?.scrollIntoView({ block: "center" });
  }

  async #go(n) {
    if (n === undefined) return;
    try {
      this.#take(await this.find(n));
      this.#goToMark();
    } catch (error) {
      complain(error);
    }
  }

  /** Bring the text before or after what is here. Where the eye is stays. */
  async #more(way) {
    const { file, offset, end, text } = this.found;
    try {
      const got = await this.socket.call("document", { file, offset: way < 0 ? Math.max(0, offset - STEP) : end });
      const before = this.scroller.scrollHeight - this.scroller.scrollTop;
      if (way < 0) this.found = { ...this.found, text: got.text.slice(0, offset - got.offset) + text, offset: got.offset };
      else this.found = { ...this.found, text: text + got.text, end: end + got.text.length };
      this.#draw();
      if (way < 0) this.scroller.scrollTop = this.scroller.scrollHeight - before;
    } catch (error) {
      complain(error);
    }
  }
}
