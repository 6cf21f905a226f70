// One row of the outline as an element: a message in a line, or a fold.

import { h, icon, iconButton } from "./dom.js";
import { plural, STATES } from "./format.js";

const WHO = { user: "You", assistant: "Reply", system: "System prompt", tool: "Tool" };
const ICONS = { user: "you", assistant: "reply", system: "tune", tool: "tune" };

/** The element of a row. `look`: {usual, found, chosen, here, words, rate}; `act`: toggle(row), show(row), menu(row, button). */
export function rowElement(row, look, act) {
  return row.fold ? foldElement(row, look, act) : messageElement(row, look, act);
}

/** Equal for rows that look the same. */
export function rowStamp(row, look) {
  const { node } = row;
  const place = [row.depth, row.level, row.place, row.parent.count, look.here === row.key, look.trunk];
  if (!node) return [...place, row.open, row.messages, row.nodes.length, look.found].join("|");
  return [...place, node.text, node.status, node.kind, node.version, node.parent.children.length, node.onPath,
    node.model === look.usual, look.found, look.words, look.chosen, look.rate, look.head].join("|");
}

function shell(row, look, act, properties, ...parts) {
  return h("div.tree-row", {
    role: "treeitem", id: rowId(row.key), "aria-level": String(row.level), "aria-posinset": String(row.place),
    "aria-setsize": String(row.parent.count), "data-testid": "tree-row", "data-depth": String(row.depth),
    "data-here": String(look.here === row.key), "data-trunk": String(look.trunk), style: `--depth: ${Math.min(row.depth, 9)}`, onclick: () => act.show(row),
    ...properties,
  }, ...parts);
}

export function rowId(key) {
  return `pc-tree-${key.replaceAll(" ", "-")}`;
}

function messageElement(row, look, act) {
  const { node } = row;
  const versions = node.parent.children.length;
  const who = node.kind === "summary" ? "Summary" : WHO[node.role];
  const said = [who, node.text || "no text yet", versions > 1 && `version ${node.version} of ${versions}`, STATES[node.status],
    look.head && "end of the shown branch", row.depth === 0 || "on another branch", moment(node.time)];
  const more = iconButton("more", "More", (event) => { event.stopPropagation(); act.menu(row, more); },
    { tabIndex: -1, "data-testid": "tree-menu", "aria-haspopup": "menu" });
  return shell(row, look, act, {
    "aria-label": said.filter((one) => typeof one === "string").join(", "), "aria-selected": String(look.chosen),
    "aria-current": look.head ? "true" : null, "data-message": node.id, "data-role": node.kind ?? node.role,
    "data-shown": String(node.onPath), "data-found": String(look.found), title: node.text,
  },
  h("span.who", {}, look.chosen ? icon("check", 14) : icon(node.kind === "summary" ? "archive" : ICONS[node.role], 14)),
  h("span.words", {}, ...marked(node.text || (node.status === "streaming" ? "…" : "(no text)"), look.words)),
  node.model && node.model !== look.usual ? h("span.model-name", { title: node.model }, short(node.model)) : null,
  statusMark(node, look), versions > 1 ? h("span.version", {}, `${node.version}/${versions}`) : null,
  look.head ? h("span.head-mark", { title: "The shown branch ends here" }, "shown") : null,
  h("time", {}, moment(node.time)), more);
}

function statusMark({ status }, { rate }) {
  if (status === "streaming") return h("span.live", { title: "Being written" }, rate || "");
  if (status === "done") return null;
  return h("span.ended", { "data-status": status, title: STATES[status] },
    status === "stopped" ? h("i") : icon("warn", 13), h("span", {}, STATES[status]));
}

function foldElement(row, look, act) {
  const words = foldWords(row);
  return shell(row, look, act, {
    class: "tree-row fold", "aria-expanded": String(row.open), "aria-label": words, "data-fold": row.fold,
  },
  h("span.who", {}, icon(row.open ? "down-small" : "right", 13)), h("span.words", {}, words,
    row.open || row.fold === "versions" ? null : h("small", {}, hint(row))),
  look.found ? h("span.version.found", {}, `${look.found} found`) : null);
}

/** What a fold says that it holds. */
export function foldWords({ fold, nodes, messages }) {
  if (fold !== "versions") return plural(messages, "message");
  const versions = `${plural(nodes.length, "other version")}`;
  return messages > nodes.length ? `${versions}, ${plural(messages, "message")}` : versions;
}

/** How the first question in a fold begins. */
function hint({ nodes }) {
  return (nodes.find((node) => node.role === "user") ?? nodes[0]).text;
}

/** The pieces of a text, the words that were looked for marked. */
function marked(text, words) {
  if (!words) return [text];
  const wanted = words.split(/\s+/).filter(Boolean).map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`(${wanted.join("|")})`, "i")).map((piece, at) => (at % 2 ? h("mark", {}, piece) : piece));
}

/** A model's name without its folder and file type. */
function short(model) {
  return model.split(/[/\\]/).at(-1).replace(/\.gguf$/i, "");
}

/** The hour of today, else the day. */
function moment(seconds) {
  if (!seconds) return "";
  const [time, today] = [new Date(seconds * 1000), new Date()];
  if (time.toDateString() === today.toDateString()) return time.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  const year = time.getFullYear() === today.getFullYear() ? {} : { year: "numeric" };
  return time.toLocaleDateString(undefined, { day: "numeric", month: "short", ...year });
}
