// What can be done with the chat that is shown: the menu beside its title.

import { askLine } from "./dialog.js";
import { actOf, editPreset } from "./presets.js";
import { complain } from "./toasts.js";

const KEPT_ONLY = ["pin", "move", "archive", "export", "fork-whole"]; // of chats that are on disk

/** Choices for `openMenu`; none where no chat has begun. `page` has: session, sidebar, library, create(), showTree(). */
export function chatMenu(page) {
  const { session } = page;
  const begin = { label: "New temporary chat", icon: "ghost", separate: Boolean(session), testid: "top-temporary", run: () => page.create({ temporary: true }) };
  if (!session) return [begin];
  const known = page.sidebar.sessions.get(session.id) ?? session;
  const ofChat = page.library.menu(known, { rename: () => rename(page, known) })
    .filter((choice) => choice && !(session.temporary && KEPT_ONLY.includes(choice.testid)));
  const remove = ofChat.at(-1).danger ? ofChat.pop() : null;
  return [
    ...ofChat,
    page.showTree && { label: "Tree of branches", icon: "tree", testid: "top-tree", run: () => page.showTree() },
    { label: "Save as preset…", icon: "tune", testid: "top-preset", run: () => saveAsPreset(page) },
    begin, remove,
  ];
}

async function rename(page, session) {
  const title = await askLine("Rename chat", "Name of the chat", session.title, "Rename");
  if (title && title !== session.title) page.library.rename(session, title);
}

/** The editor of presets with what the shown chat has. */
export async function saveAsPreset(page) {
  const act = actOf(page);
  try {
    await editPreset(await act.call("preset_of_chat", { session: page.session.id }), act);
  } catch (error) {
    complain(error);
  }
}
