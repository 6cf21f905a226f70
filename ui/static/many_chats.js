// What is done with several chats at once: one call for each, one notice for all, and one way back.

import { plural } from "./format.js";
import { toast } from "./toasts.js";

/** The actions for `sessions`. `act` has: change(op, session, fields) and call(op, fields), which resolve with undefined
 * when it went wrong, folders() -> list, exports(ids) -> choices, removing(id), and addFolder() -> the new folder or null. */
export function manyChats(sessions, act) {
  const each = async (op, fields, those = sessions) => {
    const done = [];
    for (const one of those) if ((await act.change(op, one, fields(one))) !== undefined) done.push(one);
    return done;
  };
  const told = (done, words, back) => {
    if (!done.length) return;
    const what = done.length === 1 ? `“${done[0].title}”` : plural(done.length, "chat");
    toast(`${words[0]} ${what}${words[1] ?? ""}.`, { action: "Undo", run: async () => { for (const one of done) await back(one); } });
  };
  const moveTo = async (folder) => {
    const moving = sessions.filter((one) => (one.folder_id ?? null) !== folder || one.pinned);
    const done = await each("move", () => ({ folder }), moving);
    const name = act.folders().find((one) => one.id === folder)?.name;
    told(done, ["Moved", name ? ` to “${name}”` : " out of the folder"], (one) => act.call("move", { session: one.id, folder: one.folder_id ?? null }));
  };
  return {
    moveTo,
    archive: async () => {
      const done = await each("archive", () => ({ on: true }), sessions.filter((one) => !one.archived));
      told(done, ["Archived"], (one) => act.call("archive", { session: one.id, on: false }));
    },
    remove: async () => {
      const done = [];
      for (const one of sessions) {
        act.removing(one.id);
        if ((await act.call("delete", { session: one.id })) !== undefined) done.push(one);
      }
      told(done, ["Deleted"], (one) => act.call("undelete", { session: one.id }));
    },
    move: () => [
      { label: "No folder", icon: "close", run: () => moveTo(null) },
      ...[...act.folders()].sort((a, b) => a.name.localeCompare(b.name)).map(({ id, name }) => ({ label: name, icon: "folder", run: () => moveTo(id) })),
      { label: "New folder…", icon: "plus", separate: true, run: async () => { const made = await act.addFolder(); if (made) moveTo(made.id); } },
    ],
    export: () => act.exports(sessions.map((one) => one.id)),
  };
}
