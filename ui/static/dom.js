// Small helpers over the DOM. Text always goes in as text nodes; `html` is only for what the server has sanitized.

import { stated } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

const PATHS = {
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  clip: "M11.6 6.2L7 10.8a1.3 1.3 0 0 1-1.9-1.9l5-5a2.5 2.5 0 0 1 3.6 3.6l-5.2 5.2a3.9 3.9 0 0 1-5.5-5.5l4.4-4.4",
  file: "M4 2.2h5l3 3v8.6H4zM8.8 2.4v3h3",
  clock: "M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6M8 5v3.2l2.2 1.4",
  pause: "M5.6 3.6v8.8M10.4 3.6v8.8",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  sidebar: "M2.5 3h11v10h-11zM6.3 3v10",
  grid: "M2.5 2.5h4.4v4.4H2.5zM9.1 2.5h4.4v4.4H9.1zM2.5 9.1h4.4v4.4H2.5zM9.1 9.1h4.4v4.4H9.1z",
  tune: "M2.5 5h6.2M11.9 5h1.6M2.5 11h1.6M7.3 11h6.2M10.3 3.4v3.2M5.7 9.4v3.2",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1.6v1.3M8 13.1v1.3M1.6 8h1.3M13.1 8h1.3M3.5 3.5l.9.9M11.6 11.6l.9.9M3.5 12.5l.9-.9M11.6 4.4l.9-.9",
  moon: "M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z",
  copy: "M5.8 5.8h7.4v7.4H5.8zM10.2 5.6V2.8H2.8v7.4h2.8",
  check: "M3 8.6l3.2 3.2L13 4.8",
  again: "M13 8a5 5 0 1 1-1.5-3.6M11.9 1.9v2.7H9.2",
  edit: "M3 13l.6-2.8L10.6 3.2l2.2 2.2L5.8 12.4zM9.3 4.5l2.2 2.2",
  trash: "M3 4.4h10M6.2 4.2V2.8h3.6v1.4M4.2 4.6l.6 8.6h6.4l.6-8.6M6.8 7v3.8M9.2 7v3.8",
  left: "M9.8 3.8L5.6 8l4.2 4.2",
  right: "M6.2 3.8L10.4 8l-4.2 4.2",
  down: "M8 3v9.4M4 8.6l4 4 4-4",
  up: "M8 13V3.6M4 7.4l4-4 4 4",
  close: "M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4",
  more: "M3.4 8h.2M7.9 8h.2M12.4 8h.2",
  "down-small": "M3.8 6.2L8 10.4l4.2-4.2",
  folder: "M2.2 4.2h4.2l1.4 1.6h6v7H2.2z",
  archive: "M2.4 3h11.2v3H2.4zM3.4 6.2v6.8h9.2V6.2M6.4 8.8h3.2",
  pin: "M5.4 2.4h5.2l-.7 4.2 2 2.2H4.1l2-2.2zM8 9v4.8",
  fork: "M4.4 2.6v10.8M4.4 9.4c4.6 0 7.2-1.2 7.2-5M9.4 5.2l2.2-2.4 2.2 2.4",
  compare: "M2.4 3h4.6v10H2.4zM9 3h4.6v10H9z",
  import: "M8 2.4v7M5 6.6l3 3 3-3M2.6 10.6v2.8h10.8v-2.8",
  export: "M8 9.6v-7M5 5.4l3-3 3 3M2.6 10.6v2.8h10.8v-2.8",
  back: "M6.4 3L3 6.4l3.4 3.4M3.2 6.4h6.2a3.4 3.4 0 0 1 0 6.8H6.6",
  ghost: "M3.4 13.2V7.4a4.6 4.6 0 0 1 9.2 0v5.8l-1.9-1.4-1.4 1.4L8 11.8l-1.3 1.4-1.4-1.4zM6.2 7.2v.4M9.8 7.2v.4",
  search: "M7 2.6a4.4 4.4 0 1 0 0 8.8a4.4 4.4 0 1 0 0-8.8M10.4 10.4l3.2 3.2",
  warn: "M8 2.4l6 10.8H2zM8 6.4v3.2M8 11.2v.4",
  play: "M5.2 3.4l7 4.6-7 4.6z",
  "step-back": "M10.8 3.4l-6 4.6 6 4.6zM3.6 3.4v9.2",
  "step-on": "M5.2 3.4l6 4.6-6 4.6zM12.4 3.4v9.2",
  stop: "M4.4 4.4h7.2v7.2H4.4z",
  info: "M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6M8 7.4v3.4M8 5.1v.3",
  raw: "M5.4 4.4L1.8 8l3.6 3.6M10.6 4.4L14.2 8l-3.6 3.6",
  compact: "M3 3.2h10M3 6.2h10M8 8.2v5.2M5.4 11l2.6 2.6L10.6 11",
  token: "M2.2 5.4h3.4v5.2H2.2zM6.6 5.4h2.2v5.2H6.6zM9.8 5.4h4v5.2h-4z",
  branch: "M4.4 2.6v10.8M4.4 5.6c0 3.4 7.2 2 7.2 5.4v2.4M9.6 11.4l2 2 2-2",
  you: "M8 2.6a2.6 2.6 0 1 0 0 5.2a2.6 2.6 0 1 0 0-5.2M2.9 13.6c.5-2.6 2.4-3.9 5.1-3.9s4.6 1.3 5.1 3.9",
  reply: "M2.8 4.2h10.4M2.8 8h10.4M2.8 11.8h6",
  tree: "M3.2 2.4v8.2a2 2 0 0 0 2 2h2.2M3.2 6h4.2M9.4 4.4h4v3.2h-4zM9.4 11h4v3.2h-4z",
  keyboard: "M1.8 4.2h12.4v7.6H1.8zM4.2 6.6h.2M6.8 6.6h.2M9.4 6.6h.2M12 6.6h.2M5 9.4h6",
  unfold: "M8 6.6V2.4M5.8 4.4L8 2.2l2.2 2.2M8 9.4v4.2M5.8 11.6L8 13.8l2.2-2.2M3 8h10",
  fold: "M8 2.2v4.2M5.8 4.4L8 6.6l2.2-2.2M8 13.8V9.6M5.8 11.6L8 9.4l2.2 2.2M3 8h10",
  critical: "M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4zM8 4.8v3.8M8 11v.4",
};

