// The left column: a new chat, search, the list of chats, and the ways to archive, trash and import.

import { chatRow, rowStamp } from "./chat_row.js";
import { byId, h, icon, iconButton, throttled } from "./dom.js";
import { letDrag } from "./dragging.js";
import { count } from "./format.js";
import { ListFocus } from "./list_focus.js";
import { HEADING, ROW, heading, headingRow, line } from "./list_rows.js";
import { keyName } from "./keys.js";
import { openMenu } from "./menu.js";
import { Search } from "./search.js";
import { Selection } from "./selection.js";
import { Shelf } from "./shelf.js";
import { isDark, toggleTheme } from "./theme.js";
import { Trash } from "./trash.js";
import { WindowList } from "./window_list.js";

const LOGO = `<svg viewBox="0 0 22 22" width="22" height="22" aria-hidden="true"><rect x="1" y="1" width="9" height="9"
rx="2" fill="var(--pc-own-0)"/><rect x="12" y="1" width="9" height="9" rx="2" fill="var(--pc-own-2)"/><rect x="1" y="12"
width="9" height="9" rx="2" fill="var(--pc-own-2)"/><rect x="12.7" y="12.7" width="7.6" height="7.6" rx="1.6"
fill="none" stroke="var(--pc-faint)" stroke-width="1.4"/></svg>`;

const POINTING_MS = 1_500;
const BETWEEN_MS = 60; // between two changes of the list that nobody here asked for

export function logo() {
  const holder = h("span.logo");
  holder.innerHTML = LOGO;
  return holder;
}

export class Sidebar {
  /** `act` has: open(id, message), create(), temporary(), settings(), closeDrawer(), search(query, limit, offset), and
   * `library`, what can be done with whole chats. */
  constructor(act) {
    this.act = act;
    this.shelf = new Shelf();
    this.current = null;
    this.renaming = null;
    this.view = "chats"; // or "archive", "trash"
    this.pointed = 0;
    this.drawSoon = throttled(BETWEEN_MS, () => this.draw());
    this.list = h("nav.list", { "aria-label": "Chats" });
    this.window = new WindowList(this.list);
    this.focus = new ListFocus(this.window, () => this.search.active && (this.search.focus(), true));
    this.selection = new Selection({
      many: (ids) => act.library.many(ids.map((id) => this.sessions.get(id)).filter(Boolean)),
      redraw: () => this.#redraw(), order: () => this.window.rows.filter((row) => this.sessions.has(row.key)).map((row) => row.key),
    });
    this.rowActs = {
      selection: this.selection,
      open: act.open, menu: (session, more) => act.library.menu(session, more), rename: act.library.rename,
      remove: act.library.remove, step: (event) => this.#step(event),
      renaming: (id, on) => this.#renaming(id, on),
    };
    this.search = new Search({
      search: act.search, open: act.open, redraw: () => this.#redraw(), into: () => this.focus.first(), row: (id) => this.#known(id),
    });
    this.trash = new Trash(act.library, () => this.draw());
    this.back = h("div.view-head", { hidden: true });
    this.#build();
    this.#watchPointer();
  }

  get sessions() {
    return this.shelf.sessions;
  }

