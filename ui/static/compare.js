// Two to four branches side by side: their paragraphs in rows, what differs marked, what each came to be from.

import { aligned } from "./align.js";
import { headCell, paragraphRow, turnRow } from "./compare_cells.js";
import { showDialog } from "./dialog.js";
import { h, icon, iconButton } from "./dom.js";
import { count, plural } from "./format.js";
import { lettersAreOn } from "./letters.js";

const MOST = 4;
const FOLDED = 3; // rows that are the same in all and worth a fold
const MOST_SAID = 90; // characters of a difference that are read out
const NAMES = { user: "You", assistant: "Reply", system: "System", tool: "Tool" };

/** `ids` are compared at first, `choices` can be; `follow`: with what follows them; `names` of ids that have one.
 * `act` has: ask(ids, follow) -> promise of {branches}, select(id) -> promise. */
export function showCompare(ids, { choices = ids, follow = false, names = {} }, act) {
  const comparison = new Comparison(ids, choices, follow, names, act);
  return showDialog("Compare", (close) => comparison.content(close), { wide: true, testid: "compare" });
}

class Comparison {
  constructor(ids, choices, follow, names, act) {
    Object.assign(this, { ids: [...ids], choices, follow, names, act, plain: false, at: -1, stops: [] });
    this.versions = choices.length > ids.length || !follow;
  }

  content(close) {
    this.close = close;
    this.table = h("div.compare", { role: "table", "aria-label": "Branches side by side", tabIndex: 0 });
    this.said = h("span.said", { role: "status", "data-testid": "compare-said" });
    this.head = h("div.compare-head");
    this.load();
    queueMicrotask(() => this.head.closest("dialog").addEventListener("keydown", (event) => this.#key(event)));
    return [this.head, this.table];
  }

  async load() {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.#drawHead();
    try {
      const { branches } = await this.act.ask(this.ids, this.follow);
      if (turn !== this.turn) return;
      this.branches = branches;
      this.draw();
    } catch (error) {
      if (turn === this.turn) this.table.replaceChildren(h("p.problem", { role: "alert" }, error.message));
    }
  }

  // -- what is above ------------------------------------------------------------------------------------------------

  #drawHead() {
    const pressed = (label, on, run, testid) => h("button", { type: "button", "aria-pressed": String(on), onclick: run, "data-testid": testid }, label);
    const form = (plain) => { this.plain = plain; this.#drawHead(); this.draw(); };
    const rest = this.choices.filter((id) => !this.ids.includes(id));
    const parts = [
      h("span.choice", { role: "group", "aria-label": "Text" },
        pressed("Formatted", !this.plain, () => form(false), "compare-formatted"), pressed("As written", this.plain, () => form(true), "compare-plain")),
      this.versions && h("span.choice", {}, pressed("With what follows", this.follow,
        () => { this.follow = !this.follow; this.load(); }, "compare-follow")),
      rest.length && this.ids.length < MOST ? h("button.quiet", { type: "button", "data-testid": "compare-add",
        onclick: () => this.#add(rest[0]) }, icon("plus"), "Add a version") : null,
      this.said,
      h("span.steps", {}, iconButton("up", "Previous difference (P)", () => this.step(-1), { "data-testid": "compare-prev" }),
        iconButton("down", "Next difference (N)", () => this.step(1), { "data-testid": "compare-next", "data-first": "" }))];
    const focused = this.head.contains(document.activeElement) || this.table.contains(document.activeElement);
    const { testid } = document.activeElement.dataset;
    this.head.replaceChildren(...parts.filter(Boolean));
    if (focused) (this.head.querySelector(`[data-testid="${testid}"]`) ?? this.head.querySelector("[data-first]")).focus();
  }

  #add(id) {
    this.ids = this.choices.filter((one) => one === id || this.ids.includes(one));
    this.load();
  }

  #versionChoice(at) {
    const [first] = this.branches[at].messages;
    const named = (id) => `Version ${first.siblings.indexOf(id) + 1} of ${first.siblings.length}`;
    if (this.choices.length <= this.ids.length) {
      return h("b", {}, this.names[this.ids[at]] ?? (first.siblings.length > 1 && this.versions ? named(this.ids[at]) : `Branch ${at + 1}`));
    }
    const select = h("select", { "aria-label": `Version in column ${at + 1}`, onchange: () => {
      const before = this.ids.indexOf(select.value);
      if (before >= 0) this.ids[before] = this.ids[at];
      this.ids[at] = select.value;
      this.load();
    } }, ...this.choices.map((id) => h("option", { value: id }, named(id))));
    select.value = this.ids[at];
    return select;
  }

  // -- the columns --------------------------------------------------------------------------------------------------

  draw() {
    if (!this.branches) return;
    this.table.style.setProperty("--columns", this.branches.length);
    const rows = this.#turns().flatMap((turn) => this.#turn(turn));
    const runs = this.branches.map(({ messages }) => messages.find((one) => one.generation)?.generation ?? null);
    const heads = this.branches.map(({ messages }, at) => headCell(this.#versionChoice(at), messages[0], runs[at], runs, {
      select: async () => { await this.act.select(this.ids[at]); this.close(); },
      remove: this.branches.length > 2 ? () => { this.ids.splice(at, 1); this.load(); } : null,
    }));
    this.table.replaceChildren(h("div.compare-row.heads", { role: "row" }, ...heads), ...this.#folded(rows).map(({ element }) => element));
    for (const { more } of this.branches) if (more) this.table.append(h("p.hint", {}, `${plural(more, "further message")} of a branch left out.`));
    this.#collect(rows);
  }

  /** The messages of all branches that come at the same place. */
  #turns() {
    const longest = Math.max(...this.branches.map(({ messages }) => messages.length));
    return Array.from({ length: longest }, (_, at) => this.branches.map(({ messages }) => messages[at] ?? null));
  }

  #turn(messages) {
    const rows = aligned(messages.map((message) => message?.blocks ?? [])).map((cells) =>
      paragraphRow(cells, this.plain, messages.map(Boolean)));
    const single = this.branches.every((one) => one.messages.length === 1);
    if (!single) rows.unshift({ element: turnRow(messages.map((one) => one && (one.kind === "summary" ? "Summary" : NAMES[one.role]))), stops: [] });
    return rows;
  }

