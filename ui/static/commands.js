// The commands of the composer. Each does what it says with the page; where it cannot, it returns a sentence.

import { ACTIONS } from "./action_names.js";
import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { openMenu } from "./menu.js";
import { toast } from "./toasts.js";

const MOST_REPLIES = 8;

/** {name, takes: what may follow, needs: whether it must, about, run(page, rest) -> nothing, or why it was not done}. */
export const COMMANDS = [
  { name: "new", about: "Begin a new chat", run: (page) => page.create() },
  { name: "temporary", about: "Begin a chat that is not kept", run: (page) => page.create({ temporary: true }) },
  { name: "system", takes: "text", about: "Set this chat's system prompt, or look at it", run: setSystem },
  { name: "regenerate", takes: "number", about: `${ACTIONS.regenerate} the last reply, or several at once`, run: regenerate },
  { name: "continue", about: `${ACTIONS.resume} the last reply`, run: goOn },
  { name: "stop", about: "Stop the reply", run: (page) => (page.chat.running || page.chat.others.length ? void page.turns.stop() : "No reply is being written here.") },
  { name: "compact", about: `${ACTIONS.compact}: sum up this chat and go on from the summary`, run: (page) => void page.compact() },
  { name: "fork", about: "A new chat that begins with this one", run: fork },
  { name: "tree", about: "All branches of this chat", run: (page) => void page.showTree() },
  { name: "compare", about: "Versions of the last reply side by side", run: compare },
  { name: "settings", about: "System prompt and sampling", run: (page) => void page.showSettings() },
  { name: "preset", takes: "name", about: "Begin a new chat with a preset", run: preset },
  { name: "export", about: "This chat as a file", run: exportChat },
  { name: "rename", takes: "title", needs: true, about: "Give this chat another name", run: rename },
  { name: "search", takes: "words", about: "Search chats and messages", run: search },
  { name: "shortcuts", about: "Keys that work here", run: (page) => void page.showShortcuts() },
  { name: "help", about: "What can be typed here", run: () => void help() },
];

async function setSystem(page, text) {
  if (!text) return void page.showSettings();
  const session = await page.ensureChat();
  const before = page.session?.system_prompt ?? null;
  const save = (value) => page.socket.call("settings", { session, change: { system_prompt: value } });
  await save(text);
  toast("The system prompt of this chat is another one now.", { action: "Undo", run: () => save(before), chat: session });
  return undefined;
}

function regenerate(page, rest) {
  const { last } = page.chat;
  if (!last || last.role !== "assistant") return "There is no reply here to regenerate.";
  if (last.growing) return "A reply is being written here: stop it first, or wait for its end.";
  if (!rest) return void page.turns.regenerate(last.id);
  const number = Number(rest);
  if (!Number.isInteger(number) || number < 1 || number > MOST_REPLIES) {
    return `After /regenerate comes how many replies, 1 to ${MOST_REPLIES}; ${rest} is none of these.`;
  }
  return void page.turns.regenerate(last.id, number);
}

function goOn(page) {
  const { last } = page.chat;
  if (!last?.resumable) return "The last message is no reply that was cut off, so there is nothing to continue.";
  return void page.turns.resume(last.id);
}

function fork(page) {
  const { last } = page.chat;
  if (!last) return "This chat is empty, so there is nothing to fork.";
  return void page.messageActions.fork(last.id, "branch");
}

function compare(page) {
  const last = page.chat.items.get(page.chat.ids.findLast((id) => page.chat.items.get(id).role === "assistant"));
  if ((last?.siblings.length ?? 0) < 2) return "The last reply has no other version to compare with.";
  return void page.messageActions.compareVersions(last);
}

async function preset(page, name) {
  if (!name) return void page.library.presets();
  const presets = await page.socket.call("presets");
  const wanted = name.toLowerCase();
  const found = presets.find((one) => one.name.toLowerCase() === wanted) ?? presets.find((one) => one.name.toLowerCase().startsWith(wanted));
  if (!found) return `There is no preset “${name}”.`;
  return void page.create({ preset: found.id });
}

function exportChat(page) {
  if (!page.session) return "This chat is empty, so there is nothing to export.";
  openMenu(page.composer.files.button.firstChild, page.library.exportChoices(page.session), { label: "Export" });
  return undefined;
}

async function rename(page, title) {
  if (!title) return "After /rename comes the new name.";
  const { session } = page;
  if (!session) return "This chat has not begun, so it has no name.";
  const save = (name) => page.socket.call("rename", { session: session.id, title: name });
  await save(title);
  toast(`This chat is called “${title}” now.`, { action: "Undo", run: () => save(session.title), chat: session.id });
  return undefined;
}

function search(page, words) {
  page.layout.showSidebar();
  const { field } = page.sidebar.search;
  if (words) {
    field.value = words;
    field.dispatchEvent(new Event("input"));
  }
  page.sidebar.search.focus();
}

function help() {
  return showDialog("Commands", () => [
    h("p", {}, "Typed at the beginning of a message. Two slashes send one."),
    h("dl.help-list", {}, ...COMMANDS.flatMap(({ name, takes, about }) => [
      h("dt", {}, h("code", {}, `/${name}`), takes ? h("i", {}, ` ${takes}`) : null), h("dd", {}, about)])),
  ], { testid: "help" });
}
