// The KV panel. It asks for a snapshot when it opens and then follows the events; a hidden tab follows nothing.

import { byId, framed, h, iconButton, setText, throttled } from "./dom.js";
import { BlockCard } from "./block_card.js";
import { BlockInChat } from "./block_in_chat.js";
import { BlockLook } from "./block_look.js";
import { BranchParts } from "./branch_parts.js";
import { EngineTab } from "./engine_tab.js";
import { EventMarks } from "./event_marks.js";
import { EventList } from "./events.js";
import { Grid } from "./grid.js";
import { GridPick } from "./grid_pick.js";
import { GridWords } from "./grid_words.js";
import { unpackedEvents, unpackedSnapshot } from "./kv_unpacking.js";
import { KvModel, unpacked } from "./kvmodel.js";
import { Figures } from "./panel_figures.js";
import { agesOf } from "./panel_ages.js";
import { PanelMenu } from "./panel_menu.js";
import { prefixesOf } from "./panel_prefixes.js";
import { PanelSummary } from "./panel_summary.js";
import { PanelTabs } from "./panel_tabs.js";
import { RecordingFiles } from "./recording_files.js";
import { Replay } from "./replay.js";
import { BlockTable } from "./table.js";
import { TimeBar } from "./time_bar.js";

const CONSERVED = "The engine has counted: free, cached and active blocks are all blocks of the pool, and each block has as many references as requests hold it";

const CELLS_MS = 200;
const REST_MS = 400;

