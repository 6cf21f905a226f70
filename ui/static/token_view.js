// A reply token by token: each can be chosen, to see what else was likely there and to go on from one of these.

import { announce } from "./announce.js";
import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { TokenChoices } from "./token_choices.js";
import { spoken } from "./token_text.js";
import { complain } from "./toasts.js";

const HINT = "Choose a token to see what else was likely there: the model's own odds, before temperature and other settings. " +
  "The reply goes on from the one you choose, beside this one.";
const PARTS = { thinking: "Thinking", answer: "Answer" };

/** `page` has: socket, chat. */
export function showTokens(page, { id }) {
  return showDialog("Branch at a token", (close) => {
    const view = new TokenView(page, id, close);
    return [h("p.hint", {}, HINT), view.element];
  }, { wide: true, testid: "token-view" });
}

class TokenView {
  constructor(page, message, close) {
    Object.assign(this, { page, message, close });
    this.pieces = [];
    this.spans = [];
    this.open = null;
    this.element = h("div.token-text", {
      "aria-busy": "true", onclick: (event) => this.#choose(event.target.closest(".tok")), onkeydown: (event) => this.#key(event),
    }, h("p.hint", {}, "…"));
    this.#load();
  }

  async #load() {
    try {
      const { pieces, tokens } = await this.page.socket.call("tokens", { message: this.message });
      this.pieces = pieces;
      this.element.ariaBusy = "false";
      this.element.replaceChildren(...this.#parts(tokens));
      this.element.closest("dialog").addEventListener("cancel", (event) => this.#cancel(event));
      this.#focus(0);
    } catch (error) {
      this.element.replaceChildren(h("p.problem", { role: "alert" }, error.message));
    }
  }

  /** Thinking and answer apart; one group each. */
  #parts(tokens) {
    const parts = [];
    this.spans = this.pieces.map((piece, at) => this.#span(piece, at));
    this.pieces.forEach(({ part }, at) => {
      if (parts.at(-1)?.part !== part) parts.push({ part, spans: [] });
      parts.at(-1).spans.push(this.spans[at]);
    });
    const alone = parts.length === 1 && parts[0].part === "answer";
    return parts.flatMap(({ part, spans }) => [
      alone ? null : h("h3", {}, PARTS[part]),
      h("div", { class: `token-part ${part}`, role: "group", "aria-label": `${PARTS[part]}, of ${plural(tokens, "token")}` }, ...spans),
    ]).filter(Boolean);
  }

  #span(piece, at) {
    const breaks = piece.text.includes("\n") && !piece.control;
    const shown = breaks ? piece.text.replaceAll("\n", "↵\n") : piece.text;
    return h("span.tok", {
      role: "button", tabIndex: -1, "aria-label": `Token ${piece.index + 1}: ${spoken(piece)}`, "data-at": String(at), "data-testid": "token",
      class: `tok${piece.control ? " control" : ""}`, "aria-haspopup": "dialog",
    }, shown || "∅");
  }

  #focus(at) {
    const next = this.spans[Math.max(0, Math.min(at, this.spans.length - 1))];
    if (!next) return;
    for (const one of this.element.querySelectorAll("[tabindex='0']")) one.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  #key(event) {
    const at = this.spans.indexOf(document.activeElement);
    if (at < 0) return;
    const { key } = event;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.spans.length - 1 }[key];
    if (to !== undefined) this.#focus(to);
    else if (key === "ArrowDown" || key === "ArrowUp") this.#focus(this.#inLine(at, key === "ArrowDown" ? 1 : -1));
    else if (key === "Enter" || key === " ") this.#choose(this.spans[at]);
    else return;
    event.preventDefault();
  }

  /** The token in the next line, or the one before, that is nearest to the one at `at`. */
  #inLine(at, step) {
    const from = this.spans[at].getClientRects()[0];
    let [line, best, nearest] = [null, at, Infinity];
    for (let next = at + step; this.spans[next]; next += step) {
      const rect = this.spans[next].getClientRects()[0];
      if (!rect || Math.abs(rect.top - from.top) < 4) continue;
      line ??= rect.top;
      if (Math.abs(rect.top - line) > 4) break;
      const distance = Math.abs(rect.left - from.left);
      if (distance < nearest) [nearest, best] = [distance, next];
    }
    return best;
  }

  #choose(span) {
    if (!span) return;
    this.open?.close(false);
    const piece = this.pieces[Number(span.dataset.at)];
    this.#focus(Number(span.dataset.at));
    span.classList.add("tok-open");
    this.open = new TokenChoices(span, piece, {
      ask: () => this.#ask(span, piece), choose: (token) => this.#branch(piece, token),
      closed: (back) => {
        span.classList.remove("tok-open");
        this.open = null;
        if (back) span.focus({ preventScroll: true });
      },
    });
  }

  async #ask(span, piece) {
    const found = await this.page.socket.call("alternatives", { message: this.message, index: piece.index });
    span.style.setProperty("--p", String(found.taken.probability));
    span.classList.add("tok-told");
    return found;
  }

  async #branch(piece, token) {
    const { chat, socket } = this.page;
    this.open?.close(false);
    this.close();
    try {
      if (chat.ids.at(-1) === this.message) chat.toEnd();
      else if (chat.ids.includes(this.message)) chat.hold(this.message);
      await socket.call("branch_at", { message: this.message, index: piece.index, token: token.id });
      announce(`The reply goes on from ${spoken(token)}.`);
    } catch (error) {
      complain(error);
    }
  }

  /** Escape closes the list first, then the view. */
  #cancel(event) {
    if (!this.open) return;
    event.preventDefault();
    this.open.close();
  }
}
