// Chats dragged with the mouse: onto a folder, out of it, or onto the archive and the trash. The menus do the same by keyboard.

const KIND = "application/x-pagedchat-chats";

/** Let rows of `list` be dragged. `act` has: chosen(id) -> ids, target(element) -> {key, drop(ids)} or null. */
export function letDrag(list, places, act) {
  let over = null;
  const mark = (element) => {
    if (element === over) return;
    over?.classList.remove("drop-here");
    over = element;
    over?.classList.add("drop-here");
  };
  list.addEventListener("dragstart", (event) => {
    const row = event.target.closest?.("[data-session-id]");
    if (!row) return;
    event.dataTransfer.setData(KIND, JSON.stringify(act.chosen(row.dataset.sessionId)));
    event.dataTransfer.effectAllowed = "move";
  });
  for (const area of [list, ...places]) {
    area.addEventListener("dragover", (event) => {
      const found = event.dataTransfer.types.includes(KIND) && act.target(event.target);
      mark(found ? found.element : null);
      if (!found) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "move";
    });
    area.addEventListener("dragleave", (event) => { if (!area.contains(event.relatedTarget)) mark(null); });
    area.addEventListener("drop", (event) => {
      const found = act.target(event.target);
      mark(null);
      if (!found || !event.dataTransfer.types.includes(KIND)) return;
      event.preventDefault();
      found.drop(JSON.parse(event.dataTransfer.getData(KIND)));
    });
  }
  list.addEventListener("dragend", () => mark(null));
}
