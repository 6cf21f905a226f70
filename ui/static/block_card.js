// The tab "Block": what the picked block is, what it holds, what comes before and after it, who has it, what it went through.

import { h, iconButton, refill } from "./dom.js";
import { shortWords } from "./event_words.js";
import { count, plural } from "./format.js";
import { ACTIVE, STATE_NAMES } from "./kvmodel.js";

const FIRST = 3; // of a long chain
const LAST = 18;
const MOST_CHILDREN = 20;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export class BlockCard {
  /** `panel` has: model, look, pick(block), act, titleOf(owner), hueOf(owner); `show()` shows the block's words in the chat. */
  constructor(panel, show) {
    this.panel = panel;
    this.title = h("span", { "data-testid": "block-title" }, "Block");
    this.inChat = h("button.link", { type: "button", hidden: true, onclick: show, "data-testid": "block-in-chat" }, "Show in chat");
    this.drop = iconButton("close", "Let go of the block", () => panel.pick(null), { hidden: true });
    this.none = h("p.none", {}, "Pick a block in the grid or in the table, by a click or by arrow keys, to see what it holds.");
    this.says = h("p.block-says", { "data-testid": "block-says" });
    this.notNow = h("p.hint", { hidden: true }, "What follows is of now, not of the moment that the grid shows.");
    this.body = h("div.block-body");
    this.parts = Object.fromEntries(["tokens", "messages", "chain", "after", "who", "history", "events"].map((name) =>
      [name, h("section", { hidden: true, "data-testid": `block-${name}` })]));
    this.body.append(this.notNow, this.says, ...Object.values(this.parts));
    this.element = h("div.part.block-card", {}, h("h3", {}, this.title, h("span.block-tools", {}, this.inChat, this.drop)), this.none, this.body);
    panel.look.onChange(() => this.draw());
    this.draw();
  }

  draw() {
    if (this.element.hidden) return;
    const { look: { block, detail, problem } } = this.panel;
    this.title.textContent = block === null ? "Block" : `Block ${block}`;
    this.none.hidden = block !== null;
    this.body.hidden = this.drop.hidden = block === null;
    this.body.ariaBusy = String(block !== null && !detail && !problem);
    this.notNow.hidden = this.panel.past === null;
    this.inChat.hidden = !detail?.places.some(({ spans }) => spans.length);
    if (block === null) return;
    this.says.classList.toggle("problem", Boolean(problem));
    this.says.textContent = problem || (detail ? sentences(detail, this.panel.titleOf) : "…");
    for (const [name, make] of Object.entries(SECTIONS)) {
      const section = this.parts[name];
      const content = detail && !problem ? make(detail, this) : null;
      section.hidden = !content;
      if (content) refill(section, content.key, content.make);
    }
  }

  /** A block as a small numbered cell that picks it. */
  cell(block) {
    const { panel } = this;
    if (block === null) return h("span.block-cell.gone", { title: "Behind the window of its layers" }, "–");
    const here = block === panel.look.block;
    const state = panel.model.state[block];
    const hue = state >= ACTIVE ? panel.hueOf(panel.model.ownersOf(block)[0]) : null;
    return h("button.block-cell", {
      type: "button", "aria-current": here ? "true" : null, "data-block": String(block), class: `block-cell ${STATE_NAMES[state] ?? ""}`,
      style: hue === null ? null : `--c: var(--pc-own-${hue})`,
      "aria-label": `Block ${block}, ${STATE_NAMES[state] ?? ""}`, onclick: () => panel.pick(block),
    }, String(block));
  }

  /** Cells of a chain; of a long one its beginning and its end. */
  cells(blocks, first, last) {
    if (blocks.length <= first + last + 1) return blocks.map((one) => this.cell(one));
    const between = h("span.block-more", {}, `… ${count(blocks.length - first - last)} …`);
    return [...blocks.slice(0, first).map((one) => this.cell(one)), between, ...(last ? blocks.slice(-last).map((one) => this.cell(one)) : [])];
  }

  stamp(blocks) {
    const { model } = this.panel;
    return blocks.map((one) => `${one}${model.state[one]}${model.ownersOf(one)}`).join();
  }
}