export class Panel {
  /** `act` has: call(op, args), close(), goTo(message), branch(), growing(), hueOf(owner), titleOf(owner), session(), wayBack(), goBack(). */
  constructor(act) {
    this.act = act;
    this.model = new KvModel(); // the pool as it is now
    this.shown = this.model; // what is drawn: now, a moment of the past, or a recording
    this.past = null; // words for what is drawn where that is not now
    this.modelListeners = [];
    this.drawListeners = [];
    this.wanted = false;
    this.following = false;
    this.online = false;
    this.live = true; // until told otherwise: there is nothing to be seen before the first snapshot
    this.missed = false;
    this.anew = false; // another engine's events are to come
    this.end = null;
    this.picked = null;
    this.pickListeners = [];
    this.titleOf = (owner) => this.shown.names?.get(owner) ?? act.titleOf(owner);
    this.hueOf = (owner) => this.shown.hues?.get(owner) ?? act.hueOf(owner);
    this.stats = {}; // counters of the engine, of now
    this.replay = new Replay(this);
    this.grid = new Grid(this.model, this.hueOf, this.titleOf);
    this.marks = new EventMarks(this.grid);
    this.table = new BlockTable({ hover: (blocks) => this.grid.mark(blocks.length ? blocks : this.table.run), pick: (block) => this.pick(block) },
      act.titleOf, act.hueOf);
    this.parts = new BranchParts(this.table, act);
    this.look = new BlockLook(this);
    this.inChat = new BlockInChat(this.look, act.page);
    this.card = new BlockCard(this, () => this.inChat.reveal());
    this.gridWords = new GridWords(this);
    this.events = new EventList(this.replay, this.titleOf, act.session);
    this.engine = new EngineTab({
      follow: (on) => act.call("kv_engine", { on }), nameOf: this.titleOf, hueOf: this.hueOf, redraw: () => this.redraw(),
    });
    this.timeBar = new TimeBar(this.replay, this.titleOf, act.session);
    this.lamp = h("span.lamp", { role: "status", title: CONSERVED }, "conserved");
    this.figures = new Figures(this.model, this.grid, act);
    this.menu = new PanelMenu(this);
    this.summary = new PanelSummary(this);
    this.files = new RecordingFiles(this, this.menu);
    this.table.element.prepend(h("p.none.not-now", {}, "The block table of this branch is known of now only."));
    this.prefixes = prefixesOf(this);
    this.ages = agesOf(this);
    this.tabs = new PanelTabs([
      { id: "table", title: "Table", element: this.table.element },
      { id: "block", title: "Block", element: this.card.element, shown: (on) => { this.card.draw(); this.ages.idle.shown(on); } },
      { id: "prefixes", title: "Prefixes", element: this.prefixes.tree.element, shown: (on) => this.prefixes.tree.shown(on) },
      { id: "events", title: "Events", element: this.events.element, shown: () => this.events.draw() },
      { id: "engine", title: "Engine", element: this.engine.element, shown: (on) => this.engine.show(on) },
    ], "What the panel shows");
    this.redraw = framed(() => this.#draw());
    this.drawCells = throttled(CELLS_MS, framed(() => this.grid.paint())); // while events stream in
    this.drawRest = throttled(REST_MS, this.redraw);
    this.gridPick = new GridPick(this);
    this.onPick((block) => this.table.pick(block));
    this.onModel((_, words) => this.engine.mark(words === null ? null : (this.replay.recording ? null : this.replay.event)?.time ?? NaN));
    this.#build();
    document.addEventListener("visibilitychange", () => this.#follow());
    byId("pc-kv").addEventListener("keydown", (event) => this.#leavePast(event));
  }

  #build() {
    byId("pc-kv").append(
      h("h2", {}, "KV blocks", this.lamp, this.menu.button, iconButton("close", "Hide the KV panel", () => this.act.close())),
      this.summary.element,
      ...this.figures.elements, this.grid.element, this.timeBar.element, this.tabs.element);
  }

  /** Take what the server tells of blocks. */
  listen(socket) {
    socket.on("kv-snapshot", (frame) => this.takeSnapshot({ ...frame, snapshot: unpackedSnapshot(frame.snapshot) }));
    socket.on("kv", (frame) => this.takeEvents({ events: unpackedEvents(frame) }));
    socket.on("kv-stats", ({ stats }) => this.takeStats(stats));
    socket.on("kv-table", (frame) => this.takeTable(frame));
  }

  /** Whether the panel is on the screen; nothing travels while it is not. */
  setOpen(open) {
    this.wanted = open;
    if (!open) this.replay.pause();
    this.inChat.panelShown(open);
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

  /** Pick one physical block, for all parts of the panel; null: none. */
  pick(block) {
    if (block === this.picked) return;
    this.picked = block;
    for (const listener of this.pickListeners) listener(block);
  }

  /** Call `listener(block)` whenever another block is picked; null: none. */
  onPick(listener) {
    this.pickListeners.push(listener);
  }

  /** Mark all blocks of a message, and pick the first; false where none of them is in the pool. `later`: the table is on
   * its way. */
  async showMessage(id, later = false) {
    if (later) await new Promise((told) => { this.told = told; });
    const rows = await this.parts.rowsOf(id);
    const held = rows ? this.table.rows.slice(rows[0], rows[1] + 1).map(({ physical }) => physical).filter((block) => block !== null) : [];
    if (!held.length) return false;
    this.tabs.choose("table");
    this.pick(held[0]);
    this.table.markRows(held);
    this.grid.mark(held);
    return true;
  }

  /** Draw another model than that of now, `words` say which; null words: the pool of now again. Blocks of the shown
   * branch are known of now only. */
  showModel(model, words) {
    this.past = words;
    this.shown = words === null ? this.model : model;
    this.grid.model = this.figures.model = this.shown;
    if (words === null) this.takeCounters(this.stats);
    this.#setBranch();
    for (const listener of this.modelListeners) listener(this.shown, words);
    this.redraw();
  }

  /** Show these counters of the engine beside the pool. */
  takeCounters(stats) {
    this.figures.stats = stats;
    this.redraw();
  }

  /** Call `listener(model, words)` whenever another model is drawn; null words: that of now. */
  onModel(listener) {
    this.modelListeners.push(listener);
  }

  /** Call `listener()` whenever the panel draws what it knows. */
  onDraw(listener) {
    this.drawListeners.push(listener);
  }

  /** Escape: back to now. */
  #leavePast(event) {
    if (event.key !== "Escape" || event.defaultPrevented || this.replay.live || event.target.closest("dialog")) return;
    event.preventDefault();
    this.replay.close();
  }

  #setBranch() {
    const { table, replay } = this;
    if (replay.live) return this.grid.setBranch(table.physical, table.session, table.held);
    const same = replay.recording ? [] : table.physical.filter((block) => replay.recorder.isSame(block, replay.place));
    this.grid.setBranch(same, table.session);
  }

  /** What is shown was true once; the next snapshot is live again. */
  stale() {
    this.live = false;
    this.redraw();
  }

  /** The engine is there (again): its pool is another one. */
  restarted() {
    this.anew = true;
    if (this.following) this.#ask();
  }

  #ask() {
    this.act.call("kv", { on: this.following }).catch(() => {});
    this.engine.follow(this.following);
  }

