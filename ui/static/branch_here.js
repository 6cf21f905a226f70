// "Branch from here": the next message goes under a reply further up. What follows it is set aside until then; the
// server knows nothing of it before the message is sent.

import { h, icon } from "./dom.js";
import { plural } from "./format.js";

export class BranchHere {
  /** `left()` is called when the reader goes back. */
  constructor(left) {
    this.id = null;
    this.bar = h("div.branch-here", { role: "status", "data-testid": "branch-place" }, icon("branch"), h("span"),
      h("button.link", { type: "button", onclick: () => left() }, "Back"));
  }

  get on() {
    return this.id !== null;
  }

  /** Messages below `id` are out of the way from now on. */
  begin(id, ids) {
    this.id = id;
    this.next = ids[ids.indexOf(id) + 1] ?? null;
  }

  end() {
    this.id = this.next = null;
  }

  /** Keep to it while the branch stays as it was there; returns false if it has changed and there is no such place now. */
  still(ids) {
    const at = ids.indexOf(this.id);
    return at >= 0 && (ids[at + 1] ?? null) === this.next;
  }

  /** The messages of `ids` that are set aside. */
  below(ids) {
    return this.on ? ids.slice(ids.indexOf(this.id) + 1) : [];
  }

  say(role, aside) {
    const place = role === "assistant" ? "reply" : "message";
    const words = `Your message goes under this ${place}.${aside ? ` ${plural(aside, "message")} below ${aside === 1 ? "stays" : "stay"} in the other branch.` : ""}`;
    const line = this.bar.children[1];
    if (line.textContent !== words) line.textContent = words;
    return this.bar;
  }
}
