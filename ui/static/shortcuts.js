// The sheet of shortcuts: everything that the tables of keys know, over the page or in the settings.

import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { keyName, KEYS } from "./keys.js";
import { lettersAreOn, setLetters } from "./letters.js";
import { MESSAGE_KEYS } from "./message_keys.js";

const WRITING = [["Enter", "Send"], ["Shift Enter", "A new line"], ["↑", "In an empty field: edit the last question"], ["/", "In an empty field: commands"]];
const LIST = [["↑ ↓", "Another chat"], ["Home End", "The first or the last"], ["→ or Shift F10", "Its menu"], ["F2", "Rename it"],
  ["Delete", "Put it into the trash"], ["Space", "Choose it, with Shift ↑ ↓ several"]];

const IN_A_MESSAGE = "Esc, then ↑, goes to a message. There these keys act on it, and not as they do elsewhere.";

export function showShortcuts() {
  return showDialog("Shortcuts", () => [h("div.shortcut-sheet", {}, ...shortcutList())], { testid: "shortcuts", wide: true });
}

/** Groups of keys, and the switch for single letters. */
export function shortcutList() {
  const groups = grouped(KEYS);
  const choice = h("input", { type: "checkbox", checked: lettersAreOn(), "data-testid": "letters" });
  choice.addEventListener("change", () => setLetters(choice.checked));
  return [
    h("label.letters", {}, choice, h("span", {}, "Single letters do something while I am not typing")),
    h("div.shortcut-groups", {},
      ...[...groups].map(([name, rows]) => group(name, rows.map(({ keys, does }) => [keys.map(keyName), does]))),
      group("In a message", MESSAGE_KEYS.map(({ shown, does }) => [[shown], does]), IN_A_MESSAGE),
      group("While writing", WRITING.map(([key, does]) => [[key], does])),
      group("In the list of chats", LIST.map(([key, does]) => [[key], does]))),
  ];
}

function group(name, rows, note = null) {
  return h("section", {}, h("h3", {}, name), note && h("p.scope", {}, note), h("dl", {}, ...rows.map(([keys, does]) =>
    h("div", {}, h("dt", {}, does), h("dd", {}, ...keys.map((key) => h("kbd", {}, key)))))));
}

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.group, [...(found.get(row.group) ?? []), row]);
  return found;
}
