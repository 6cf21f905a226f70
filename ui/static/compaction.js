// Has a chat summed up, so that it can go on with room to spare.

import { ACTIONS } from "./action_names.js";
import { announce } from "./announce.js";
import { h } from "./dom.js";
import { plural } from "./format.js";
import { complain } from "./toasts.js";

/** Sum up the shown chat; what goes wrong is said. `page` has: socket, chat, current, turns. */
export async function compact(page) {
  if (page.current === null) return complain(new Error("This chat is empty, so there is nothing to compact."));
  page.turns.leaveBranch();
  page.chat.toEnd();
  try {
    await page.socket.call("compact", { session: page.current });
    announce("The model sums up this chat.");
  } catch (error) {
    complain(error);
  }
  return undefined;
}

/** What the composer offers when a message would push others out of the context; null while all fit. */
export function compactOffer(page, found) {
  const out = found?.left_out_messages ?? 0;
  if (!out || page.chat.running) return null;
  return h("span.compact-offer", {}, h("span.warn", {}, `The oldest ${plural(out, "message")} will not be sent.`), " ",
    h("button.link", { type: "button", "data-testid": "compact", onclick: () => compact(page) }, ACTIONS.compact));
}
