// The rendered blocks of one reply. Only blocks that changed touch the DOM.

import { h, iconButton } from "./dom.js";
import { grow, growCode } from "./grow.js";

/** Sanitized HTML of one block as an element, with a bar on every piece of code. */
function blockElement(html, finish) {
  const element = h("div.b");
  element.innerHTML = html;
  finish(element);
  for (const code of element.querySelectorAll("pre.code")) dress(code);
  for (const table of element.querySelectorAll("table")) {
    const holder = h("div.table-holder", { tabIndex: 0 });
    table.replaceWith(holder);
    holder.append(table);
  }
  return element;
}

function dress(code) {
  const button = iconButton("copy", "Copy code", () => {}, { "data-copy": "code" });
  const bar = h("div.code-bar", {}, h("span", {}, code.dataset.language || "text"), button);
  const holder = h("div.code-holder");
  code.replaceWith(holder);
  holder.append(bar, code);
  code.tabIndex = 0;
}

/** A number in brackets that names no passage is text. */
function plainNumbers(element) {
  for (const number of element.querySelectorAll("button.cite")) number.replaceWith(number.textContent);
}

export class Blocks {
  /** `finish` is given each new block before it is shown. */
  constructor(finish = plainNumbers) {
    this.finish = finish;
    this.element = h("div.md");
    this.html = [];
    this.mark = h("span.caret", { "aria-hidden": "true" });
  }

  /** Show these blocks; those that are equal stay untouched, and so do the first `from`. */
  set(html, from = 0, keep = 0) {
    const old = this.html;
    this.html = html;
    this.mark.remove();
    for (let index = from; index < html.length; index++) {
      if (html[index] !== old[index]) this.#place(index, old[index], index === from ? keep : 0);
    }
    while (this.element.childElementCount > html.length) this.element.lastElementChild.remove();
  }

  /** A growing reply: block `at` keeps its first `keep` characters, the rest is new; `total` blocks in all. */
  patch({ at, keep, html, total }) {
    const next = this.html.slice(0, at);
    html.forEach((text, index) => next.push(index ? text : (this.html[at] ?? "").slice(0, keep) + text));
    if (next.length !== total) return false;
    this.set(next, at, keep);
    return true;
  }

  #place(index, before, keep) {
    const html = this.html[index];
    const old = before === undefined ? null : this.element.children[index]; // else what stands there is no block
    if (old && growCode(old, before, html, keep)) return;
    const fresh = blockElement(html, this.finish);
    if (old) grow(old, fresh);
    else this.element.append(fresh);
  }

  /** Put the caret behind the last character, or take it away. */
  caret(on) {
    this.mark.remove();
    if (!on) return;
    let end = this.element.lastElementChild;
    while (end?.lastElementChild && !end.matches("pre, code, math") && !trailingText(end)) end = end.lastElementChild;
    if (!end || end.matches("hr, math")) end = this.element;
    (end.matches("pre") ? end.querySelector("code") ?? end : end).append(this.mark);
  }
}

function trailingText(element) {
  const last = element.lastChild;
  return last?.nodeType === Node.TEXT_NODE && last.data.trim() !== "";
}
