// Which message Tab comes to, and where the focus goes when the message that had it is replaced by another version.

export class MessageFocus {
  /** `chat` has: log, ids, items, branch. */
  constructor(chat) {
    this.chat = chat;
    this.id = null;
  }

  /** Messages that can be reached: what is set aside below a branch is not. */
  get ids() {
    const aside = this.chat.branch.below(this.chat.ids);
    return aside.length ? this.chat.ids.slice(0, -aside.length) : this.chat.ids;
  }

  /** One message is a stop of the Tab key; the arrows go on from there. */
  make(id) {
    if (this.id !== id) this.#element(this.id)?.setAttribute("tabindex", "-1");
    this.id = id;
    this.#element(id)?.setAttribute("tabindex", "0");
    this.chat.log.tabIndex = id ? -1 : 0;
  }

  /** The branch has changed: keep the one that was current, or take the last. */
  mark() {
    const { ids } = this;
    for (const id of ids) this.#element(id).tabIndex = -1;
    this.make(ids.includes(this.id) ? this.id : ids.at(-1) ?? null);
  }

  #element(id) {
    return this.chat.items.get(id)?.element;
  }

  focus(id) {
    const element = this.#element(id);
    element?.focus({ preventScroll: true });
    element?.scrollIntoView({ block: "nearest" });
  }

  /** Where the focus is among the messages; null if it is elsewhere. */
  keep() {
    const { activeElement } = document;
    const element = activeElement?.closest?.("#pc-log .msg");
    const index = element ? this.chat.ids.indexOf(element.dataset.messageId) : -1;
    return index < 0 ? null : { element: activeElement, index, testid: activeElement === element ? null : activeElement.dataset.testid };
  }

  /** Bring back a focus that went with its message: to the same place in the branch, there to the same button. */
  restore(kept) {
    if (!kept || (kept.element.isConnected && document.activeElement === kept.element)) return;
    if (document.activeElement && document.activeElement !== document.body) return;
    const { ids } = this;
    const element = this.#element(ids[Math.min(kept.index, ids.length - 1)]);
    const button = kept.testid ? element?.querySelector(`[data-testid="${kept.testid}"]:not(:disabled)`) : null;
    (button ?? element)?.focus({ preventScroll: true });
  }

  /** Index of the message that an arrow key reaches first from the list itself. */
  indexInView(step) {
    const { ids } = this;
    const view = this.chat.log.getBoundingClientRect();
    const rows = ids.map((id) => this.#element(id).getBoundingClientRect());
    const down = rows.findIndex(({ bottom }) => bottom > view.top);
    const up = rows.findLastIndex(({ top }) => top < view.bottom);
    return Math.max(0, step > 0 ? down : up);
  }

  /** Whether a message goes on beyond the edge that a step leads to, so that an arrow key scrolls it first. */
  hasMore(element, step) {
    const view = this.chat.log.getBoundingClientRect();
    const { top, bottom } = element.getBoundingClientRect();
    return step > 0 ? bottom > view.bottom + 1 && top < view.bottom : top < view.top - 1 && bottom > view.top;
  }
}
