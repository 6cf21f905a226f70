// What the composer may ask of the page, and the commands it knows.

import { COMMANDS } from "./commands.js";
import { compactOffer } from "./compaction.js";

/** The `act` of a `Composer`. `page` has: socket, turns, session, current, chat, banner, waiting, switching, ensureChat(). */
export function writing(page) {
  return {
    send: (text, files, stored) => page.turns.send(text, files, stored),
    queue: (text, files) => page.waiting.add(text, files),
    stop: () => page.turns.stop(),
    stopOthers: () => { page.composer.focus(); return page.turns.stop(); },
    probe: (text, files) => page.turns.probe(text, files),
    editLast: () => page.turns.editLast(),
    saveDraft: (session, text, version) => page.socket.call("draft", { session, text, version }),
    call: (op, fields) => page.socket.call(op, fields),
    begin: () => page.ensureChat(),
    arrived: () => page.switching,
    told: (found) => page.panel.prefixes.why.takeProbe(found?.typed_tokens && !found.refused ? found.why : null),
    offer: (found) => compactOffer(page, found),
    limits: () => ({ ready: page.banner.ready, empty: !page.chat.ids.length }),
    commands: COMMANDS,
    run: (command, rest) => command.run(page, rest),
  };
}
