// The whole tree on a narrow strip: a bar a message, indented by its branch; where the list stands; what was found.

import { framed, h } from "./dom.js";

const PITCH = 4; // pixels from bar to bar, where the tree is small enough
const STEP = 5; // pixels a branch is indented
const MOST_STEPS = 5;
const EDGE = 6;

export class TreeMap {
  /** `act` has: view() -> {from, to} places in the outline, scrollTo(place), jump(place), matches() -> places. */
  constructor(act) {
    this.act = act;
    this.canvas = h("canvas");
    this.bars = h("canvas"); // what changes only with the tree
    this.element = h("div.tree-map", { "aria-hidden": "true", "data-testid": "tree-map", title: "Click to go there" }, this.canvas);
    this.order = [];
    this.draw = framed(() => this.#draw());
    addEventListener("pagedchat:theme", () => { this.colours = null; this.redraw(); });
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.element.addEventListener("pointerdown", (event) => this.#grab(event));
  }

  set(order) {
    this.order = order;
    this.redraw();
  }

  /** Draw the bars anew, too. */
  redraw() {
    this.stale = true;
    this.draw();
  }

  get #pitch() {
    return Math.min(PITCH, (this.element.clientHeight - 2 * EDGE) / Math.max(1, this.order.length));
  }

  #grab(event) {
    if (event.button) return;
    event.preventDefault();
    const { element } = this;
    let moved = false;
    element.setPointerCapture(event.pointerId);
    const begun = event.clientY;
    const move = (now) => {
      if (!moved && Math.abs(now.clientY - begun) < 4) return;
      moved = true;
      this.act.scrollTo(this.#placeAt(now));
    };
    const done = (now) => {
      element.removeEventListener("pointermove", move);
      if (!moved && now.type === "pointerup") this.act.jump(this.#placeAt(now));
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", done, { once: true });
    element.addEventListener("pointercancel", done, { once: true });
  }

  #placeAt({ clientY }) {
    const y = clientY - this.element.getBoundingClientRect().top - EDGE;
    return Math.max(0, Math.min(this.order.length - 1, Math.floor(y / this.#pitch)));
  }

  #draw() {
    const { canvas, bars, element } = this;
    const [width, height, scale] = [element.clientWidth, element.clientHeight, devicePixelRatio || 1];
    if (!width || !height) return;
    if (this.stale) this.#drawBars(width, height, scale);
    const pen = sized(canvas, width, height, scale);
    pen.drawImage(bars, 0, 0, width, height);
    this.#frame(pen, this.#pitch, width, height);
  }

  #drawBars(width, height, scale) {
    const pen = sized(this.bars, width, height, scale);
    this.stale = false;
    this.colours ??= colours(this.element);
    const pitch = this.#pitch;
    const tall = Math.max(1, pitch >= 3 ? pitch - 1.5 : pitch);
    let [band, path] = [-1, null];
    for (const node of this.order) {
      const now = Math.floor(node.at * pitch);
      if (now === band && path === node.onPath) continue;
      [band, path] = [now, node.onPath];
      this.#bar(pen, node, EDGE + node.at * pitch, tall, width);
    }
    pen.fillStyle = this.colours.found;
    for (const place of this.act.matches()) pen.fillRect(width - 9, EDGE + place * pitch - 0.5, 9, Math.max(2, tall));
  }

  #bar(pen, node, y, tall, width) {
    const { colours: { path, side, question, failed } } = this;
    const x = EDGE + Math.min(node.depth, MOST_STEPS) * STEP;
    const room = width - EDGE - 8 - x;
    pen.fillStyle = node.status === "error" ? failed : node.onPath ? (node.role === "user" && tall >= 2 ? question : path) : side;
    pen.fillRect(x, y, Math.max(4, room * Math.min(1, Math.log2(1 + node.length) / 12)), tall);
  }

  #frame(pen, pitch, width, height) {
    const { from, to } = this.act.view();
    const top = EDGE + from * pitch - 3;
    const tall = Math.min(height - 1 - top, Math.max(10, (to - from + 1) * pitch + 4));
    pen.globalAlpha = 0.1;
    pen.fillStyle = this.colours.question;
    pen.strokeStyle = this.colours.frame;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.roundRect(1.5, Math.max(1, top), width - 3, tall, 4);
    pen.fill();
    pen.globalAlpha = 1;
    pen.stroke();
    Object.assign(this.element.dataset, { from, to });
  }
}

/** The empty canvas at this size, in CSS pixels. */
function sized(canvas, width, height, scale) {
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}

function colours(element) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(`--pc-${name}`).trim();
  return { path: of("accent"), question: of("text"), side: of("ghost"), failed: of("danger"), found: of("own-1"),
    frame: of("faint") };
}