  #build() {
    const { act } = this;
    this.model = h("div.model-name");
    this.themeButton = iconButton("moon", "Dark theme", () => toggleTheme());
    addEventListener("pagedchat:theme", () => this.#drawTheme());
    this.#drawTheme();
    this.places = { archive: this.#place("archive", "Archive"), trash: this.#place("trash", "Trash") };
    const more = iconButton("more", "More", () => openMenu(more, this.#more(), { label: "More" }), { "data-testid": "more-menu" });
    const begin = h("div.begin", {},
      h("button.new", { type: "button", "data-testid": "new-session", onclick: () => act.create() },
        icon("plus"), h("span", {}, "New chat"), h("kbd", {}, keyName("mod+k"))),
      iconButton("ghost", "New temporary chat", () => act.temporary(), { "data-testid": "new-temporary" }));
    byId("pc-side").append(
      h("div.brand", {}, logo(), h("b", {}, "pagedchat"), iconButton("sidebar", "Hide chats", act.closeDrawer)),
      begin, this.search.element, this.back, this.selection.element, this.list,
      h("div.places", {}, this.places.archive, this.places.trash, more),
      h("div.model", {}, this.model, this.themeButton, iconButton("tune", "Chat settings", act.settings)));
    letDrag(this.list, Object.values(this.places), {
      chosen: (id) => (this.selection.has(id) ? [...this.selection.ids] : [id]), target: (element) => this.#target(element),
    });
  }

  /** What dropping chats there does: {element, drop(ids)}, null where it does nothing. */
  #target(element) {
    const many = (ids) => this.act.library.many(ids.map((id) => this.sessions.get(id)).filter(Boolean));
    const place = element.closest(".place-button");
    if (place) return { element: place, drop: (ids) => many(ids)[place === this.places.trash ? "remove" : "archive"]() };
    const row = element.closest("[data-row]");
    if (!row || this.view !== "chats" || this.search.active) return null;
    const folder = row.dataset.row.startsWith("folder ") ? row.dataset.row.slice(7) : this.sessions.get(row.dataset.row)?.folder_id ?? null;
    return { element: this.window.get(`folder ${folder}`) ?? row, drop: (ids) => many(ids).moveTo(folder) };
  }

  #place(view, name) {
    return h("button.place-button", { type: "button", "data-testid": `show-${view}`, "aria-pressed": "false",
      onclick: () => this.show(this.view === view ? "chats" : view) }, icon(view, 15), name);
  }

  #more() {
    const { library } = this.act;
    return [
      { label: "New folder…", icon: "folder", testid: "new-folder", run: () => library.addFolder() },
      { label: "Presets…", icon: "tune", testid: "presets", run: () => library.presets() },
      { label: "Import chats…", icon: "import", testid: "import", run: () => library.import() },
      { label: "Export all chats", icon: "export", more: () => library.exportChoices(null) },
    ];
  }

  /** While the reader points at the list, nothing in it moves. */
  #watchPointer() {
    const later = () => {
      clearTimeout(this.still);
      this.still = setTimeout(() => this.#release(), POINTING_MS);
    };
    this.list.addEventListener("pointermove", () => { this.pointed = performance.now(); later(); });
    this.list.addEventListener("pointerleave", () => this.#release());
  }

  #release() {
    clearTimeout(this.still);
    this.pointed = 0;
    if (this.waiting) this.draw();
  }

