// What the server tells of the pool while the panel is on the screen: a snapshot when it opens, then the events after it,
// and counters. A hidden tab follows nothing.

import { framed, throttled } from "./dom.js";
import { unpacked, unpackedEvents, unpackedSnapshot } from "./kv_unpacking.js";

const CELLS_MS = 200; // from one drawing of the cells to the next while events stream in
const REST_MS = 400; // the same of all else

export class PanelFeed {
  /** `panel` is the KV panel: its parts are told what has come. */
  constructor(panel) {
    this.panel = panel;
    this.wanted = false; // whether the panel is on the screen
    this.online = false;
    this.following = false; // whether the server was asked to tell
    this.live = true; // until told otherwise: there is nothing to be seen before the first snapshot
    this.missed = false; // the connection was gone for a while
    this.anew = false; // another engine's events are to come
    this.drawCells = throttled(CELLS_MS, framed(() => panel.grid.paint()));
    this.drawRest = throttled(REST_MS, panel.redraw);
    document.addEventListener("visibilitychange", () => this.#follow());
  }

  listen(socket) {
    socket.on("kv-snapshot", (frame) => this.#takeSnapshot(unpackedSnapshot(frame.snapshot), frame));
    socket.on("kv", (frame) => this.takeEvents(unpackedEvents(frame)));
    socket.on("kv-stats", ({ stats }) => this.#takeStats(stats));
  }

  // -- whether anything is told -------------------------------------------------------------------------------------

  /** The panel has come to the screen, or gone. */
  want(open) {
    this.wanted = open;
    this.#follow();
  }

  /** A new connection knows nothing of what the last one followed. */
  connected() {
    this.following = false;
    this.online = true;
    this.#follow();
  }

  disconnected() {
    this.following = this.online = false;
    this.missed = true;
    this.stale();
  }

  /** What is shown was true once; the next snapshot is live again. */
  stale() {
    this.live = false;
    this.panel.redraw();
  }

  /** The engine is there (again): its pool is another one. */
  restarted() {
    this.anew = true;
    if (this.following) this.#ask();
  }

  #follow() {
    const on = this.wanted && !document.hidden;
    if (on === this.following || !this.online) return;
    this.following = on;
    this.#ask();
  }

  /** Begin with a snapshot, or have nothing told any more. */
  #ask() {
    this.panel.act.call("kv", { on: this.following }).catch(() => {});
    this.panel.engine.follow(this.following);
  }

  // -- what is told -------------------------------------------------------------------------------------------------

  #takeSnapshot(snapshot, { stats, info }) {
    const { panel, panel: { model } } = this;
    // Numbers of an engine that is gone: what was told before leads nowhere.
    const again = !this.anew && (this.missed ? snapshot.seq === model.seq : snapshot.seq >= model.seq);
    const right = model.agrees(snapshot);
    this.missed = this.anew = false;
    this.live = true;
    model.load(snapshot);
    panel.replay.takeSnapshot(snapshot, again, right);
    panel.ages.sync(snapshot.seq);
    panel.look.poolTold();
    panel.gridWords.clear();
    panel.figures.tellBytes(info?.kv_bytes);
    panel.engine.tellInfo(info);
    this.#takeStats(stats);
    panel.redraw();
  }

  /** Events, packed or not, in order. */
  takeEvents(events) {
    const { panel, panel: { model } } = this;
    if (!model.loaded) return;
    for (const packed of events) {
      const event = unpacked(packed);
      if (!model.apply(event)) return this.#lost(event);
      panel.replay.takeEvent(packed);
      panel.ages.note(event);
      panel.look.touched(event.blocks);
      panel.gridWords.touched(event.blocks);
      if (panel.past === null && (event.type === "copied" || event.type === "evicted")) panel.grid.flash(event.blocks);
    }
    this.drawCells();
    this.drawRest();
  }

  /** Events are missing, or an engine begins anew. */
  #lost({ type }) {
    if (type === "reset") this.anew = true;
    this.#ask();
  }

  #takeStats(stats) {
    if (!stats) return;
    const { panel } = this;
    panel.stats = stats;
    if (panel.replay.live) panel.takeCounters(stats);
    panel.replay.takeStats(stats);
    panel.engine.take(stats);
    if (stats.books) this.#check(stats.books);
    if (stats.books || !panel.summary.said) panel.summary.note();
    panel.redraw();
  }

  /** The engine's own count of a moment: what is drawn must say the same. */
  #check(books) {
    const { model } = this.panel;
    model.conserved = books.conserved;
    if (books.seq !== model.seq) return;
    const { totals } = model;
    if (Object.keys(totals).some((name) => totals[name] !== books[name])) this.#ask();
  }
}