  #follow() {
    const on = this.wanted && !document.hidden;
    if (on === this.following || !this.online) return;
    this.following = on;
    this.#ask();
  }

  takeSnapshot({ snapshot, stats, info }) {
    // Numbers of an engine that is gone: what was told before leads nowhere.
    const again = !this.anew && (this.missed ? snapshot.seq === this.model.seq : snapshot.seq >= this.model.seq);
    const right = this.model.agrees(snapshot);
    this.missed = this.anew = false;
    this.live = true;
    this.model.load(snapshot);
    this.replay.takeSnapshot(snapshot, again, right);
    this.ages.ages.sync(snapshot.seq);
    this.look.poolTold();
    this.gridWords.clear();
    this.figures.tellSize(snapshot, info?.kv_bytes);
    this.engine.tellInfo(info);
    this.takeStats(stats);
    this.redraw();
  }

  takeEvents({ events }) {
    if (!this.model.loaded) return;
    for (const packed of events) {
      const event = unpacked(packed);
      if (!this.model.apply(event)) return this.#lost(event);
      this.replay.takeEvent(packed);
      this.ages.ages.note(event);
      this.look.touched(event.blocks);
      this.gridWords.touched(event.blocks);
      if (this.past === null && (event.type === "copied" || event.type === "evicted")) this.grid.flash(event.blocks);
    }
    this.drawCells();
    this.drawRest();
  }

  /** Events are missing, or an engine begins anew. */
  #lost({ type }) {
    if (type === "reset") this.anew = true;
    this.#ask();
  }

  takeStats(stats) {
    if (!stats) return;
    this.stats = stats;
    if (this.replay.live) this.takeCounters(stats);
    this.replay.takeStats(stats);
    this.engine.take(stats);
    if (stats.books) this.#check(stats.books);
    if (stats.books || !this.summary.said) this.summary.note();
    this.redraw();
  }

  /** The engine's own count of a moment: what is drawn must say the same. */
  #check(books) {
    this.model.conserved = books.conserved;
    if (books.seq !== this.model.seq) return;
    const { totals } = this.model;
    if (Object.keys(totals).some((name) => totals[name] !== books[name])) this.#ask();
  }

  /** The table is to end with this message; null: with the shown branch. */
  endTable(message) {
    if (message === this.end) return;
    this.end = message;
    this.awaitTable();
    this.act.call("kv_end", { message }).catch(() => {});
  }

  /** Another branch is shown from now on: what the table has is of the one before. */
  awaitTable() {
    if (this.following) this.table.wait();
  }

  takeTable({ rows, total, fresh, block_size: blockSize, session, end }) {
    if (session !== this.act.session() || end !== this.end) return;
    this.table.take(rows, total, fresh, blockSize, session);
    this.parts.update(this.end);
    this.look.tableTold(this.table.rows);
    this.told?.();
    this.#setBranch();
    this.redraw();
  }

  /** No chat is shown. */
  clearTable() {
    this.table.take([], 0, true, this.model.blockSize, null);
    this.#setBranch();
    this.redraw();
  }

  #draw() {
    if (document.hidden) return;
    this.#drawLamp();
    this.replay.keepUp();
    this.timeBar.draw();
    this.events.draw();
    if (!this.shown.loaded) return;
    this.grid.update();
    this.marks.show(this.replay.event);
    this.marks.draw();
    this.figures.draw(this.live || this.past !== null);
    this.engine.draw(this.shown, this.figures.stats.running ?? null);
    this.card.draw();
    for (const listener of this.drawListeners) listener();
  }

  #drawLamp() {
    const { live, past, model: { conserved } } = this;
    byId("pc-kv").classList.toggle("stale", !live && past === null);
    byId("pc-kv").classList.toggle("past", past !== null);
    setText(this.lamp, past ?? (!live ? "not live" : conserved ? "conserved" : "counts do not add up"));
    this.lamp.classList.toggle("bad", live && past === null && !conserved);
  }
}
