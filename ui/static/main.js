// Puts the parts together: what the server says goes to the part that shows it, what the reader does goes to the server.

import { Alerts } from "./alerts.js";
import { ReadAloud } from "./read_aloud.js";
import { Awaited } from "./awaited.js";
import { Banner } from "./banner.js";
import { Chat } from "./chat.js";
import { chatMenu } from "./chat_menu.js";
import { compact } from "./compaction.js";
import { Composer } from "./composer.js";
import { confirmed } from "./dialog.js";
import { rate } from "./format.js";
import { listenToKeys } from "./keys.js";
import { Layout } from "./layout.js";
import { Library } from "./library.js";
import { openMenu } from "./menu.js";
import { MessageActions } from "./message_actions.js";
import { MessageKeys } from "./message_keys.js";
import { Notice } from "./notice.js";
import { Owners } from "./owners.js";
import { Panel } from "./panel.js";
import { Settings } from "./settings.js";
import { showShortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { Socket } from "./socket.js";
import { startTheme } from "./theme.js";
import { complain, dropToasts, placeToasts, toast } from "./toasts.js";
import { fillTop } from "./top.js";
import { Tour } from "./tour.js";
import { treeOf } from "./tree.js";
import { Turns } from "./turns.js";
import { Waiting } from "./waiting.js";
import { writing } from "./writing.js";

const NO_CHAT = "/?session=";

class Page {
  constructor(fillSettings) {
    this.session = null;
    this.info = {};
    const id = new URL(location.href).searchParams.get("session");
    this.current = id || null;
    this.blank = id === "";
    this.socket = new Socket("/ui/ws", () => ({ session: this.current, blank: this.blank }));
    this.layout = new Layout({ panel: (open) => this.panel.setOpen(open), closeTree: () => this.tree.close() });
    this.library = new Library(this);
    this.messageActions = new MessageActions(this);
    this.compact = () => compact(this);
    this.turns = new Turns(this);
    this.sidebar = new Sidebar({
      open: (session, message) => this.open(session, { message }), create: () => this.create(),
      temporary: () => this.create({ temporary: true }), settings: () => this.showSettings(),
      search: (query, limit, offset) => this.socket.call("search", { query, limit, offset }),
      closeDrawer: () => this.layout.toggleSidebar(), library: this.library,
    });
    this.notice = new Notice({
      restore: () => this.library.restore("chat", { id: this.current }), leave: () => this.open(null),
    });
    this.banner = new Banner(() => this.socket.connect(), () => this.goBack());
    this.chat = new Chat(this.turns.actions);
    this.composer = new Composer(writing(this));
    this.waiting = new Waiting(this);
    this.owners = new Owners(this);
    this.panel = new Panel({
      call: (op, args) => this.socket.call(op, args), close: () => this.layout.togglePanel(),
      hueOf: (owner) => this.sidebar.sessions.get(owner)?.hue ?? 4,
      titleOf: (owner) => this.owners.nameOf(owner),
      titleIn: (owner) => this.sidebar.sessions.get(owner)?.title ?? null,
      session: () => this.current, last: () => this.chat.ids.at(-1) ?? null, page: this,
      branch: () => [this.session?.head_id, this.chat.ids.length].join(" "), growing: () => Boolean(this.chat.running),
      goTo: (id) => this.tree.act.show(id).catch(complain),
      wayBack: () => this.banner.status?.configuration?.way_back, goBack: () => this.goBack(),
    });
    this.settings = new Settings({
      page: this, fill: fillSettings, closed: () => { placeToasts(); this.composer.focus(); },
      save: (session, change, version) => this.saveSettings(session, change, version),
    });
    this.title = fillTop({
      sidebar: () => this.layout.toggleSidebar(), settings: () => this.showSettings(), panel: () => this.layout.togglePanel(),
      tree: () => this.tree.toggle(), menu: (button) => openMenu(button, chatMenu(this), { label: "This chat" }),
    });
    this.tree = treeOf(this);
    this.alerts = new Alerts();
    this.tour = new Tour(this);
    this.messageKeys = new MessageKeys(this);
    this.#listen();
    this.readAloud = new ReadAloud(this);
    this.awaited = new Awaited(this);
    this.layout.start();
  }

  #listen() {
    const { socket } = this;
    socket.on("open", (hello) => this.connected(hello));
    socket.on("lost", () => this.disconnected());
    socket.on("status", ({ status }) => this.setStatus(status));
    socket.on("alerts", ({ alerts }) => this.alerts.take(alerts));
    socket.on("session", ({ session, full }) => this.takeSession(session, full));
    socket.on("purged", ({ ids }) => this.purged(ids));
    socket.on("folders", ({ folders }) => this.sidebar.setFolders(folders));
    socket.on("branch", () => this.sidebar.trash.stale());
    socket.on("files", ({ session }) => { if (session === this.current) this.composer.files.refresh(); });
    socket.on("draft", ({ draft }) => this.composer.takeDraft(draft.session_id, draft));
    socket.on("path", (frame) => this.showPath(frame));
    socket.on("message", ({ session, message }) => {
      if (session === this.current) { this.chat.put(message); this.changed(); }
    });
    socket.on("aside", ({ session, aside }) => { if (session === this.current) { this.chat.takeAside(aside); this.changed(); } });
    socket.on("rates", ({ rates }) => this.takeRates(rates));
    socket.on("patch", (frame) => this.patch(frame));
    socket.on("gone", ({ session }) => { if (session === this.current) this.gone(); });
    this.panel.listen(socket);
    addEventListener("popstate", () => this.open(new URL(location.href).searchParams.get("session") || null, { push: false }));
    addEventListener("beforeunload", (event) => { if (this.session?.temporary && this.chat.ids.length) event.preventDefault(); });
    listenToKeys(this);
  }

  // -- connection ---------------------------------------------------------------------------------------------------

  async connected(hello) {
    if (!this.version && hello.notice) toast(hello.notice, { danger: true, stay: true });
    if (this.version && this.version !== hello.version) {
      toast("pagedchat was updated.", { action: "Reload", run: () => location.reload() });
    }
    this.version = hello.version;
    this.banner.setLost(false);
    this.composer.connected();
    document.documentElement.dataset.connection = "open";
    this.sidebar.load(hello.sessions, hello.folders);
    this.setStatus(hello.status);
    this.alerts.take(hello.alerts);
    if (hello.missing === "deleted") {
      const asked = { id: this.current };
      toast("That chat was deleted; it is in the trash.", { action: "Undo", run: () => this.library.restore("chat", asked) });
    } else if (hello.missing) toast("That chat does not exist any more.");
    await this.show((await this.turns.begun(hello.sessions)) ?? hello.session, { push: false });
    this.composer.drafts.flush();
    this.panel.feed.connected();
  }

  goBack() {
    return this.socket.call("rollback").then((said) => toast(said), complain);
  }

  disconnected() {
    this.banner.setLost(true);
    document.documentElement.dataset.connection = "lost";
    this.panel.feed.disconnected();
    this.chat.running?.showRate("");
  }

  setStatus(status) {
    const wasReady = this.banner.status?.state === "ready";
    this.banner.setStatus(status);
    document.documentElement.dataset.engine = status.state;
    this.chat.running?.waits.draw();
    this.info = { ...status.info, rolled_back: status.configuration?.rolled_back };
    this.sidebar.showModel(this.info, status.state);
    this.showSystem();
    if (status.state !== "ready") this.panel.feed.stale();
    else if (!wasReady) { this.panel.feed.restarted(); this.composer.askProbe(); }
  }

  // -- chats --------------------------------------------------------------------------------------------------------

  /** Show a chat because the reader asked for it; with `message`, the branch that has it, at its place. */
  async open(session, { push = true, message = null } = {}) {
    if (session !== this.current && !(await this.mayLeave())) {
      if (!push) history.pushState(null, "", NO_CHAT + encodeURIComponent(this.current)); // the way back was gone already
      return;
    }
    this.layout.closeDrawers();
    if (session !== this.current || !session || message) {
      if (session !== this.current) this.composer.open(session);
      this.switch(this.show(session, { push, message }));
    }
    if (!message) this.composer.focus();
  }

  /** The reader has asked for another chat: what is typed from now on belongs there. */
  async switch(work) {
    this.switching = work;
    try {
      await work;
    } catch (error) {
      this.composer.open(this.current);
      complain(error);
    } finally {
      if (this.switching === work) this.switching = null;
    }
  }

  /** Show a chat, or the empty page that becomes one with the first message. */
  async show(id, { push = true, message = null } = {}) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const frame = await this.socket.call("open", { session: id, message });
    if (turn !== this.turn) return; // another chat was asked for meanwhile
    if (frame.session?.temporary) this.composer.drafts.unstored.add(id);
    this.enter(id, push);
    this.composer.takeDraft(id, frame.draft ?? null, true);
    if (id === null) {
      this.session = this.shown = null;
      this.chat.show([], [], { fresh: true });
      this.waiting.take([]);
      this.panel.branch.clear();
      this.changed();
    } else {
      this.showPath(frame, this.shown !== id);
      this.shown = id;
      if (message) this.chat.goTo(message);
    }
  }

  enter(id, push) {
    this.current = id;
    this.blank = id === null;
    this.panel.branch.end = null;
    this.notice.show(null);
    if (this.ending && this.ending !== id) {
      this.socket.call("end_temporary", { session: this.ending }).catch(complain);
      this.ending = null;
    }
    dropToasts(id);
    this.sidebar.select(id);
    if (this.composer.session !== id || !this.entered) this.composer.open(id, !this.entered || this.composer.session === null);
    this.entered = true;
    const address = id === null ? "/" : NO_CHAT + encodeURIComponent(id);
    if (location.pathname + location.search !== address) {
      if (push) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    }
  }

  showPath(frame, fresh = false) {
    if (frame.session.id !== this.current) return;
    this.session = frame.session;
    if (!fresh && frame.kept < this.chat.ids.length) this.panel.branch.wait();
    const ids = [...this.chat.ids.slice(0, frame.kept), ...frame.ids];
    this.chat.show(ids, frame.messages, { earlier: frame.earlier, quotedAbove: frame.quoted_above, fresh, asides: frame.asides });
    this.turns.settle();
    if (frame.queue) this.waiting.take(frame.queue);
    else this.waiting.draw();
    this.changed();
  }

  /** A chat is new or has changed; `full` comes with the one that is shown. */
  takeSession(session, full) {
    this.sidebar.put(session);
    this.panel.redraw();
    if (session.id !== this.current) return;
    if (session.deleted_at) return this.gone();
    if (this.notice.kind === "deleted") return this.show(session.id, { push: false }).catch(complain);
    if (full) {
      this.session = full;
      this.settings.take(full);
    }
    this.changed();
  }

  /** The shown chat was deleted: here, or in another page that may not have meant it. */
  gone() {
    if (this.removing !== this.current) return this.notice.show("deleted");
    this.removing = null;
    this.composer.open(null);
    this.show(null).catch(complain);
  }

  purged(ids) {
    this.sidebar.trash.stale();
    if (ids.includes(this.current)) this.notice.show("purged");
  }

  /** Whether the shown chat may be left; one that is not kept asks, and ends when another is shown. */
  async mayLeave() {
    if (!this.session?.temporary) return true;
    const words = "It is not kept: its messages are gone when you leave it.";
    if (this.chat.ids.length && !(await confirmed("End this temporary chat?", words, "End it"))) return false;
    this.ending = this.session.id;
    return true;
  }

  /** A new chat, unless the shown one is still empty. */
  async create(options = {}) {
    this.layout.closeDrawers();
    if (this.switching || !(await this.mayLeave())) return;
    this.sidebar.home();
    if (this.session === null || this.chat.ids.length || Object.keys(options).length) {
      this.composer.open(null);
      this.composer.focus();
      await this.switch(this.#begin(options));
    }
    this.composer.focus();
  }

  /** Id of the shown chat; one that has not begun begins without a message. */
  async ensureChat() {
    await this.switching;
    if (this.current === null) await this.#begin({});
    return this.current;
  }

  async #begin(options) {
    const { unstored } = this.composer.drafts;
    if (options.temporary) unstored.add(null);
    try {
      const session = await this.socket.call("create", options);
      this.sidebar.put(session);
      await this.show(session.id);
    } finally {
      unstored.delete(null);
    }
  }

  // -- messages -----------------------------------------------------------------------------------------------------

  patch(frame) {
    if (frame.session !== this.current) return;
    const message = this.chat.items.get(frame.id);
    if (message && !message.patch(frame)) this.show(this.current, { push: false }).catch(complain);
  }

  takeRates(rates) {
    for (const [id, { session, rate: speed }] of Object.entries(rates)) {
      this.sidebar.showRate(session, rate(speed));
      if (session === this.current) this.chat.showRate(id, rate(speed), speed);
    }
  }

  // -- settings -----------------------------------------------------------------------------------------------------

  /** Open the settings at a section, or where they were left. */
  async showSettings(section = null) {
    this.layout.closeDrawers();
    try {
      if (this.current === null) await this.create();
      if (!this.session) return;
      this.settings.show(this.session, this.info, await this.socket.call("settings_facts"), section);
      this.alerts.take(await this.socket.call("alerts"));
    } catch (error) {
      complain(error);
    }
  }

  async saveSettings(id, change, version) {
    const session = await this.socket.call("settings", { session: id, change, version });
    if (id === this.current) {
      this.session = session;
      this.showSystem();
    }
    return session;
  }

  showSystem() {
    this.chat.showSystem(this.session?.system_prompt ?? null, this.info);
  }

  showShortcuts() {
    return showShortcuts();
  }

  showTree() {
    return this.tree.show();
  }

  // -- the whole page -----------------------------------------------------------------------------------------------

  /** Something about the shown chat has changed: keep title, Stop and the browser's tab in step. */
  changed() {
    const title = this.session?.title ?? "New chat";
    Object.assign(this.title, { textContent: title, title });
    document.title = this.session ? `${title} · pagedchat` : "pagedchat";
    this.composer.setRunning(Boolean(this.chat.running));
    this.composer.setOthers(this.chat.others.length);
    this.owners.note(this.session);
    this.panel.branch.endAt(this.chat.branch.id);
    this.panel.redraw();
    this.tree.changed();
    if (!this.notice.gone) this.notice.show(this.session?.temporary ? "temporary" : null);
    this.showSystem();
  }
}

export function start(fillSettings) {
  if (window.pagedchat?.page) return;
  startTheme();
  soleLandmark();
  window.pagedchat = {};
  const page = new Page(fillSettings);
  window.pagedchat.page = page;
  document.documentElement.dataset.started = ""; // as in first.css
  page.socket.connect();
}

/** The widgets' carrier calls itself the main part of the page; that is the chat. */
function soleLandmark() {
  for (const carrier of document.querySelectorAll("gradio-app main:not(#pc *)")) carrier.role = "presentation";
}
