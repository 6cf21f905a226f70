// Rows of the list that are no chats: headings, and lines that say something. Heights as the style sheet has them; in a
// `plain` one there is nothing to press.

import { h, icon, iconButton } from "./dom.js";
import { openMenu } from "./menu.js";

export const ROW = 37; // pixels, of a chat
export const HEADING = 34;
const LINE = 22; // of text
const LETTERS = 34; // that fit into one

export function heading(name) {
  return { key: `heading ${name}`, height: HEADING, stamp: name, plain: true, make: () => headingRow(name) };
}

/** What there is to say in place of chats. */
export function line(key, words, kind = "p.none") {
  const height = Math.ceil(words.length / LETTERS) * LINE + 16;
  return { key, height, stamp: words, plain: true, make: () => h(kind, { role: "status" }, words) };
}

/** The element of a heading; with `toggle` it folds what is below it. */
export function headingRow(name, { open = true, toggle = null, count = null, menu = null } = {}) {
  if (!toggle) return h("h2.group", {}, name);
  const more = menu && iconButton("more", `Menu of the folder ${name}`, () => openMenu(more, menu(), { label: name }),
    { "data-testid": "folder-menu", "aria-haspopup": "menu" });
  return h("div.group.folder", { "data-testid": "folder" },
    h("button", { type: "button", "aria-expanded": String(open), onclick: toggle },
      icon(open ? "down-small" : "right", 14), h("h2", {}, name), h("small", {}, count)),
    more ? h("span.tools", {}, more) : null);
}
