// Picking a block in the grid: by click, or by arrow keys while the grid has the focus. Enter shows what is known of it,
// Escape lets go.

import { count } from "./format.js";

export class GridPick {
  /** `panel` has: grid, tabs, picked, pick(block), onPick(listener). */
  constructor(panel) {
    this.panel = panel;
    const { canvas } = panel.grid;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "slider");
    canvas.dataset.testid = "kv-grid-cells";
    canvas.addEventListener("click", (event) => this.#click(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#tell());
    panel.onPick((block) => {
      panel.grid.setPicked(block);
      this.#tell();
    });
    this.#tell();
  }

  #click({ offsetX, offsetY }) {
    const { panel } = this;
    const block = panel.grid.blockAt(offsetX, offsetY);
    panel.pick(block === panel.picked ? null : block);
    if (panel.picked !== null) panel.tabs.choose("block");
  }

  #key(event) {
    const { panel } = this;
    const { columns, shown } = panel.grid;
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (panel.picked === null) return;
      event.stopPropagation();
      return panel.pick(null);
    }
    const at = panel.picked;
    if (event.key === "Enter" && at !== null) return panel.tabs.choose("block", { focus: true });
    const to = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns, ArrowDown: at + columns, Home: 0, End: shown - 1,
      PageUp: at - 8 * columns, PageDown: at + 8 * columns,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    panel.pick(at === null ? 0 : Math.max(0, Math.min(shown - 1, to)));
  }

  /** What a screen reader says of the picked block. */
  #tell() {
    const { grid, grid: { model }, picked } = this.panel;
    const { canvas } = grid;
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(Math.max(0, model.total - 1)));
    canvas.setAttribute("aria-valuenow", String(picked ?? 0));
    canvas.setAttribute("aria-valuetext", picked === null || !model.loaded
      ? `No block is picked; ${count(model.total)} blocks` : grid.wordsOf(picked));
  }
}
