// Keys that work wherever the focus is: one table for the handler, the sheet and the tests. Single letters do nothing
// while somebody types, in a message where they are its own, and where the reader has turned them off.

import { ACTIONS } from "./action_names.js";
import { lettersAreOn } from "./letters.js";
import { MESSAGE_KEYS } from "./message_keys.js";
import { toggleTheme } from "./theme.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.userAgentData?.platform ?? navigator.platform);
const FIELDS = "input, textarea, select, [contenteditable=true]";
const MODIFIERS = ["Control", "Meta", "Alt", "Shift", "AltGraph"];
const SHOWN = { escape: "Esc", arrowup: "↑", arrowdown: "↓" };

/** {id, group, does, keys, run(page) -> false if there was nothing to do}. A key is a character or a name as browsers call
 * it; "mod+" is Ctrl, on a Mac ⌘. With "mod+" and Escape it works in fields too. */
export const KEYS = [
  { id: "new", group: "Chats", does: "New chat", keys: ["n", "mod+k"], run: (page) => page.create() },
  { id: "temporary", group: "Chats", does: "New temporary chat", keys: ["p"], run: (page) => page.create({ temporary: true }) },
  { id: "search", group: "Chats", does: "Search chats and messages", keys: ["/", "mod+shift+f"], run: search },
  { id: "previous-chat", group: "Chats", does: "The chat above in the list", keys: [","], run: (page) => stepChat(page, -1) },
  { id: "next-chat", group: "Chats", does: "The chat below in the list", keys: ["."], run: (page) => stepChat(page, 1) },
  { id: "write", group: "This chat", does: "Write a message", keys: ["m"], run: (page) => page.composer.focus() },
  { id: "stop", group: "This chat", does: "Stop the reply, or leave the field", keys: ["escape"], run: escape },
  { id: "regenerate", group: "This chat", does: `${ACTIONS.regenerate} the last reply`, keys: ["r"], run: (page) => last(page, "regenerate") },
  { id: "edit", group: "This chat", does: `${ACTIONS.edit} the last question`, keys: ["e"], run: (page) => page.turns.editLast() },
  { id: "copy", group: "This chat", does: `${ACTIONS.copy} the last reply`, keys: ["c"], run: (page) => last(page, "copy") },
  { id: "previous-version", group: "This chat", does: "The version before of the last reply", keys: ["<"], run: (page) => stepVersion(page, -1) },
  { id: "next-version", group: "This chat", does: "The version after of the last reply", keys: [">"], run: (page) => stepVersion(page, 1) },
  { id: "tree", group: "Page", does: "Tree of all branches", keys: ["t"], run: (page) => page.tree.toggle() },
  { id: "blocks", group: "Page", does: "KV blocks", keys: ["b"], run: (page) => page.layout.togglePanel() },
  { id: "sidebar", group: "Page", does: "List of chats", keys: ["s"], run: (page) => page.layout.toggleSidebar() },
  { id: "settings", group: "Page", does: "Settings", keys: ["o"], run: (page) => page.showSettings() },
  { id: "theme", group: "Page", does: "Light or dark", keys: ["d"], run: () => toggleTheme() },
  { id: "shortcuts", group: "Page", does: "These shortcuts", keys: ["?", "mod+/"], run: (page) => page.showShortcuts() },
];

/** How a key is called on this computer: "Ctrl K", on a Mac "⌘K". */
export function keyName(key) {
  const names = key.split("+").map((part) => ({ mod: MAC ? "⌘" : "Ctrl", shift: MAC ? "⇧" : "Shift" })[part] ?? SHOWN[part] ?? part.toUpperCase());
  return names.join(MAC ? "" : " ");
}

export function listenToKeys(page) {
  addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented || MODIFIERS.includes(event.key)) return;
    const pressed = nameOf(event);
    const row = pressed && KEYS.find(({ keys }) => keys.includes(pressed));
    if (row && mayAct(event, pressed, page) && row.run(page) !== false) event.preventDefault();
  });
}

/** "k", "?", "mod+k", "mod+shift+f": as in the table. AltGr belongs to the character that it makes. */
function nameOf(event) {
  const graph = event.getModifierState("AltGraph");
  const held = (event.ctrlKey || event.metaKey) && !graph;
  if (event.altKey && !graph) return null;
  const key = event.key.toLowerCase();
  if (!held) return key;
  return `mod+${event.shiftKey ? "shift+" : ""}${key}`;
}

function mayAct({ target, repeat }, pressed, page) {
  if (page.settings.isOpen || document.querySelector("#pc dialog[open]")) return false;
  if (pressed.startsWith("mod+")) return true;
  if (pressed === "escape") return !document.querySelector("#pc .menu-box");
  if (repeat || !lettersAreOn() || !(target instanceof Element) || target.closest(`${FIELDS}, [role=menu]`)) return false;
  return !(target.closest(".msg") && MESSAGE_KEYS.some(({ keys }) => keys.includes(pressed)));
}

/** One step out: a drawer, the running reply, the field that is written in. */
function escape(page) {
  if (page.layout.closeDrawers()) return true;
  if (page.chat.running) return void page.turns.stop();
  if (document.activeElement !== page.composer.field) return false;
  page.chat.log.focus({ preventScroll: true });
  return true;
}

function search(page) {
  page.layout.showSidebar();
  page.sidebar.search.focus();
}

/** Do with the last reply what its own button does. */
function last(page, name) {
  const { chat } = page;
  const id = chat.ids.findLast((one) => chat.items.get(one)?.role === "assistant");
  const message = id && chat.items.get(id);
  if (!message) return false;
  return page.messageActions.run(name, message, message.foot.querySelector(`[data-testid="${name}"]`));
}

/** Another version of the last message that has some. */
function stepVersion(page, step) {
  const { chat } = page;
  const id = chat.ids.findLast((one) => chat.items.get(one)?.siblings.length > 1);
  return id ? page.turns.step(chat.items.get(id), step) : false;
}

function stepChat(page, step) {
  const rows = page.sidebar.window.rows.filter((row) => row.chat);
  const at = rows.findIndex((row) => row.key === page.current);
  const to = rows[at < 0 ? 0 : at + step];
  if (!to) return false;
  page.open(to.key);
  page.sidebar.window.reveal(to.key);
  return true;
}
