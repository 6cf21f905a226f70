// Pieces that the sections of the settings are made of.

import { copyText } from "./clipboard.js";
import { h, iconButton } from "./dom.js";

/** A section: its sentence at the top, then `children`. */
export function page(id, lead, ...children) {
  return h("section.set-page", { id: `set-${id}`, hidden: true }, lead && h("p.set-lead", {}, lead), ...children);
}

export function heading(words) {
  return h("h3", {}, words);
}

/** Pairs of a name and what there is to say of it; those without are left out. */
export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return h("dl.set-facts", {}, ...rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, ...[value].flat()))));
}

/** A command or a path that can be copied. */
export function copyable(text, name = text) {
  const copy = iconButton("copy", `Copy ${name}`, () => copyText(text, copy));
  return h("span.set-copy", {}, h("code", {}, text), copy);
}

export function button(words, onclick, kind = "quiet", properties = {}) {
  return h(`button.${kind}`, { type: "button", onclick, ...properties }, words);
}

const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const moment = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

export function dayOf(time) {
  return day.format(new Date(time));
}

export function momentOf(time) {
  return moment.format(new Date(time));
}
