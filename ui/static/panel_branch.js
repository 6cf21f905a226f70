// The branch that the chat shows, in the panel: its block table, the messages that the table's rows hold, and its blocks in
// the grid.

import { h } from "./dom.js";
import { BranchParts } from "./branch_parts.js";
import { BlockTable } from "./table.js";

export class PanelBranch {
  /** `panel` has: act, feed, grid, replay, look, tabs, model, pick(block), onPick(listener), redraw(). */
  constructor(panel) {
    const { act, grid } = panel;
    this.panel = panel;
    this.end = null; // the message that it ends with; null: as the chat shows it
    this.table = new BlockTable({
      hover: (blocks) => grid.mark(blocks.length ? blocks : this.table.run), pick: (block) => panel.pick(block),
    }, act.titleOf, act.hueOf);
    this.table.element.prepend(h("p.none.not-now", {}, "The block table of this branch is known of now only."));
    this.parts = new BranchParts(this.table, act);
    panel.onPick((block) => this.table.pick(block));
  }

  /** The table is to end with this message; null: with the shown branch. */
  endAt(message) {
    if (message === this.end) return;
    this.end = message;
    this.wait();
    this.panel.act.call("kv_end", { message }).catch(() => {});
  }

  /** Another branch is shown from now on: what the table has is of the one before. */
  wait() {
    if (this.panel.feed.following) this.table.wait();
  }

  /** The table as the server tells it: rows that have changed. */
  take({ rows, total, fresh, block_size: blockSize, session, end }) {
    const { panel } = this;
    if (session !== panel.act.session() || end !== this.end) return;
    this.table.take(rows, total, fresh, blockSize, session);
    this.parts.update(this.end);
    panel.look.tableTold(this.table.rows);
    this.told?.();
    this.show();
    panel.redraw();
  }

  /** No chat is shown. */
  clear() {
    this.table.take([], 0, true, this.panel.model.blockSize, null);
    this.show();
    this.panel.redraw();
  }

  /** Show its blocks in the grid. They are known of now only: in the past those that have held the same ever since. */
  show() {
    const { table, panel: { grid, replay } } = this;
    if (replay.live) return grid.setBranch(table.physical, table.session, table.held);
    const same = replay.recording ? [] : table.physical.filter((block) => replay.recorder.isSame(block, replay.place));
    grid.setBranch(same, table.session);
  }

  /** Mark all blocks of a message, and pick the first; false where none of them is in the pool. `later`: the table is on
   * its way. */
  async showMessage(id, later = false) {
    if (later) await new Promise((told) => { this.told = told; });
    const { panel, table } = this;
    const rows = await this.parts.rowsOf(id);
    const held = rows ? table.rows.slice(rows[0], rows[1] + 1).map(({ physical }) => physical).filter((block) => block !== null) : [];
    if (!held.length) return false;
    panel.tabs.choose("table");
    panel.pick(held[0]);
    table.markRows(held);
    panel.grid.mark(held);
    return true;
  }
}