  /** Long runs that are the same in all columns, behind a line that unfolds them. */
  #folded(rows) {
    const shown = [];
    for (let at = 0; at < rows.length;) {
      let end = at;
      while (end < rows.length && rows[end].same) end++;
      if (end - at < FOLDED) end = Math.max(end, at + 1);
      else {
        shown.push(fold(rows.slice(at, end)));
        at = end;
        continue;
      }
      shown.push(...rows.slice(at, end));
      at = end;
    }
    return shown;
  }

  // -- from difference to difference --------------------------------------------------------------------------------

  #collect(rows) {
    this.stops = rows.flatMap((row) => row.stops);
    this.at = -1;
    this.said.textContent = !this.stops.length ? "All say the same." : plural(this.stops.length, "difference");
  }

  step(by) {
    const { stops } = this;
    if (!stops.length) return;
    for (const mark of stops[this.at]?.marks ?? []) mark.classList.remove("now");
    this.at = (this.at + by + stops.length + (this.at < 0 && by < 0 ? 1 : 0)) % stops.length;
    const { marks, texts } = stops[this.at];
    for (const mark of marks) mark.classList.add("now");
    marks[0].scrollIntoView({ block: "center" });
    this.said.replaceChildren(`${count(this.at + 1)} of ${count(stops.length)}`,
      h("span.unseen", {}, texts.map(([column, text]) => `. Column ${column + 1}: ${text.slice(0, MOST_SAID) || "nothing"}`).join("")));
  }

  #key(event) {
    if (!lettersAreOn() || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input")) return;
    const by = { n: 1, p: -1 }[event.key.toLowerCase()];
    if (!by) return;
    event.preventDefault();
    this.step(by);
  }
}

function fold(rows) {
  const line = h("div.compare-row.same-fold", { role: "row" }, h("div", { role: "cell" }, h("button", { type: "button", "data-testid": "compare-unfold",
    onclick: () => { line.replaceWith(...rows.map(({ element }) => element)); } },
  icon("unfold", 14), `${plural(rows.length, "paragraph")} the same`)));
  return { element: line, stops: [] };
}
