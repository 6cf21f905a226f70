// Keys of the messages. While one has the focus, single keys do what its buttons and its menu do; ENTRIES knows which.
// Letters do so unless the reader has turned them off.

import { ACTIONS } from "./action_names.js";
import { byId } from "./dom.js";
import { lettersAreOn } from "./letters.js";
import { ENTRIES } from "./message_actions.js";

const MOVES = [
  { keys: ["ArrowUp", "k"], shown: "↑ or K", does: "The message above", move: -1 },
  { keys: ["ArrowDown", "j"], shown: "↓ or J", does: "The message below", move: 1 },
  { keys: ["Home"], shown: "Home", does: "The first message", move: "first" },
  { keys: ["End"], shown: "End", does: "The last message", move: "last" },
  { keys: ["ArrowLeft"], shown: "←", does: "The version before", version: -1 },
  { keys: ["ArrowRight"], shown: "→", does: "The version after", version: 1 },
];
const LAST = [
  { keys: ["Enter", "m"], shown: "Enter or M", does: "All that can be done with it", menu: true },
  { keys: ["Escape"], shown: "Esc", does: "Back to the composer", leave: true },
];
const TYPED = "textarea, input, select, [contenteditable]";
const SAME = { d: ["Delete"] };
const WORDS = {
  copy: ACTIONS.copy, "stop-reply": ACTIONS.stop, "show-raw": "Show raw text",
};

/** Each key of a message: {keys, shown, does}, for the sheet of shortcuts too. */
export const MESSAGE_KEYS = [
  ...MOVES,
  ...ENTRIES.filter(({ key }) => key).map(({ name, key, label }) => ({
    keys: [key, ...(SAME[key] ?? [])], shown: [key.toUpperCase(), ...(SAME[key] ?? [])].join(" or "),
    does: WORDS[name] ?? (typeof label === "string" ? label : name), name,
  })),
  ...LAST,
];

export class MessageKeys {
  /** `page` has: chat, composer, messageActions, turns. */
  constructor(page) {
    this.page = page;
    this.log = page.chat.log;
    this.log.addEventListener("keydown", (event) => this.#key(event));
    this.log.addEventListener("focusin", ({ target }) => this.#reached(target.closest(".msg")));
    byId("pc-foot").addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !event.isComposing && page.turns.leaveBranch()) event.preventDefault();
    });
  }

  /** The message with the focus is the one that Tab comes back to. */
  #reached(element) {
    if (element) this.page.chat.focus.make(element.dataset.messageId);
  }

  #key(event) {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest(event.key === "Escape" ? TYPED : `${TYPED}, summary`)) return;
    const element = event.target.closest(".msg");
    const letter = event.key.length === 1;
    if (letter && !lettersAreOn()) return;
    const pressed = letter ? event.key.toLowerCase() : event.key;
    const key = MESSAGE_KEYS.find(({ keys }) => keys.includes(pressed));
    if (!key || (pressed === "Enter" && event.target !== element)) return;
    const done = key.move !== undefined ? this.#move(element, key.move, pressed) : this.#act(element, key);
    if (done) event.preventDefault();
  }

  #act(element, key) {
    const { chat, composer, messageActions, turns } = this.page;
    if (key.leave) {
      if (chat.running) return false; // Escape stops it
      composer.focus();
      return true;
    }
    const message = element && chat.items.get(element.dataset.messageId);
    if (!message || !document.activeElement.matches(":focus-visible")) return false; // not after a click: that is no wish to type keys
    if (key.version) return turns.step(message, key.version);
    if (key.menu) {
      message.openMenu();
      return true;
    }
    return messageActions.run(key.name, message, message.foot.querySelector(`[data-testid="${key.name}"]`));
  }

  /** To another message. A long one is read to its end first: the arrows scroll it. */
  #move(element, step, pressed) {
    const { chat } = this.page;
    const { focus } = chat;
    const { ids } = focus;
    if (!ids.length) return false;
    const at = element ? ids.indexOf(element.dataset.messageId) : -1;
    const to = step === "first" ? 0 : step === "last" ? ids.length - 1 : at < 0 ? focus.indexInView(step) : at + step;
    if (at >= 0 && pressed.startsWith("Arrow") && focus.hasMore(element, step)) return false;
    if (to < 0 && chat.older.isConnected) chat.older.click();
    if (ids[to]) focus.focus(ids[to]);
    return true;
  }
}
