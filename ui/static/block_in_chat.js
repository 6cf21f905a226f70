// The words of the picked block in the chat: characters of a message's text as it was written, found again in what is
// rendered of it, and highlighted there. What Markdown takes away or adds has no place of its own.

import { announce } from "./announce.js";
import { matches, wordsOf } from "./words.js";

const NAME = "pc-block";
const NO_TEXT = ".code-bar, .caret, math annotation, button:not(.cite)";

export class BlockInChat {
  /** `look` is a BlockLook; `page` has: chat, layout, current, open(session, {message}). */
  constructor(look, page) {
    Object.assign(this, { look, page });
    this.ranges = [];
    this.open = this.wanted = false; // the panel; whether the words stay although it has closed
    look.onChange(() => this.draw());
  }

  /** Without the panel nobody could take the highlight away, unless it closed to give way to the words. */
  panelShown(open) {
    if (open === this.open) return;
    this.open = open;
    if (open) this.wanted = false;
    this.draw();
  }

  /** Highlight what is shown of the block; nothing while none is picked. */
  draw() {
    const { detail } = this.look;
    this.ranges = ((this.open || this.wanted) && detail?.places || []).flatMap((place) => this.#rangesOf(place));
    if (!("highlights" in CSS)) return;
    if (this.ranges.length) CSS.highlights.set(NAME, new Highlight(...this.ranges.map(({ range }) => range)));
    else CSS.highlights.delete(NAME);
  }

  #rangesOf({ message: id, spans, written: growing }) {
    const message = this.page.chat.items.get(id);
    if (!message) return [];
    return spans.flatMap(({ field, start, end }) => {
      const written = growing?.[field] ?? message.view[field];
      const element = field === "reasoning" ? message.thinking?.blocks.element : message.text;
      const range = written && element && rangeOf(element, written, start, end);
      return range ? [{ message, field, range }] : [];
    });
  }

  /** Bring the block's words into view: those of a message, or the first ones. */
  async reveal(id = null) {
    const { places } = this.look.detail ?? { places: [] };
    const wanted = id ?? places.find(({ spans, message }) => message && spans.length)?.message;
    if (!wanted) return;
    this.wanted = true;
    this.page.layout.closeDrawers();
    if (!this.page.chat.items.has(wanted)) await this.page.open(this.page.current, { message: wanted });
    this.draw();
    const first = this.ranges.find(({ message }) => message.id === wanted);
    if (!first) return void this.page.chat.goTo(wanted);
    this.#unfold(first);
    this.draw(); // what was folded has a place now
    const { range } = this.ranges.find(({ message }) => message.id === wanted) ?? first;
    const { log } = this.page.chat;
    const [box, place] = [log.getBoundingClientRect(), range.getBoundingClientRect()];
    this.page.chat.atEnd = false;
    log.scrollTop += place.top - box.top - (box.height - Math.min(place.height, box.height)) / 3;
    announce(`The words of block ${this.look.block} are in view.`);
  }

  #unfold({ message, field }) {
    if (field === "reasoning") message.thinking.element.open = true;
    if (message.text.classList.contains("folded")) message.fold.button.click();
  }
}

/** The range of an element that shows the characters from `start` to `end` of what was written; null if none are shown. */
function rangeOf(element, written, start, end) {
  const { nodes, text } = shownText(element);
  const [from, to] = text === written ? [start, end] : shownPlace(written, text, start, end);
  if (from >= to) return null;
  const range = new Range();
  const [first, last] = [nodeAt(nodes, from), nodeAt(nodes, to - 1)];
  range.setStart(first.node, from - first.from);
  range.setEnd(last.node, to - last.from);
  return range;
}

function shownText(element) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const nodes = [];
  let text = "";
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest(NO_TEXT)) continue;
    nodes.push({ node, from: text.length });
    text += node.data;
  }
  return { nodes, text };
}

function nodeAt(nodes, place) {
  let [low, high] = [0, nodes.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (nodes[middle].from <= place) low = middle;
    else high = middle - 1;
  }
  return nodes[low];
}

/** Where what is written from `start` to `end` is in what is shown: from its first to its last word that both have. */
function shownPlace(written, shown, start, end) {
  const [a, b] = [wordsOf(written), wordsOf(shown)];
  const found = matches(a.map(([word]) => word), b.map(([word]) => word))
    .filter(([p]) => a[p][1] < end && a[p][2] > start);
  if (!found.length) return [0, 0];
  const [first, last] = [found[0], found.at(-1)];
  const from = b[first[1]][1] + Math.max(0, start - a[first[0]][1]);
  const to = b[last[1]][2] - Math.max(0, a[last[0]][2] - end);
  return [from, to];
}