  #drawTheme() {
    const dark = isDark();
    this.themeButton.replaceChildren(icon(dark ? "sun" : "moon"));
    this.themeButton.title = dark ? "Light theme" : "Dark theme";
    this.themeButton.setAttribute("aria-label", this.themeButton.title);
  }

  showModel({ model, device, dtype, kernels, reason }, state) {
    const [, name, format] = model?.match(/^(.*?)[.-]((?:I?Q\d|B?F16|F32)\w*)$/) ?? [null, model, null];
    const detail = [format, device, dtype].filter(Boolean).join(" · ") || state;
    this.model.replaceChildren(h("span", {}, name ?? "No model yet"), h("small", {}, detail));
    this.model.title = kernels ? `${model} on ${device}, ${dtype}\n${kernels} kernels: ${reason ?? ""}` : "";
  }

  /** Replace the whole list (after connecting). */
  load(sessions, folders) {
    this.shelf.load(sessions, folders);
    this.draw();
  }

  put(session) {
    this.shelf.put(session);
    this.trash.stale();
    this.drawSoon();
  }

  setFolders(folders) {
    this.shelf.folders = folders;
    this.draw();
  }

  /** How fast a running reply of this chat is written; the next list without one forgets it. */
  showRate(id, words) {
    const place = this.window.get(id)?.querySelector(".live span");
    if (place && place.textContent !== words) place.textContent = words;
  }

  /** A running reply of this chat has to wait for its turn. */
  showWaiting(id, on) {
    const live = this.window.get(id)?.querySelector(".live");
    if (!live || (!on && !live.classList.contains("in-line"))) return;
    live.classList.toggle("in-line", on);
    live.lastChild.textContent = on ? "queued" : "";
  }

  select(id) {
    this.current = id;
    this.draw();
    this.window.reveal(id);
  }

  /** Show the chats, the archive or the trash. */
  show(view) {
    this.view = view;
    for (const [name, button] of Object.entries(this.places)) button.setAttribute("aria-pressed", String(name === view));
    this.back.hidden = view === "chats";
    if (view !== "chats") {
      const home = iconButton("left", "Back to the chats", () => this.show("chats"));
      this.back.replaceChildren(home, h("h2", {}, view === "trash" ? "Trash" : "Archive"),
        ...(view === "trash" ? [this.trash.empty] : []));
    }
    this.search.clear();
    this.selection.clear();
    this.list.scrollTop = 0;
    if (view === "trash") this.trash.load();
    this.#redraw();
  }

  /** The list of chats, where a new one appears. */
  home() {
    if (this.view !== "chats") this.show("chats");
  }

  /** Draw what the reader has just asked for, wherever the pointer is. */
  #redraw() {
    this.pointed = 0;
    this.draw();
  }

  draw() {
    if (this.selection.ids.size) this.selection.keep(this.sessions);
    const rows = this.#rows();
    const held = performance.now() - this.pointed < POINTING_MS && this.pointed;
    this.waiting = held;
    this.focus.set(held ? inOrderOf(this.window.rows, rows) : rows, this.current);
  }

  #rows() {
    if (this.search.active) return this.search.rows();
    if (this.view === "trash") return this.trash.rows();
    if (this.view === "archive") return this.#archive();
    const rows = [];
    for (const { name, folder, sessions } of this.shelf.parts()) {
      const open = !folder || !this.shelf.folded.has(folder.id);
      rows.push(folder ? this.#folder(folder, open, sessions.length) : heading(name));
      if (open) for (const session of sessions) rows.push(this.chat(session));
      if (open && folder && !sessions.length) rows.push(line(`${folder.id} empty`, "No chats in this folder."));
    }
    return rows.length ? rows : [line("none", "No chats yet.")];
  }

  #archive() {
    const rows = this.shelf.archived.map((session) => this.chat(session));
    return rows.length ? rows : [line("none", "Nothing is archived.")];
  }

  chat(session) {
    const [current, chosen] = [session.id === this.current, this.selection.has(session.id)];
    const asItIs = this.renaming === session.id && this.window.drawn.get(session.id)?.stamp;
    return { key: session.id, height: ROW, stamp: asItIs || rowStamp(session, current, chosen), chat: true,
      make: () => chatRow(session, this.rowActs, current, chosen) };
  }

  #folder(folder, open, number) {
    const toggle = () => { this.shelf.fold(folder.id); this.#redraw(); this.window.get(`folder ${folder.id}`)?.querySelector("button").focus(); };
    return { key: `folder ${folder.id}`, height: HEADING, stamp: `${folder.name}\n${open}\n${number}`,
      make: () => headingRow(folder.name, { open, toggle, count: count(number), menu: () => this.act.library.folderMenu(folder) }) };
  }

  #known(id) {
    const session = this.sessions.get(id);
    return session ? this.chat(session) : null;
  }

  #renaming(id, on) {
    this.renaming = on ? id : null;
    if (on) return;
    this.draw();
    this.window.get(id)?.querySelector("a")?.focus({ preventScroll: true });
  }

  /** To the chat above or below; returns its id, null if there is none. */
  #step(event) {
    event.preventDefault();
    const from = event.currentTarget.closest("[data-row]").dataset.row;
    const row = this.window.next(from, event.key === "ArrowDown" ? 1 : -1, (one) => one.chat);
    return this.focus.go(row) ? row.key : null;
  }
}

/** The rows of `fresh` in the order of `shown`; those that are new wait. */
function inOrderOf(shown, fresh) {
  const byKey = new Map(fresh.map((row) => [row.key, row]));
  return shown.filter((row) => byKey.has(row.key)).map((row) => byKey.get(row.key));
}
