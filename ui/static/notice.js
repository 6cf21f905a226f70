// The line above a chat that is not like the others: one that was deleted elsewhere, or one that is not kept.

import { byId, h, icon } from "./dom.js";

export class Notice {
  /** `act` has: restore(), leave(). */
  constructor(act) {
    this.act = act;
    this.element = byId("pc-notice");
  }

  /** Whether the chat is not there any more. */
  get gone() {
    return this.kind === "deleted" || this.kind === "purged";
  }

  /** `kind`: "deleted", "purged", "temporary", or null for none. */
  show(kind) {
    if (kind === this.kind) return;
    this.kind = kind;
    const { act, element } = this;
    const link = (words, onclick, testid) => h("button.link", { type: "button", onclick, "data-testid": testid }, words);
    element.hidden = !kind;
    element.dataset.state = kind ?? "";
    element.replaceChildren(...({
      deleted: [icon("warn"), h("span.words", {}, h("b", {}, "This chat was deleted in another window."), " It is in the trash."),
        link("Undo", act.restore, "restore-here"), link("Close", act.leave)],
      purged: [icon("warn"), h("span.words", {}, h("b", {}, "This chat was deleted forever in another window.")),
        link("Close", act.leave)],
      temporary: [icon("ghost"), h("span.words", {}, h("b", {}, "Temporary chat."), " It is not in the list and gone when you leave it."),
        link("End it", act.leave, "end-temporary")],
    }[kind] ?? []));
  }
}
