// Short notices at the bottom, with at most one action (undo). They go by themselves, but for those that `stay`.

import { byId, h, iconButton, sentence } from "./dom.js";

const SHOWN_MS = 8_000;

export function toast(text, { action = null, run = null, danger = false, stay = false } = {}) {
  const area = placeToasts();
  const note = h(danger ? "div.toast.danger" : "div.toast", {}, h("span", {}, ...sentence(text)));
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

/** Where they can be seen and used: in the dialog that is open, which lets nothing else be touched. */
export function placeToasts() {
  const area = byId("pc-toasts");
  const place = [...document.querySelectorAll("#pc dialog[open]")].at(-1) ?? byId("pc");
  if (area.parentElement !== place) place.append(area);
  return area;
}

export function complain(error) {
  toast(error.message, { danger: true });
}
