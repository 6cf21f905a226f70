// Chats from files: choose them, send each to the server, and read what became of it.

import { showDialog } from "./dialog.js";
import { h } from "./dom.js";

const ROUTE = "/api/sessions/import";
const KINDS = ".json,.jsonl,.zip,.txt";

const MOST_TOLD = 20; // repeated titles that are named; of more there is a number

/** Let the reader choose files; `open(id)` shows the first chat that came, `known` are the titles of the chats in the list. */
export function importFiles(open, known) {
  const field = h("input", { type: "file", multiple: true, accept: KINDS, hidden: true, "data-testid": "import-files" });
  field.addEventListener("change", () => { field.remove(); if (field.files.length) report([...field.files], open, new Set(known)); });
  field.addEventListener("cancel", () => field.remove());
  document.body.append(field);
  field.click();
}

function report(files, open, known) {
  const list = h("ul.import-list", { "aria-live": "polite" }, ...files.map((file) => h("li", {}, h("b", {}, file.name), h("span", {}, "…"))));
  let first = null;
  const work = files.reduce(async (before, file, at) => {
    await before;
    const [words, id] = await send(file, known);
    first ??= id;
    list.children[at].replaceChildren(h("b", {}, file.name), ...words);
  }, Promise.resolve());
  return showDialog("Import", (close) => {
    const done = h("button.primary", { type: "button", "data-first": "", onclick: () => { close(); if (first) open(first); } }, "Close");
    work.then(() => { if (first) done.textContent = "Show the first"; });
    return [list, h("div.dialog-row", {}, done)];
  }, { testid: "import-report" });
}

async function send(file, known) {
  try {
    const answer = await fetch(`${ROUTE}?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } });
    const said = await answer.json();
    if (!answer.ok) return [[h("span.problem", {}, said.error?.message ?? said.detail ?? "The file could not be read.")], null];
    return [told(said, known), said.chats?.[0]?.id ?? null];
  } catch {
    return [[h("span.problem", {}, "The file could not be sent; is pagedchat still running?")], null];
  }
}

/** The report of one file: a sentence, then what was left out or mended. */
function told({ summary, skipped = [], notes = [], chats = [] }, known) {
  const details = [...notes, ...repeated(chats, known), ...skipped.map(({ chat, reason }) => `${chat}: ${reason}`),
    ...chats.flatMap(({ title, repairs }) => repairs.map((one) => `${title}: ${one}`))];
  const words = [h("span", {}, summary)];
  if (details.length) words.push(h("ul", {}, ...details.map((one) => h("li", {}, one))));
  return words;
}

/** Titles that other chats have too; all of this file's are known from now on. */
function repeated(chats, known) {
  const twice = [];
  for (const { title } of chats) {
    if (title && known.has(title)) twice.push(title);
    known.add(title);
  }
  const told = [...new Set(twice)].map((title) => `${title}: another chat has this title too`);
  return told.length > MOST_TOLD ? [`${told.length} chats have titles that other chats have too`] : told;
}
