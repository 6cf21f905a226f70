// How one block looks. State is told by shape, count by hatch and number, whose it is (or its age, or its reuse) by colour:
//
//     free      an outline            cached    a smaller square, a dot in it where it is pinned
//     active    a full square         shared    a square without a corner; of three references or more: without two;
//                                               where there is room: hatched, with their number

import { ACTIVE, CACHED, FREE, SHARED } from "./kvmodel.js";

const HUES = 6;
const STEPS = 5;
const ROUND = 7; // pixels from which on corners are round
const forced = matchMedia("(forced-colors: active)");

/** The colours of the page as they are now. */
export function readColours() {
  const probe = document.createElement("i");
  document.getElementById("pc-kv").append(probe);
  const resolve = (value) => {
    probe.style.color = value;
    return getComputedStyle(probe).color;
  };
  const own = (name) => resolve(`var(--pc-${name})`);
  const many = (size, name) => Array.from({ length: size }, (_, at) => own(`${name}-${at}`));
  const owners = many(HUES, "own");
  const found = forced.matches ? systemColours(resolve, owners) : {
    owners, ramp: many(STEPS, "ramp"), line: own("line-strong"), ghost: own("ghost"), surface: own("surface"),
    text: own("text"), accent: own("accent"), flash: own("own-5"),
  };
  probe.remove();
  return found;
}

/** Where the system has colours of its own, steps go from the ground to the text, as in grid.css; owners keep theirs. */
function systemColours(resolve, owners) {
  const [surface, text, accent, line] = ["Canvas", "CanvasText", "Highlight", "GrayText"].map(resolve);
  const step = (at) => resolve(`color-mix(in srgb, ${text} ${25 + (75 * at) / (STEPS - 1)}%, ${surface})`);
  return { owners, ramp: Array.from({ length: STEPS }, (_, at) => step(at)), line, ghost: line, surface, text, accent, flash: accent };
}

/** Empty pixels between two cells. */
export function gapOf(size) {
  return size > 12 ? 3 : size > 6 ? 2 : 1;
}

/** Draw a cell of `size` pixels with its corner at (x, y): {state, refs, colour, pale, pinned}; `colours` as above. */
export function drawCell(pen, colours, size, x, y, { state, refs, colour, pale, pinned }) {
  const w = size - gapOf(size);
  if (state === FREE) return drawFree(pen, colours, size, x, y, w);
  const inset = state !== CACHED ? 0 : w > 9 ? w * 0.13 : w > 4 ? 1 : 0.5;
  pen.globalAlpha = pale;
  pen.fillStyle = colour;
  if (w < ROUND) pen.fillRect(x + inset, y + inset, w - 2 * inset, w - 2 * inset);
  else { box(pen, x + inset, y + inset, w - 2 * inset); pen.fill(); }
  pen.globalAlpha = 1;
  if (pinned) drawPin(pen, colours, x, y, w);
  if (state < SHARED) return;
  cut(pen, colours, x, y, w, refs);
  if (w >= 12) drawNumber(pen, colours, x, y, w, refs);
}

/** How strong a block's colour is where it tells an owner: what nobody uses is pale. */
export function paleness(state, ours, size) {
  if (state >= ACTIVE) return 1;
  return (ours ? 0.42 : 0.55) + (size < 8 ? 0.25 : 0); // small cells look paler than they are
}

function box(pen, x, y, w) {
  pen.beginPath();
  if (w < ROUND) pen.rect(x, y, w, w);
  else pen.roundRect(x, y, w, w, Math.min(3, w / 4));
}

function drawFree(pen, colours, size, x, y, w) {
  pen.strokeStyle = colours.line;
  pen.globalAlpha = size > 6 ? 0.75 : 0.5;
  pen.lineWidth = 1;
  if (w < ROUND) pen.strokeRect(x + 0.5, y + 0.5, w - 1, w - 1);
  else { box(pen, x + 0.5, y + 0.5, w - 1); pen.stroke(); }
  pen.globalAlpha = 1;
}

function drawPin(pen, { text, surface }, x, y, w) {
  const side = Math.max(1.5, w / 3.4);
  pen.beginPath();
  pen.arc(x + w / 2, y + w / 2, side / 2 + (w > 9 ? 1 : 0), 0, 7);
  pen.fillStyle = surface;
  pen.fill();
  pen.beginPath();
  pen.arc(x + w / 2, y + w / 2, side / 2, 0, 7);
  pen.fillStyle = text;
  pen.fill();
}

/** One corner cut off for two references, two for more; larger cells are hatched and have a number beside. */
function cut(pen, { surface }, x, y, w, refs) {
  pen.save();
  pen.beginPath();
  if (w < 12) {
    const leg = Math.max(2, w * 0.6);
    corner(pen, x + w, y, -leg, leg);
    if (refs > 2) corner(pen, x, y + w, leg, -leg);
    pen.fillStyle = surface;
    pen.fill();
  } else {
    box(pen, x, y, w);
    pen.clip();
    pen.beginPath();
    pen.strokeStyle = surface;
    pen.globalAlpha = 0.55;
    pen.lineWidth = w / 8;
    for (let at = -w; at < w; at += w / 3) {
      pen.moveTo(x + at, y + w);
      pen.lineTo(x + at + w, y);
    }
    pen.stroke();
  }
  pen.restore();
}

function corner(pen, x, y, across, down) {
  pen.moveTo(x, y);
  pen.lineTo(x + across, y);
  pen.lineTo(x, y + down);
  pen.closePath();
}

function drawNumber(pen, { surface, text }, x, y, w, refs) {
  pen.beginPath();
  pen.arc(x + w / 2, y + w / 2, w / 2.9, 0, 7);
  pen.fillStyle = surface;
  pen.fill();
  pen.fillStyle = text;
  pen.font = `700 ${Math.round(w * 0.58)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(String(Math.min(refs, 99)), x + w / 2, y + w / 2 + 0.5);
}
