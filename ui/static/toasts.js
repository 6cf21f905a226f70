// Short notices above the composer, with at most one action (undo). They go by themselves, but for those that `stay`, and
// when another chat is opened than the one they speak of, `chat`.

import { byId, h, iconButton, sentence } from "./dom.js";

const SHOWN_MS = 8_000;

export function toast(text, { action = null, run = null, danger = false, stay = false, chat = "" } = {}) {
  const area = placeToasts();
  const note = h(danger ? "div.toast.danger" : "div.toast", { "data-chat": chat }, h("span", {}, ...sentence(text)));
  const close = () => { clearTimeout(timer); note.remove(); };
  if (action) note.append(h("button.link", { type: "button", onclick: () => { close(); run(); } }, action));
  note.append(iconButton("close", "Dismiss", close));
  let timer = 0;
  const leaveAfter = (pause) => { if (!stay) timer = setTimeout(close, pause); };
  note.addEventListener("pointerenter", () => clearTimeout(timer));
  note.addEventListener("pointerleave", () => leaveAfter(SHOWN_MS / 2));
  leaveAfter(SHOWN_MS);
  while (area.children.length >= 3) area.firstChild.remove();
  area.append(note);
}

/** Another chat is shown: what speaks of the one before goes. */
export function dropToasts(chat) {
  for (const note of byId("pc-toasts").querySelectorAll(".toast")) {
    if (note.dataset.chat && note.dataset.chat !== chat) note.remove();
  }
}

/** Where they can be seen and used: in the dialog that is open, which lets nothing else be touched. */
export function placeToasts() {
  const area = byId("pc-toasts");
  const settings = document.documentElement.hasAttribute("data-settings") ? byId("pc-settings") : null;
  const place = [...document.querySelectorAll("#pc dialog[open]")].at(-1) ?? settings ?? byId("pc-foot").parentElement;
  if (area.parentElement !== place) place.insertBefore(area, place === byId("pc-foot").parentElement ? byId("pc-foot") : null);
  return area;
}

export function complain(error) {
  toast(error.message, { danger: true });
}
