// The list of chats: new, open, filter, rename, delete with undo.

import { byId, h, icon, iconButton } from "./dom.js";
import { count, dayGroup } from "./format.js";
import { isDark, toggleTheme } from "./theme.js";

const LOGO = `<svg viewBox="0 0 22 22" width="22" height="22" aria-hidden="true"><rect x="1" y="1" width="9" height="9"
rx="2" fill="var(--pc-own-0)"/><rect x="12" y="1" width="9" height="9" rx="2" fill="var(--pc-own-2)"/><rect x="1" y="12"
width="9" height="9" rx="2" fill="var(--pc-own-2)"/><rect x="12.7" y="12.7" width="7.6" height="7.6" rx="1.6"
fill="none" stroke="var(--pc-faint)" stroke-width="1.4"/></svg>`;

const AT_ONCE = 150;

export function logo() {
  const holder = h("span.logo");
  holder.innerHTML = LOGO;
  return holder;
}

export class Sidebar {
  /** `act` has: open(id), create(), rename(id, title), remove(id), settings(), closeDrawer(). */
  constructor(act) {
    this.act = act;
    this.sessions = new Map();
    this.current = null;
    this.renaming = null;
    this.rows = new Map();
    this.shown = AT_ONCE;
    this.filter = h("input.filter", {
      type: "search", placeholder: "Search chats", "aria-label": "Search chats by title", autocomplete: "off",
      spellcheck: "false", oninput: () => { this.shown = AT_ONCE; this.draw(); },
    });
    this.list = h("nav.list", { "aria-label": "Chats" });
    this.model = h("div.model-name");
    this.themeButton = iconButton("moon", "Dark theme", () => toggleTheme());
    addEventListener("pagedchat:theme", () => this.#drawTheme());
    this.#drawTheme();
    byId("pc-side").append(
      h("div.brand", {}, logo(), h("b", {}, "pagedchat"), iconButton("sidebar", "Hide chats", act.closeDrawer)),
      h("button.new", { type: "button", "data-testid": "new-session", onclick: () => act.create() },
        icon("plus"), h("span", {}, "New chat"), h("kbd", {}, "Ctrl K")),
      this.filter,
      this.list,
      h("div.model", {}, this.model, this.themeButton, iconButton("tune", "Chat settings", act.settings)),
    );
  }

  #drawTheme() {
    const dark = isDark();
    this.themeButton.replaceChildren(icon(dark ? "sun" : "moon"));
    this.themeButton.title = dark ? "Light theme" : "Dark theme";
    this.themeButton.setAttribute("aria-label", this.themeButton.title);
  }

  showModel(name, detail, title) {
    this.model.replaceChildren(h("span", {}, name), h("small", {}, detail));
    this.model.title = title;
  }

  /** Replace the whole list (after connecting). */
  load(sessions) {
    this.sessions = new Map(sessions.map((session) => [session.id, session]));
    this.draw();
  }

  put(session) {
    if (session.deleted_at) this.sessions.delete(session.id);
    else this.sessions.set(session.id, session);
    this.draw();
  }

  /** How fast a running reply of this chat is written; the next list without one forgets it. */
  showRate(id, words) {
    const place = this.rows.get(id)?.querySelector(".live span");
    if (place && place.textContent !== words) place.textContent = words;
  }

  select(id) {
    this.current = id;
    for (const [one, row] of this.rows) this.#mark(row, one === id);
    this.rows.get(id)?.scrollIntoView({ block: "nearest" });
  }

  newest() {
    return this.#ordered()[0]?.id ?? null;
  }

  #ordered() {
    return [...this.sessions.values()].sort((a, b) => (a.updated_at < b.updated_at ? 1 : -1));
  }

  draw() {
    const wanted = this.filter.value.trim().toLowerCase();
    const found = this.#ordered().filter((one) => !wanted || one.title.toLowerCase().includes(wanted));
    const shown = found.slice(0, this.shown);
    const parts = [];
    let group = null;
    this.rows.clear();
    for (const session of shown) {
      const name = dayGroup(session.updated_at);
      if (name !== group) parts.push(h("h2", {}, (group = name)));
      const row = this.#row(session);
      this.rows.set(session.id, row);
      parts.push(row);
    }
    if (found.length > shown.length) {
      const more = () => { this.shown *= 3; this.draw(); };
      parts.push(h("button.more", { type: "button", onclick: more }, `${count(found.length - shown.length)} more`));
    }
    if (!shown.length) parts.push(h("p.none", {}, wanted ? "No chat has this in its title." : "No chats yet."));
    const at = this.list.scrollTop;
    if (!this.renaming) this.list.replaceChildren(...parts);
    this.list.scrollTop = at;
  }

  #row(session) {
    const link = h("a.open", { href: `/?session=${encodeURIComponent(session.id)}`, title: session.title },
      h("i.swatch", { style: `--c:var(--pc-own-${session.hue ?? 0})` }),
      h("span.title", {}, session.title),
      session.running ? h("span.live", { title: "A reply is being written" }, h("i"), h("span")) : null);
    const row = h("div.item", { "data-testid": "session-item", "data-session-id": session.id }, link, h("span.tools", {},
      iconButton("edit", "Rename this chat", () => this.#rename(row, session)),
      iconButton("trash", "Delete this chat", () => this.act.remove(session.id))));
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.act.open(session.id);
    });
    link.addEventListener("dblclick", () => this.#rename(row, session));
    link.addEventListener("keydown", (event) => {
      if (event.key === "F2") this.#rename(row, session);
      else if (event.key === "Delete") this.act.remove(session.id);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.#step(event);
    });
    this.#mark(row, session.id === this.current);
    return row;
  }

  #step(event) {
    event.preventDefault();
    const links = [...this.list.querySelectorAll("a.open")];
    const at = links.indexOf(event.currentTarget) + (event.key === "ArrowDown" ? 1 : -1);
    links[at]?.focus();
  }

  #mark(row, on) {
    row.classList.toggle("on", on);
    if (on) row.firstChild.setAttribute("aria-current", "page");
    else row.firstChild.removeAttribute("aria-current");
  }

  #rename(row, session) {
    this.renaming = session.id;
    let over = false;
    const done = (save) => {
      if (over) return;
      over = true;
      this.renaming = null;
      const title = field.value.trim();
      if (save && title && title !== session.title) this.act.rename(session.id, title);
      this.draw();
      this.rows.get(session.id)?.firstChild.focus();
    };
    const field = h("input.rename", {
      "aria-label": "Title of this chat", maxlength: "200",
      onkeydown: (event) => {
        if (event.key === "Enter") done(true);
        else if (event.key === "Escape") { event.stopPropagation(); done(false); }
      },
      onblur: () => done(true),
    });
    field.value = session.title;
    row.replaceChildren(field);
    field.select();
  }
}