/** An element: h("p.note", {title}, "text", child). Functions among the properties become listeners (onclick …). */
export function h(spec, properties = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") element.style.cssText = value;
    else if (name in element && name !== "list" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** One of the line icons above, hidden from screen readers. */
export function icon(name, size = 16) {
  const svg = shape("svg", {
    viewBox: "0 0 16 16", width: size, height: size, fill: "none", stroke: "currentColor",
    "stroke-width": 1.35, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true",
  });
  svg.append(shape("path", { d: PATHS[name] }));
  return svg;
}

/** A button with an icon, a name for screen readers and a tooltip. */
export function iconButton(name, label, onclick, properties = {}) {
  return h("button.icon", { type: "button", title: label, "aria-label": label, onclick, ...properties }, icon(name));
}

/** Properties of a button for what cannot be done now: it keeps its place among the stops of Tab, and a focus that it has. */
export function unfit(why) {
  return why ? { "aria-disabled": "true" } : {};
}

export function byId(id) {
  return document.getElementById(id);
}

/** The pieces of a server's sentence, what stands in `backticks` as code; for `h` and `append`. */
export function sentence(text) {
  return stated(text ?? "").split(/`([^`]+)`/).map((piece, index) => (index % 2 ? h("code", {}, piece) : piece)).filter(Boolean);
}

/** Make `elements` the children of `parent`, in this order; those that are in place are not touched. What is not among
 * them goes before that: it would make all that follow it move. */
export function place(parent, elements) {
  const kept = new Set(elements);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  let at = parent.firstChild;
  for (const element of elements) {
    if (element === at) at = at.nextSibling;
    else parent.insertBefore(element, at);
  }
}

/** Put children in place of what is there, without touching the DOM when `key` is unchanged. A button or link that had
 * the focus has it again. */
export function refill(element, key, make) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  const { activeElement } = document;
  const held = element.contains(activeElement) && nameOf(activeElement);
  element.replaceChildren(...make().filter(Boolean));
  if (held) [...element.querySelectorAll("a, button")].find((one) => nameOf(one) === held)?.focus({ preventScroll: true });
}

function nameOf({ dataset, textContent }) {
  return dataset.testid ?? textContent;
}

/** Run `work` once per frame at most; nothing runs while nobody asks. */
export function framed(work) {
  let asked = 0;
  return () => {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; work(); });
  };
}

/** Call `work` when `delay` ms passed without another call. */
export function debounced(delay, work) {
  let timer = 0;
  const ask = (...args) => { clearTimeout(timer); timer = setTimeout(() => work(...args), delay); };
  ask.cancel = () => clearTimeout(timer);
  return ask;
}

/** Call `work` at once, then again when `pause` ms have passed if it was asked for meanwhile. */
export function throttled(pause, work) {
  let timer = 0;
  let asked = false;
  const rest = () => {
    timer = 0;
    if (asked) ask();
  };
  const ask = () => {
    asked = Boolean(timer);
    if (timer) return;
    timer = setTimeout(rest, pause);
    work();
  };
  return ask;
}

/** An element of a drawing. */
export function shape(tag, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Change a text only if it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Change an attribute only if it is another one. */
export function setAttr(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}
