// Which message each row of the block table holds. Asked for when the branch has messages that are not known yet.

export class BranchParts {
  /** `table` is a BlockTable; `act` has: call(op, args), session(), last(): the id of the last message that is shown. */
  constructor(table, act) {
    Object.assign(this, { table, act });
    this.parts = []; // {message, name, first, end}, in tokens
    this.key = null; // the branch that they are of
    this.told = 0; // its tokens when they were asked for
    this.asking = null;
  }

  /** The table has other rows than before; `end` is the message that its branch ends with, null for the last one. */
  update(end) {
    this.end = end;
    const last = this.table.rows.at(-1);
    const tokens = last ? last.logical * this.table.blockSize + last.tokens : 0;
    const complete = this.#key === this.key && this.parts.at(-1)?.message === this.#last;
    if (complete && this.table.parts !== this.parts) this.table.setParts(this.parts);
    if (complete) this.#grow(tokens);
    else if (tokens && (this.#key !== this.key || tokens !== this.told)) this.#ask(tokens);
  }

  get #last() {
    return this.end ?? this.act.last();
  }

  get #key() {
    return `${this.act.session()} ${this.#last}`;
  }

  /** A reply that is being written grows. */
  #grow(tokens) {
    const last = this.parts.at(-1);
    if (tokens <= last.end) return;
    const from = Math.floor(last.end / this.table.blockSize);
    last.end = tokens;
    this.table.setParts(this.parts, from);
  }

  #ask(tokens) {
    this.asking ??= this.#take(this.#key, tokens).then((told) => {
      this.asking = null;
      if (told) this.update(this.end); // there may be more by now
    });
    return this.asking;
  }

  /** Whether the answer was of this branch; if not, the next table asks again. */
  async #take(key, tokens) {
    const { session, end, parts } = await this.act.call("kv_parts", {}).catch(() => ({}));
    if (!parts || session !== this.act.session() || end !== this.end) return false;
    Object.assign(this, { parts, key, told: tokens });
    this.table.setParts(parts);
    return true;
  }

  /** First and last row that hold a message; null where nobody can tell. */
  async rowsOf(message) {
    const find = () => this.parts.find((one) => one.message === message);
    if (!find()) await this.#ask(this.told);
    const part = find();
    const size = this.table.blockSize;
    return part ? [Math.floor(part.first / size), Math.floor((part.end - 1) / size)] : null;
  }
}
