// The KV panel: its parts, the pool that they draw (that of now, of a moment of the past, or of a recording), and the block
// that is picked in them. What the server tells comes in through panel_feed.js and panel_branch.js.

import { byId, framed, h, iconButton, setText } from "./dom.js";
import { BlockAges } from "./block_ages.js";
import { BlockCard } from "./block_card.js";
import { BlockInChat } from "./block_in_chat.js";
import { BlockLook } from "./block_look.js";
import { EngineTab } from "./engine_tab.js";
import { EventMarks } from "./event_marks.js";
import { EventList } from "./events.js";
import { Grid } from "./grid.js";
import { GridModes } from "./grid_modes.js";
import { GridPick } from "./grid_pick.js";
import { GridWords } from "./grid_words.js";
import { IdleList } from "./idle_list.js";
import { KvModel } from "./kvmodel.js";
import { PanelBranch } from "./panel_branch.js";
import { PanelFeed } from "./panel_feed.js";
import { Figures } from "./panel_figures.js";
import { PanelMenu } from "./panel_menu.js";
import { prefixesOf } from "./panel_prefixes.js";
import { PanelSummary } from "./panel_summary.js";
import { PanelTabs } from "./panel_tabs.js";
import { RecordingFiles } from "./recording_files.js";
import { Replay } from "./replay.js";
import { TimeBar } from "./time_bar.js";

const CONSERVED = "The engine has counted: free, cached and active blocks are all blocks of the pool, and each block has as many references as requests hold it";

export class Panel {
  /** `act` has: call(op, args), close(), goTo(message), branch(), growing(), last(), hueOf(owner), titleOf(owner),
   * titleIn(owner), session(), page, wayBack(), goBack(). */
  constructor(act) {
    this.act = act;
    this.model = new KvModel(); // the pool as it is now
    this.shown = this.model; // what is drawn: now, a moment of the past, or a recording
    this.past = null; // words for what is drawn where that is not now
    this.stats = {}; // counters of the engine, of now
    this.picked = null;
    this.pickListeners = [];
    this.drawListeners = [];
    this.titleOf = (owner) => this.shown.names?.get(owner) ?? act.titleOf(owner);
    this.hueOf = (owner) => this.shown.hues?.get(owner) ?? act.hueOf(owner);
    this.redraw = framed(() => this.#draw());
    this.feed = new PanelFeed(this);
    this.replay = new Replay(this);
    this.#makePool();
    this.#makeTabs();
    this.#makeHead();
    byId("pc-kv").append(this.head, this.summary.element, ...this.figures.elements, this.grid.element, this.timeBar.element, this.tabs.element);
    byId("pc-kv").addEventListener("keydown", (event) => this.#leavePast(event));
  }

  // -- parts --------------------------------------------------------------------------------------------------------

  /** The pool as a whole: its figures, its grid, and the moments of it. */
  #makePool() {
    this.grid = new Grid(this.model, this.hueOf, this.titleOf);
    this.marks = new EventMarks(this.grid);
    this.gridWords = new GridWords(this);
    this.gridPick = new GridPick(this);
    this.ages = new BlockAges(() => this.act.call("kv_ages"));
    this.modes = new GridModes(this, this.ages);
    this.figures = new Figures(this.model, this.grid, this.act);
    this.timeBar = new TimeBar(this.replay, this.titleOf, this.act.session);
  }

  /** What is told beside it, one part at a time. */
  #makeTabs() {
    const { act, titleOf: nameOf, hueOf } = this;
    this.branch = new PanelBranch(this);
    this.look = new BlockLook(this);
    this.inChat = new BlockInChat(this.look, act.page);
    this.card = new BlockCard(this, () => this.inChat.reveal());
    this.idle = new IdleList(this);
    this.card.element.append(this.idle.element);
    this.prefixes = prefixesOf(this);
    this.events = new EventList(this.replay, nameOf, act.session);
    this.engine = new EngineTab({ follow: (on) => act.call("kv_engine", { on }), nameOf, hueOf, redraw: this.redraw });
    this.tabs = new PanelTabs([
      { id: "table", title: "Table", element: this.branch.table.element },
      { id: "block", title: "Block", element: this.card.element, shown: (on) => { this.card.draw(); this.idle.shown(on); } },
      { id: "prefixes", title: "Prefixes", element: this.prefixes.tree.element, shown: (on) => this.prefixes.tree.shown(on) },
      { id: "events", title: "Events", element: this.events.element, shown: () => this.events.draw() },
      { id: "engine", title: "Engine", element: this.engine.element, shown: (on) => this.engine.show(on) },
    ], "What the panel shows");
  }

  #makeHead() {
    this.lamp = h("span.lamp", { role: "status", title: CONSERVED }, "conserved");
    this.menu = new PanelMenu(this);
    this.files = new RecordingFiles(this, this.menu);
    this.summary = new PanelSummary(this);
    this.head = h("h2", {}, "KV blocks", this.lamp, this.menu.button, iconButton("close", "Hide the KV panel", () => this.act.close()));
  }

  // -- what happens to it -------------------------------------------------------------------------------------------

  /** Take what the server tells of blocks. */
  listen(socket) {
    this.feed.listen(socket);
    socket.on("kv-table", (frame) => this.branch.take(frame));
  }

  /** Whether the panel is on the screen; nothing travels while it is not. */
  setOpen(open) {
    if (!open) this.replay.pause();
    this.inChat.panelShown(open);
    this.feed.want(open);
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

  /** Draw another model than that of now, `words` say which; null words: the pool of now again. */
  showModel(model, words) {
    const { replay } = this;
    this.past = words;
    this.shown = words === null ? this.model : model;
    this.grid.model = this.figures.model = this.shown;
    if (words === null) this.takeCounters(this.stats);
    this.branch.show();
    this.engine.mark(words === null ? null : (replay.recording ? null : replay.event)?.time ?? NaN);
    this.redraw();
  }

  /** Show these counters of the engine beside the pool. */
  takeCounters(stats) {
    this.figures.stats = stats;
    this.redraw();
  }

  /** Escape: back to now. */
  #leavePast(event) {
    if (event.key !== "Escape" || event.defaultPrevented || this.replay.live || event.target.closest("dialog")) return;
    event.preventDefault();
    this.replay.close();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  /** Call `listener()` whenever the panel draws what it knows. */
  onDraw(listener) {
    this.drawListeners.push(listener);
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
    this.figures.draw(this.feed.live || this.past !== null);
    this.engine.draw(this.shown, this.figures.stats.running ?? null);
    this.card.draw();
    for (const listener of this.drawListeners) listener();
  }

  #drawLamp() {
    const { feed: { live }, past, model: { conserved } } = this;
    byId("pc-kv").classList.toggle("stale", !live && past === null);
    byId("pc-kv").classList.toggle("past", past !== null);
    setText(this.lamp, past ?? (!live ? "not live" : conserved ? "conserved" : "counts do not add up"));
    this.lamp.classList.toggle("bad", live && past === null && !conserved);
  }
}
