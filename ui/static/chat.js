// The chat view: the shown branch as a list of messages that keep their elements while the branch changes.

import { byId, h, icon, place } from "./dom.js";
import { announce } from "./announce.js";
import { BranchHere } from "./branch_here.js";
import { logo } from "./sidebar.js";
import { plural } from "./format.js";
import { Message } from "./message.js";
import { MessageFocus } from "./message_focus.js";
import { Parallel } from "./parallel.js";
import { dress, markUnsent } from "./summaries.js";

const NEAR_END = 60;
const ABOVE = "1200px 0px 0px 0px"; // how far above the view earlier messages are asked for
const IDEAS = [
  "Explain paged attention to a librarian in three sentences.",
  "Write a Python function that merges overlapping intervals.",
  "What should I pack for a rainy weekend in Brno?",
  "Give me five names for a small wooden boat.",
];

export class Chat {
  #tail = [];

  /** `act`: what Message needs, and copyText(text, button), older(), idea(text), system(), stopAll(ids), leaveBranch(). */
  constructor(act) {
    this.act = act;
    this.log = byId("pc-log");
    this.column = byId("pc-col");
    this.items = new Map();
    this.ids = [];
    this.atEnd = true;
    this.top = 0;
    this.older = h("button.older", { type: "button", onclick: () => act.older() }, "Show earlier messages");
    this.earlier = this.asked = 0;
    this.quotedAbove = [];
    this.system = h("button.system", { type: "button", onclick: () => act.system() });
    this.cut = h("div.cut", { role: "note", "data-testid": "context-cut" });
    this.empty = this.#emptyState();
    this.branch = new BranchHere(() => act.leaveBranch());
    this.focus = new MessageFocus(this);
    this.parallel = new Parallel({ select: (id) => act.select(id), stop: (ids) => act.stopAll(ids) });
    this.held = null;
    this.jump = h("button.jump", { type: "button", "aria-label": "Jump to the end", hidden: true,
      onclick: () => this.toEnd() }, icon("down"));
    this.log.after(h("div.jump-place", {}, this.jump)); // above the composer, however tall that is
    this.log.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.column.addEventListener("click", (event) => this.#copyCode(event));
    const resized = new ResizeObserver(() => this.#resized());
    for (const element of [this.log, this.column]) resized.observe(element);
    this.above = new IntersectionObserver((seen) => { this.nearOlder = seen.at(-1).isIntersecting; this.#askOlder(); },
      { root: this.log, rootMargin: ABOVE });
  }

  /** What stands below the last message; null for nothing. */
  setTail(element) {
    const tail = element ? [element] : [];
    if (tail[0] === this.#tail[0]) return;
    this.#tail[0]?.remove();
    this.#tail = tail;
    this.column.append(...tail);
  }

  /** Show a branch. `views` brings new or changed messages; those that are known keep their elements. `asides` are the
   * replies of the chat that run and are not shown, `quotedAbove` the passages that messages before the first one quote,
   * [{n, question, name}]; null for those that are known. */
  show(ids, views, { earlier = 0, quotedAbove = null, fresh = false, asides = [] } = {}) {
    if (fresh) this.#forget();
    if (quotedAbove) this.quotedAbove = quotedAbove;
    const [anchor, focused] = [fresh ? null : this.#anchor(), this.focus.keep()];
    for (const view of views) this.#take(view);
    this.ids = ids;
    if (this.branch.on && !this.branch.still(ids)) {
      this.branch.end();
      this.act.branchGone();
    }
    const elements = ids.map((id) => this.items.get(id).element);
    const wanted = [...(earlier ? [this.older] : [this.system]), ...elements, ...(ids.length ? [] : [this.empty]), ...this.#tail];
    place(this.column, wanted);
    this.#markCut();
    markUnsent(ids, this.items);
    this.#setAside();
    ids.forEach((id, index) => this.items.get(id).setLast(index === ids.length - 1));
    const shown = new Set(ids);
    for (const id of [...this.items.keys()]) if (!shown.has(id)) this.items.delete(id);
    this.#takeAsides(asides);
    this.focus.mark();
    if (fresh) this.atEnd = true;
    if (!this.#restoreHeld()) {
      if (this.atEnd) this.#stick();
      else this.#restore(anchor);
    }
    this.focus.restore(focused);
    this.#lookAbove(earlier);
  }

  /** Earlier messages come by themselves when the reader comes near their place. */
  #lookAbove(earlier) {
    this.earlier = earlier;
    this.asked = -1;
    this.nearOlder = false;
    this.above.unobserve(this.older);
    if (earlier) this.above.observe(this.older);
  }

  #askOlder() {
    if (!this.nearOlder || this.atEnd || this.asked === this.earlier) return;
    this.asked = this.earlier;
    this.act.older();
  }

  /** Another chat is shown from now on. */
  #forget() {
    this.items.clear();
    this.quotedAbove = [];
    this.parallel.clear();
    this.branch.end();
    this.held = null;
    this.column.style.minHeight = "";
  }

  put(view) {
    this.#take(view);
    if (view.kind === "summary") markUnsent(this.ids, this.items);
    this.#drawBeside();
  }

  #take(view) {
    const known = this.items.get(view.id);
    if (known) {
      known.update(view);
      if (view.generation) this.#markCut();
    } else this.items.set(view.id, new Message(view, this.act));
    dress(this.items.get(view.id));
    if (view.role === "assistant") this.parallel.take({ ...view, tokens: view.generation?.completion_tokens });
  }

  // -- replies that are written at once -----------------------------------------------------------------------------

  /** A reply that is not shown has begun or ended. */
  takeAside(aside) {
    this.parallel.take(aside);
    this.#drawBeside();
  }

  #takeAsides(asides) {
    for (const aside of asides) this.parallel.take(aside);
    const shown = this.ids.filter((id) => this.items.get(id).growing);
    this.parallel.keep([...shown, ...asides.map(({ id }) => id)]);
    this.#drawBeside();
  }

  #drawBeside() {
    const busy = this.parallel.batches.size > 0;
    for (const id of this.ids) {
      const message = this.items.get(id);
      if (message && (busy || !message.beside.hidden)) this.parallel.draw(message);
    }
  }

