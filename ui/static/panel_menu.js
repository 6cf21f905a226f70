// The menu of the KV panel: what can be done with the blocks as a whole. Other parts of the panel add their own entries.

import { confirmed } from "./dialog.js";
import { iconButton } from "./dom.js";
import { plural } from "./format.js";
import { openMenu } from "./menu.js";
import { complain, toast } from "./toasts.js";

export class PanelMenu {
  /** `panel` has: model, act.call(op, args), act.wayBack(), act.goBack(). */
  constructor(panel) {
    this.panel = panel;
    this.entries = [];
    this.button = iconButton("more", "What can be done with KV blocks", () => this.#show(), { "data-testid": "kv-menu", "aria-haspopup": "menu" });
    this.last = [
      { words: "Forget cached blocks…", icon: "trash", testid: "kv-forget", separate: true, run: () => this.forget() },
      { words: "Go back to what worked…", icon: "back", testid: "kv-rollback", fits: () => panel.act.wayBack(), run: () => this.goBack() },
    ];
  }

  /** An entry {words, run, icon, testid}, in the order in which they are added; it is there where `fits()`, if given, says so. */
  add(...entries) {
    this.entries.push(...entries);
  }

  /** An entry before all others. */
  lead(entry) {
    this.entries.unshift(entry);
  }

  #show() {
    const choices = [...this.entries, ...this.last].filter(({ fits }) => !fits || fits());
    openMenu(this.button, choices.map(({ words, ...choice }) => ({ ...choice, label: words })), { label: "KV blocks" });
  }

  async forget() {
    const { model, act } = this.panel;
    const cached = plural(model.totals.cached, "block");
    const words = `Cached now: ${cached}. Nothing in the chats is lost, but each chat computes its whole prompt anew at its next message, and what is pinned has to be pinned again.`;
    if (!(await confirmed("Forget cached blocks?", words, "Forget them"))) return;
    try {
      const { blocks } = await act.call("kv_forget", {});
      toast(blocks ? `${plural(blocks, "cached block")} forgotten.` : "No block was cached.");
    } catch (error) {
      complain(error);
    }
  }

  async goBack() {
    const words = "The engine starts again with the configuration that last answered; replies that run now end where they are. Chats stay as they are.";
    if (await confirmed("Go back to what worked?", words, "Go back", { danger: false })) await this.panel.act.goBack();
  }
}
