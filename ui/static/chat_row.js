// One chat in the list: opens it, and a menu with everything else that can be done with a whole chat.

import { h, iconButton } from "./dom.js";
import { openMenu } from "./menu.js";

/** Says whether an element for `session` would look the same. */
export function rowStamp(session, current, chosen) {
  return [session.title, session.hue, session.running, session.pinned, session.archived, session.temporary, current, chosen].join("\n");
}

/** `act` has: open(id), menu(session, {rename}) -> choices, rename(session, title), remove(session), step(event),
 * renaming(id, on), selection. */
export function chatRow(session, act, current, chosen) {
  const link = h("a.open", { href: `/?session=${encodeURIComponent(session.id)}`, title: session.title,
    "aria-current": current ? "page" : null },
  h("i.swatch", { style: `--c:var(--pc-own-${session.hue ?? 0})` }),
  h("span.title", {}, session.title), chosen ? h("span.unseen", {}, ", chosen") : null,
  session.running ? h("span.live", { title: "A reply is being written" }, h("i"), h("span")) : null);
  const more = iconButton("more", "Menu of this chat", () => showMenu(), { "data-testid": "chat-menu", "aria-haspopup": "menu" });
  const row = h("div.item", { "data-testid": "session-item", "data-session-id": session.id }, link,
    h("span.tools", {}, more));
  row.classList.toggle("on", current);
  row.classList.toggle("chosen-row", chosen);
  const { selection } = act;
  const showMenu = (at = null) => openMenu(more, act.menu(session, { rename: () => rename() }), { label: session.title, at });
  const rename = () => renameIn(row, session, act);
  link.addEventListener("click", (event) => {
    if (event.button) return;
    event.preventDefault();
    if (event.shiftKey) selection.extend(session.id);
    else if (event.metaKey || event.ctrlKey) selection.toggle(session.id);
    else act.open(session.id);
  });
  link.addEventListener("dblclick", rename);
  row.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    showMenu(event.clientX ? { x: event.clientX, y: event.clientY } : null);
  });
  link.addEventListener("keydown", (event) => {
    if (event.key === "F2") rename();
    else if (event.key === "Delete") act.remove(session);
    else if (event.shiftKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      if (!selection.has(session.id)) selection.toggle(session.id);
      const next = act.step(event);
      if (next) selection.extend(next);
    } else if (event.key === " ") choose(event, () => selection.toggle(session.id));
    else if (event.key.toLowerCase() === "a" && (event.ctrlKey || event.metaKey)) choose(event, () => selection.all());
    else if (event.key === "Escape" && selection.ids.size) choose(event, () => selection.clear());
  });
  return row;
}

function choose(event, work) {
  event.preventDefault();
  event.stopPropagation();
  work();
}

function renameIn(row, session, act) {
  const before = [...row.childNodes];
  let over = false;
  act.renaming(session.id, true);
  const done = (save) => {
    if (over) return;
    over = true;
    const title = field.value.trim();
    row.replaceChildren(...before);
    if (save && title && title !== session.title) act.rename(session, title);
    act.renaming(session.id, false);
  };
  const field = h("input.rename", {
    "aria-label": "Title of this chat", maxlength: "200",
    onkeydown: (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") done(true);
      else if (event.key === "Escape") { event.stopPropagation(); done(false); }
    },
    onblur: () => done(true),
  });
  field.value = session.title;
  row.replaceChildren(field);
  field.focus();
  field.select();
}