  /** How fast a reply is written, shown or not. */
  showRate(id, words, perSecond) {
    this.items.get(id)?.showRate(words);
    if (this.parallel.rate(id, perSecond)) this.#drawBeside();
  }

  // -- the next message goes under an earlier reply -----------------------------------------------------------------

  branchFrom(id) {
    this.branch.begin(id, this.ids);
    this.#setAside();
    this.focus.mark();
    this.toEnd();
  }

  leaveBranch() {
    const { id } = this.branch;
    this.branch.end();
    this.#setAside();
    if (id) this.goTo(id);
  }

  /** Messages that the next one does not follow are out of sight. */
  #setAside() {
    const aside = new Set(this.branch.below(this.ids));
    for (const id of this.ids) {
      const { element } = this.items.get(id);
      if (element.hidden !== aside.has(id)) element.hidden = aside.has(id);
    }
    const from = this.items.get(this.branch.id);
    if (from) from.element.after(this.branch.say(from.role, aside.size));
    else this.branch.bar.remove();
  }

  /** Id of the message that the next one goes under; null in an empty chat. */
  get endId() {
    return this.branch.id ?? this.ids.at(-1) ?? null;
  }

  get last() {
    return this.items.get(this.ids.at(-1)) ?? null;
  }

  /** The reply that is being written where the next message goes, if there is one. */
  get running() {
    const end = this.items.get(this.endId);
    return end?.growing ? end : null;
  }

  /** Ids of replies of this chat that are written and not shown. */
  get others() {
    return this.parallel.others(this.running?.id);
  }

  /** The line above the first message: the chat's `own` system prompt, or what holds without one. */
  showSystem(own, { default_system_prompt: usual, model }) {
    const words = own ?? usual;
    const none = model ? "none" : "the model's own";
    this.system.replaceChildren(h("b", {}, "System prompt"),
      h("span", {}, own === "" ? "empty" : words ? words.replace(/\s+/g, " ") : none));
    this.system.title = own === "" ? "This chat has an empty system prompt" : words || "Edit the system prompt";
    this.system.dataset.own = String(own !== null);
  }

  toEnd() {
    this.atEnd = true;
    this.column.style.minHeight = "";
    this.#stick();
  }

  /** Bring a message into view and mark it for a moment; false if it is not among those shown. */
  goTo(id) {
    const element = this.items.get(id)?.element;
    if (!element?.isConnected) return false;
    this.atEnd = false;
    element.scrollIntoView({ block: "center" });
    element.classList.remove("found");
    void element.offsetWidth; // begins the animation anew
    element.classList.add("found");
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
    return true;
  }

  /** A line above the first message that the last reply was given, where older ones did not fit into the context. */
  #markCut() {
    const made = this.ids.map((id) => this.items.get(id)?.view.generation).filter((one) => one?.kept_from).at(-1);
    const first = made?.left_out ? this.items.get(made.kept_from)?.element : null;
    if (!first?.isConnected) return this.cut.remove();
    const words = `${plural(made.left_out, "earlier message")} no longer fit into the context; the model does not see them.`;
    if (this.cut.textContent !== words) this.cut.textContent = words;
    if (first.previousElementSibling !== this.cut) first.before(this.cut);
  }

  #stick() {
    this.log.scrollTop = this.log.scrollHeight;
    this.jump.hidden = true;
  }

  /** What grows is followed; what has become short enough ends in view without any scrolling. */
  #resized() {
    if (this.#nearEnd) this.atEnd = true;
    if (this.atEnd) this.#stick();
  }

  get #nearEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.log;
    return scrollHeight - scrollTop - clientHeight < NEAR_END;
  }

  #scrolled() {
    const { scrollTop } = this.log;
    // Only moving up leaves the end: text that arrives between a scroll and its event must not.
    if (this.#nearEnd) this.atEnd = true;
    else if (scrollTop < this.top - 1) this.atEnd = false;
    this.top = scrollTop;
    this.jump.hidden = this.atEnd;
    this.#askOlder();
    this.#letGo();
  }

  /** Another version of a message is wanted: its top will be where that of `id` is. */
  hold(id) {
    this.held = { id, index: this.ids.indexOf(id), top: this.#topOf(id) };
  }

  /** Put the version that has come where the other one was; false if none has come. */
  #restoreHeld() {
    const { held } = this;
    const id = held && this.ids[held.index];
    if (!held || id === held.id) return false;
    this.held = null;
    if (!id) return false;
    this.atEnd = false;
    const by = this.#topOf(id) - held.top;
    const room = this.log.scrollHeight - this.log.clientHeight - this.log.scrollTop;
    if (by > room) this.column.style.minHeight = `${this.column.offsetHeight + by - room}px`; // it may be shorter
    this.log.scrollTop += by;
    const { index, siblings } = this.items.get(id);
    announce(`Version ${index} of ${siblings.length}.`);
    return true;
  }

  /** Give back the room below a short version once it is out of view. */
  #letGo() {
    if (!this.column.style.minHeight || !this.column.lastElementChild) return;
    const end = this.column.lastElementChild.getBoundingClientRect().bottom;
    if (end >= this.log.getBoundingClientRect().bottom) this.column.style.minHeight = "";
  }

  /** The place of the first message in view, to keep the eye there when the branch below it changes. */
  #anchor() {
    const top = this.log.getBoundingClientRect().top;
    const index = this.ids.findIndex((id) => this.items.get(id)?.element.getBoundingClientRect().bottom > top);
    return index < 0 ? null : { id: this.ids[index], index, top: this.#topOf(this.ids[index]) };
  }

  #restore(anchor) {
    if (!anchor) return;
    const id = this.items.has(anchor.id) ? anchor.id : this.ids[Math.min(anchor.index, this.ids.length - 1)];
    if (id) this.log.scrollTop += this.#topOf(id) - anchor.top;
  }

  #topOf(id) {
    return this.items.get(id).element.getBoundingClientRect().top;
  }

  #copyCode(event) {
    const button = event.target.closest("[data-copy=code]");
    if (button) this.act.copyText(button.closest(".code-holder").querySelector("code").textContent, button);
  }

  #emptyState() {
    return h("div.empty", {}, logo(), h("h2", {}, "What would you like to know?"),
      h("p", {}, "The model runs on this computer. Nothing you write leaves it."),
      h("div.ideas", {}, ...IDEAS.map((text) => h("button", { type: "button", onclick: () => this.act.idea(text) }, text))));
  }
}