const SECTIONS = {
  tokens: (detail) => ({ key: JSON.stringify([detail.pieces, detail.why, detail.num_tokens]), make: () => tokenParts(detail) }),
  messages: ({ places }, card) => places.length > 0 && {
    key: JSON.stringify(places), make: () => [h("h4", {}, "Messages in it"), h("ul.block-messages", {}, ...places.map((place) => message(place, card)))],
  },
  chain: ({ chain, id, num_tokens: tokens }, card) => tokens > 0 && {
    key: card.stamp([...chain, id]), make: () => [
      h("h4", {}, chain.length ? `From the beginning to here: ${plural(chain.length + 1, "block")}` : "It begins a sequence"),
      h("div.block-chain", { role: "group", "aria-label": "Blocks from the beginning to this one" }, ...card.cells([...chain, id], FIRST, LAST))],
  },
  after: ({ children }, card) => children.length > 0 && {
    key: card.stamp(children), make: () => [
      h("h4", {}, children.length > 1 ? `${children.length} blocks go on from it` : "One block goes on from it"),
      h("div.block-chain", { role: "group", "aria-label": "Blocks after it" }, ...card.cells(children, MOST_CHILDREN, 0))],
  },
  who: (detail, card) => {
    const rows = people(detail, card.panel.titleOf);
    return rows.length > 0 && { key: JSON.stringify(rows), make: () => [h("h4", {}, "Who has it"), h("ul.block-who", {}, ...rows.map((row) => h("li", {}, row)))] };
  },
  history: (detail) => {
    const words = history(detail);
    return words && { key: words, make: () => [h("h4", {}, "This life"), h("p", {}, words)] };
  },
  events: ({ events }, card) => {
    const rows = events.map((event) => [at(event.time), event.type, shortWords(event, card.panel.titleOf)]).reverse();
    return rows.length > 0 && { key: JSON.stringify(rows), make: () => [h("h4", {}, "Its last events"), h("ol.block-events", {}, ...rows.map(
      ([time, type, words]) => h("li", {}, h("time", {}, time), h("b", {}, type), h("span", { title: words }, words))))] };
  },
};

/** What a block is, in a few sentences. */
function sentences(detail, nameOf) {
  const { state, ref_count: refs, owners, num_tokens: held, block_size: size, logical, row, pinned } = detail;
  const names = owners.map(nameOf);
  const begins = {
    free: "Free: it holds nothing, and whoever needs a block next may get it.",
    cached: `Cached: nobody uses it now; its content is kept for the next prompt that begins the same way${pinned ? ", and is pinned: never given up" : ""}.`,
    active: `In use by ${names[0] ?? "a request"}.`,
    shared: `Stored once, used ${refs} times at once: by ${listed(names)}.`,
  }[state];
  if (!held) return begins;
  const first = logical * size + 1, last = logical * size + held;
  const tokens = first === last ? `token ${count(first)}` : `tokens ${count(first)} to ${count(last)}`;
  const where = row !== null ? `of this branch: row ${count(row)} of its block table` : "of what it is a part of";
  const empty = held < size ? ` ${plural(size - held, "slot")} of ${size} ${size - held === 1 ? "is" : "are"} empty.` : "";
  return `${begins} It holds ${tokens} ${where}.${empty}`;
}

function listed(names) {
  const once = [...new Set(names)];
  return once.length > 1 ? `${once.slice(0, -1).join(", ")} and ${once.at(-1)}` : once[0] ?? "requests";
}

function tokenParts({ pieces, why, num_tokens: held, block_size: size }) {
  if (!pieces) return [h("p.hint", { "data-testid": "block-why" }, why)];
  const chips = pieces.map(({ text, control, count: tokens }) =>
    h("span", { class: control ? "chip control" : "chip", title: tokens > 1 ? `${tokens} tokens` : null }, shown(text)));
  const slots = Array.from({ length: size - held }, () => h("span.chip.slot", { "aria-hidden": "true" }));
  return [h("p.block-tokens", { role: "group", "aria-label": `Its ${plural(held, "token")}` }, ...chips, ...slots)];
}

function shown(text) {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";
}

function message({ message: id, name, tokens, spans, text }, card) {
  const words = text.replace(/\s+/g, " ").trim();
  const label = [h("b", {}, name), ` ${plural(tokens, "token")}`, words ? h("span.quote", {}, ` “${words}”`) : null];
  if (!id || !spans.length) return h("li", {}, ...label);
  return h("li", {}, h("button.link", { type: "button", onclick: () => card.panel.inChat.reveal(id) }, ...label));
}

/** Those whose tables have it now, then those who have used it. */
function people({ holders, sessions, state }, nameOf) {
  const now = holders.map(({ session_id: session }) => `${nameOf(session)}: in use now`);
  const before = sessions.filter((one) => !holders.some(({ session_id: session }) => session === one)).map((one) => `${nameOf(one)}: used before`);
  const known = [...new Set([...now, ...before])];
  if (!known.length && state === "cached") return ["no chat: a program's request, or one that is forgotten"];
  return known.length > 12 ? [...known.slice(0, 12), `and ${plural(known.length - 12, "other")}`] : known;
}

function history({ born_s: born, last_used_s: idle, reuses, pinned, ref_count: refs }) {
  if (born === undefined) return "";
  const now = Date.now() / 1000;
  const again = reuses ? `taken again ${plural(reuses, "time")}` : "never taken again so far";
  const used = refs ? "in use now" : `last used ${at(now - idle)}`;
  return `Written since ${at(now - born)}; ${again}; ${used}${pinned ? "; pinned" : ""}.`;
}

/** A time of day, given in seconds since the epoch. */
function at(seconds) {
  return clock.format(new Date(seconds * 1000));
}
