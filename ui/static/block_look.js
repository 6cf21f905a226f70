// What the server knows of the block that is picked: asked for when it is picked, and anew when something happens to it.

import { throttled } from "./dom.js";

const REST_MS = 700; // between two questions about the same block

export class BlockLook {
  /** `panel` has: act.call(op, args), branch (its table), onPick(listener). */
  constructor(panel) {
    this.panel = panel;
    this.block = null;
    this.detail = null; // see kv_block in block_calls.py
    this.problem = "";
    this.turn = 0;
    this.listeners = [];
    this.again = throttled(REST_MS, () => this.#ask());
    panel.onPick((block) => this.#pick(block));
  }

  /** Call `listener(look)` whenever something else is known. */
  onChange(listener) {
    this.listeners.push(listener);
  }

  /** Something has happened to these blocks. */
  touched(blocks) {
    if (this.block !== null && blocks.includes(this.block)) this.again();
  }

  /** The pool is another one, or many events were missed. */
  poolTold() {
    if (this.block !== null) this.again();
  }

  /** The block table has other rows than before. */
  tableTold(rows) {
    const row = this.#rowIn(rows);
    if (this.block !== null && row !== this.row) this.again();
    this.row = row;
  }

  #rowIn(rows) {
    const row = rows.find(({ physical }) => physical === this.block);
    return row ? `${row.logical} ${row.cached} ${row.count}` : null;
  }

  #pick(block) {
    this.block = block;
    this.detail = null;
    this.problem = "";
    this.row = this.#rowIn(this.panel.branch.table.rows);
    this.turn++;
    this.#tell();
    if (block !== null) this.#ask();
  }

  async #ask() {
    const { block } = this;
    const turn = ++this.turn;
    if (block === null) return;
    try {
      const detail = await this.panel.act.call("kv_block", { block });
      if (turn !== this.turn) return;
      Object.assign(this, { detail, problem: "" });
    } catch (error) {
      if (turn !== this.turn) return;
      this.problem = error.message;
    }
    this.#tell();
  }

  #tell() {
    for (const listener of this.listeners) listener(this);
  }
}
