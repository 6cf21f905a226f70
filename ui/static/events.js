// All events that are kept, newest first: a click shows the moment after one. Only rows in view are in the document.

import { framed, h, throttled } from "./dom.js";
import { EVENT_TYPES, longWords, shortWords } from "./event_words.js";
import { count } from "./format.js";
import { WindowList } from "./window_list.js";

const ROW = 26; // pixels, as in time_bar.css
const PAGE = 10; // rows
const PAUSE_MS = 400; // between two looks at what is new

export class EventList {
  /** `replay` is a Replay; `nameOf(owner)` says whose an event was; `session()` is the shown chat. */
  constructor(replay, nameOf, session) {
    Object.assign(this, { replay, nameOf, session });
    this.type = h("select", { "aria-label": "Kind of event", "data-testid": "kv-event-type", onchange: () => this.#choose() },
      h("option", { value: "" }, "All kinds"), ...EVENT_TYPES.map((type) => h("option", { value: type }, type)));
    this.mine = h("input", { type: "checkbox", "data-testid": "kv-events-of-chat", onchange: () => this.#choose() });
    this.ofChat = h("label.check", {}, this.mine, "This chat");
    this.none = h("p.none");
    this.holder = h("div.event-list", { role: "listbox", tabIndex: 0, "aria-label": "Events, newest first", "data-testid": "kv-events" });
    this.list = new WindowList(this.holder);
    this.list.canvas.setAttribute("role", "presentation");
    this.holder.addEventListener("click", ({ target }) => this.#go(Number(target.closest("[data-row]")?.dataset.row)));
    this.holder.addEventListener("keydown", (event) => this.#key(event));
    this.element = h("div.part", {}, h("h3", {}, "Events", h("span.event-filter", {}, this.ofChat, this.type)), this.none, this.holder);
    this.rows = [];
    this.drawSoon = throttled(PAUSE_MS, () => this.#draw());
    this.keepInWindow = framed(() => this.#keepInWindow()); // once the time bar has told its words, which may take more lines
  }

  /** Show what is kept now; while events come one after the other, only now and then. */
  draw() {
    if (this.element.hidden) return;
    if (this.replay.live && this.selected === null) this.drawSoon();
    else this.#draw();
  }

  #draw() {
    if (document.hidden) return;
    this.ofChat.hidden = Boolean(this.replay.recording);
    this.mine.checked = this.replay.onlyChat;
    this.#gather();
    this.none.hidden = Boolean(this.rows.length);
    this.none.textContent = this.replay.source.events.length ? "No event of this kind is kept." : "Nothing has happened since the page was opened.";
    this.holder.hidden = !this.rows.length;
    this.#select();
  }

  #choose() {
    this.replay.setOnlyChat(this.mine.checked);
    this.key = null;
    this.holder.scrollTop = 0;
    this.#draw();
  }

  /** The rows of the events that fit, newest first. Where one has scrolled to stays in view while new ones come. */
  #gather() {
    const { source, recording } = this.replay;
    const session = this.replay.onlyChat && !recording ? this.session() : null;
    const names = [...new Set(source.events.map(({ owner }) => owner))].map((owner) => (owner ? this.nameOf(owner) : ""));
    const key = [source.first, source.last, this.type.value, session, recording?.made, ...names].join();
    if (key === this.key) return;
    const before = this.key ? this.rows.length : 0;
    this.key = key;
    const rows = [];
    for (let place = source.last; place > source.first; place--) {
      const event = source.eventAt(place);
      if (this.type.value && event.type !== this.type.value) continue;
      if (session !== null && event.owner !== session) continue;
      rows.push({ key: String(place), height: ROW, stamp: `${event.seq} ${event.owner ? this.nameOf(event.owner) : ""}`, make: () => this.#row(event) });
    }
    this.rows = rows;
    if (this.holder.scrollTop && before) this.holder.scrollTop += Math.max(0, rows.length - before) * ROW;
    this.list.set(rows);
  }

  #row(event) {
    const words = shortWords(event, this.nameOf);
    return h(`div.event.${event.type}`, { role: "option", id: `pc-kv-event-${event.seq}`, title: longWords(event, this.nameOf) },
      h("span.seq", {}, count(event.seq)), h("b", {}, event.type), h("span", {}, words));
  }

  /** Mark the row of the event that is looked at, and bring it into view when it becomes another one. */
  #select() {
    const { place } = this.replay;
    const key = place === null ? null : String(place);
    const moved = key !== this.selected;
    this.selected = key;
    if (moved && key && this.list.reveal(key)) this.keepInWindow();
    for (const [row, { element }] of this.list.drawn) {
      element.setAttribute("aria-selected", String(row === key));
      element.setAttribute("aria-posinset", String(this.list.index.get(row) + 1));
      element.setAttribute("aria-setsize", String(this.rows.length));
    }
    const shown = key && this.list.get(key);
    if (shown) this.holder.setAttribute("aria-activedescendant", shown.id);
    else this.holder.removeAttribute("aria-activedescendant");
  }

  /** Scroll the list, not the panel, so that the marked row is in view even where the window ends before the list does. */
  #keepInWindow() {
    const row = this.list.get(this.selected)?.getBoundingClientRect();
    if (!row) return;
    const beyond = row.bottom - window.innerHeight, room = row.top - this.holder.getBoundingClientRect().top;
    if (beyond > 0 && beyond <= room) this.holder.scrollTop += beyond;
  }

  #go(place) {
    if (!Number.isFinite(place)) return;
    this.replay.pause();
    this.replay.go(place);
  }

  #key(event) {
    if (!this.rows.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.list.index.get(this.selected) ?? -1;
    const to = {
      ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1, PageDown: at + PAGE, PageUp: at - PAGE,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#go(Number(this.rows[Math.max(0, Math.min(this.rows.length - 1, to))].key));
  }
}
