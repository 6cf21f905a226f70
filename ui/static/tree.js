// The tree of the shown chat, put into the page.

import { complain } from "./toasts.js";
import { TreePane } from "./tree_pane.js";

/** `page` has: socket, layout, chat, current, session, messageActions, turns, show(id, options), switch(work). */
export function treeOf(page) {
  const pane = new TreePane({
    call: (op, fields) => page.socket.call(op, fields),
    current: () => page.current,
    head: () => page.session?.head_id ?? null,
    running: (id) => page.chat.items.get(id)?.text.textContent,
    show: async (id) => {
      if (!page.chat.goTo(id)) await page.switch(page.show(page.current, { push: false, message: id }));
    },
    branchFrom: async (id) => {
      await pane.act.show(id);
      const message = page.chat.items.get(id);
      if (message) page.turns.branchFrom(message);
    },
    choices: (message) => page.messageActions.menu(message),
    compare: (ids, options) => page.messageActions.compare(ids, options).catch(complain),
    opened: (open) => page.layout.setTree(open),
  });
  pane.listen(page.socket);
  return pane;
}
