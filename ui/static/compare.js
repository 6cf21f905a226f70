// Two versions of a message side by side, each with what followed it; words that only one of them has are marked.

import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { differingWords } from "./words.js";

const FENCE = /((?:^|\n)[ \t]*```[^\s`]*)/;
const NAMES = { user: "You", assistant: "Reply", system: "System", tool: "Tool" };

/** `ask(a, b)` fetches {common, a, b}; `ids` are the versions that can be chosen, `first` and `second` those at first. */
export function showCompare(ids, first, second, ask) {
  return showDialog("Compare", () => {
    const place = h("div.compare");
    const choose = async () => {
      const [a, b] = [left.value, right.value];
      place.replaceChildren(h("p.none", {}, "…"));
      try {
        const found = await ask(a, b);
        if (a === left.value && b === right.value) place.replaceChildren(...columns(found, a, b, ids));
      } catch (error) {
        place.replaceChildren(h("p.problem", {}, error.message));
      }
    };
    const left = chooser("Version on the left", ids, first, choose);
    const right = chooser("Version on the right", ids, second, choose);
    choose();
    return [h("div.compare-head", {}, left, right), place];
  }, { wide: true, testid: "compare" });
}

function chooser(label, ids, chosen, changed) {
  const element = h("select", { "aria-label": label, onchange: changed },
    ...ids.map((id, at) => h("option", { value: id }, `Version ${at + 1} of ${ids.length}`)));
  element.value = chosen;
  return element;
}

function columns({ a, b }, leftId, rightId, ids) {
  const rows = Math.max(a.length, b.length);
  const [left, right] = [[], []];
  let same = true;
  for (let at = 0; at < rows; at++) {
    const [wordsLeft, wordsRight] = differingWords(a[at]?.content ?? "", b[at]?.content ?? "");
    same &&= [...wordsLeft, ...wordsRight].every(([, differs]) => !differs);
    if (a[at]) left.push(piece(a[at], wordsLeft));
    if (b[at]) right.push(piece(b[at], wordsRight));
  }
  const column = (id, pieces) => h("section", { tabIndex: 0, "aria-label": `Version ${ids.indexOf(id) + 1}` }, ...pieces);
  const words = same ? "Both say the same." : "Words that only one of them has are marked.";
  return [h("p.hint", { role: "status" }, words), column(leftId, left), column(rightId, right)];
}

function piece(message, words) {
  return h("div.piece", {}, h("h3", {}, NAMES[message.role] ?? message.role),
    h("p", {}, ...withCode(words)));
}

/** The words, what stands between fences as code. */
function withCode(words) {
  let code = false;
  return words.flatMap(([text, differs]) => text.split(FENCE).flatMap((part, at) => {
    if (at % 2) { code = !code; return []; }
    const shown = differs && part.trim() ? marked(part) : [part];
    return code && part ? [h("code", {}, ...shown)] : shown;
  }));
}

/** Blanks before the first word stay unmarked. */
function marked(text) {
  const word = text.trimStart();
  return [text.slice(0, text.length - word.length), h("mark", {}, word)];
}
