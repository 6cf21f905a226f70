// Short notices at the bottom, with at most one action (undo). They go by themselves, but for those that `stay`.

import { byId, h, iconButton } from "./dom.js";

const SHOWN_MS = 8_000;

export function toast(text, { action = null, run = null, danger = false, stay = false } = {}) {
  const area = byId("pc-toasts");
  const note = h(danger ? "div.toast.danger" : "div.toast", {}, h("span", {}, text));
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

export function complain(error) {
  toast(error.message, { danger: true });
}
