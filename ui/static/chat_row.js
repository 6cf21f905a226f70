// One chat in the list: opens it, and a menu with everything else that can be done with a whole chat.

import { h, iconButton } from "./dom.js";
import { openMenu } from "./menu.js";

/** Says whether an element for `session` would look the same. */
export function rowStamp(session, current) {
  return [session.title, session.hue, session.running, session.pinned, session.archived, session.temporary, current].join("\n");
}

/** `act` has: open(id), menu(session, {rename}) -> choices, rename(session, title), remove(session), step(event),
 * renaming(id, on). */
export function chatRow(session, act, current) {
  const link = h("a.open", { href: `/?session=${encodeURIComponent(session.id)}`, title: session.title,
    "aria-current": current ? "page" : null },
  h("i.swatch", { style: `--c:var(--pc-own-${session.hue ?? 0})` }),
  h("span.title", {}, session.title),
  session.running ? h("span.live", { title: "A reply is being written" }, h("i"), h("span")) : null);
  const more = iconButton("more", "Menu of this chat", () => showMenu(), { "data-testid": "chat-menu", "aria-haspopup": "menu" });
  const row = h("div.item", { "data-testid": "session-item", "data-session-id": session.id }, link,
    h("span.tools", {}, more));
  row.classList.toggle("on", current);
  const showMenu = (at = null) => openMenu(more, act.menu(session, { rename: () => rename() }), { label: session.title, at });
  const rename = () => renameIn(row, session, act);
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    act.open(session.id);
  });
  link.addEventListener("dblclick", rename);
  row.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    showMenu(event.clientX ? { x: event.clientX, y: event.clientY } : null);
  });
  link.addEventListener("keydown", (event) => {
    if (event.key === "F2") rename();
    else if (event.key === "Delete") act.remove(session);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") act.step(event);
  });
  return row;
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
