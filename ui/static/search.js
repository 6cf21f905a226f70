// The search field over the list, and what it finds: chats by their titles, messages with the words marked.

import { debounced, h, icon } from "./dom.js";
import { ROW, line } from "./list_rows.js";

const PAUSE_MS = 180;
const PAGE = 50;
const HIT = 62; // heights in pixels, as the style sheet has them
const MORE = 40;
const FENCE = /```[\w+#.-]*\n?|`/;
const FILTERS = ["role:", "folder:", "model:", "before:", "after:", "has:"];

export class Search {
  /** `act` has: search(query, limit, offset) -> promise, open(id, message), row(id) -> a chat's row, redraw(), into() moves
   * the focus to the first result. */
  constructor(act) {
    this.act = act;
    this.found = null;
    this.problem = "";
    this.field = h("input.filter", {
      type: "search", placeholder: "Search chats and messages", "aria-label": "Search chats and messages", autocomplete: "off",
      spellcheck: "false", "data-testid": "search", "aria-describedby": "pc-search-hint", title: "Ctrl Shift F", oninput: () => this.#typed(),
      onkeydown: (event) => this.#key(event),
    });
    this.hint = h("div.filter-hint", { id: "pc-search-hint" }, "Narrow with ",
      ...FILTERS.map((name) => h("button", { type: "button", tabIndex: -1, onclick: () => this.#add(name) }, name)));
    this.element = h("div.search", { role: "search", "aria-label": "Chats", "data-active": "false" }, icon("search", 15), this.field, this.hint);
    this.ask = debounced(PAUSE_MS, () => this.#search());
  }

  get words() {
    return this.field.value.trim();
  }

  get active() {
    return Boolean(this.words);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  clear() {
    if (!this.field.value) return;
    this.field.value = "";
    this.#typed();
  }

  #typed() {
    this.element.dataset.active = String(this.active);
    this.ask.cancel();
    this.turn = (this.turn ?? 0) + 1;
    if (!this.active) this.found = null;
    else this.ask();
    this.problem = "";
    this.act.redraw();
  }

  async #search(offset = 0) {
    const { turn, words } = this;
    try {
      const found = await this.act.search(words, PAGE, offset);
      if (turn !== this.turn) return; // other words were typed meanwhile
      this.found = { ...found, words, hits: offset ? [...this.found.hits, ...found.hits] : found.hits };
      this.problem = "";
    } catch (error) {
      if (turn !== this.turn) return;
      this.problem = error.message;
    }
    this.act.redraw();
  }

  /** What is found, for the list. */
  rows() {
    if (this.problem) return [line("problem", this.problem)];
    if (!this.found) return [line("wait", "Searching …")];
    const { hits, note, more } = this.found;
    const rows = note ? [line("note", note, "p.none.search-note")] : [];
    for (const hit of hits) {
      const row = hit.message_id ? this.#message(hit) : this.#chat(hit);
      if (row) rows.push(row);
    }
    if (!hits.length) rows.push(line("none", "Nothing found."));
    else if (more) rows.push(this.#more());
    return rows;
  }

  #chat(hit) {
    const known = this.act.row(hit.session_id);
    return known ?? { key: `chat ${hit.session_id}`, height: ROW, stamp: hit.title, chat: true,
      make: () => this.#link(hit, "div.hit.title-hit", h("b", {}, ...marked(hit.snippet || hit.title))) };
  }

  #message(hit) {
    return { key: `hit ${hit.message_id}`, height: HIT, stamp: `${hit.title}\n${hit.snippet}`, chat: true,
      make: () => this.#link(hit, "div.hit", h("b", {}, h("span", {}, hit.title), h("small", {}, where(hit))), h("span", {}, ...marked(hit.snippet))) };
  }

  #link(hit, kind, ...parts) {
    const address = `/?session=${encodeURIComponent(hit.session_id)}`;
    return h(kind, { "data-testid": "search-hit", "data-message": hit.message_id ?? null }, h("a", {
      href: address, title: hit.title,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
        event.preventDefault();
        this.act.open(hit.session_id, hit.message_id);
      },
    }, ...parts));
  }

  #more() {
    return { key: "more", height: MORE, stamp: "", make: () => h("div", {}, h("button.more", {
      type: "button", onclick: () => this.#search(this.found.hits.length),
    }, "Show more")) };
  }

  #add(name) {
    const { value } = this.field;
    this.field.value = `${value}${!value || value.endsWith(" ") ? "" : " "}${name}`;
    this.field.focus();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      if (this.field.value) this.clear();
      else this.field.blur();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.act.into();
    } else if (event.key === "Enter") {
      event.preventDefault();
      const first = this.found?.words === this.words && this.found.hits[0];
      if (first) this.act.open(first.session_id, first.message_id);
    }
  }
}

/** The pieces of a snippet, [text, whether it was looked for], with the words marked and code as code, without its fences. */
function marked(snippet) {
  const pieces = typeof snippet === "string" ? [[snippet, false]] : snippet;
  let code = false;
  return pieces.flatMap(([text, hit]) => text.split(FENCE).flatMap((part, at) => {
    if (at) code = !code;
    if (!part) return [];
    const shown = hit ? h("mark", {}, part) : part;
    return [code ? h("code", {}, shown) : shown];
  }));
}

function where({ role, created_at: time }) {
  const date = new Date(time);
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  const day = Number.isNaN(date.getTime()) ? "" : date.toLocaleDateString(undefined, { day: "numeric", month: "short", ...year });
  return [role === "user" ? "you" : "", day].filter(Boolean).join(" · ");
}
