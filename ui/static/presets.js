// What new chats may begin with: a list to choose from. Each is made and changed in the editor of presets.

import { showDialog } from "./dialog.js";
import { h, iconButton } from "./dom.js";
import { editPreset } from "./preset_editor.js";
import { complain, toast } from "./toasts.js";

export { editPreset };

/** What the list and the editor ask of the page; `leave()` comes before a new chat begins. */
export function actOf(page, leave = () => {}) {
  return {
    call: (op, fields) => page.socket.call(op, fields), session: () => page.session,
    follow: (listener, signal) => page.socket.on("presets", ({ presets }) => listener(presets), signal),
    begin: async (preset) => { await leave(); await page.create({ preset }); },
  };
}

/** `act` has: call(op, fields) -> promise, follow(listener, signal) tells the presets after each change, begin(preset),
 * session() -> the shown chat or null. */
export function showPresets(act) {
  const over = new AbortController();
  return showDialog("Presets", (close) => presetList({ ...act, begin: (preset) => { close(); act.begin(preset); } }, over.signal),
    { testid: "presets" }).finally(() => over.abort());
}

/** The list and what stands under it; it is kept as it is on the server until `signal`. */
export function presetList(act, signal) {
  const list = h("ul.presets");
  const draw = (presets) => {
    const rows = presets.map((preset) => row(preset, act));
    list.replaceChildren(...(rows.length ? rows : [h("li.none", {}, "No presets yet. A preset is what a new chat begins with.")]));
  };
  act.follow(draw, signal);
  act.call("presets").then(draw, complain);
  const session = act.session();
  const ofChat = () => act.call("preset_of_chat", { session: session.id }).then((made) => editPreset(made, act)).catch(complain);
  return [list, h("div.dialog-row", {},
    session && h("button.quiet", { type: "button", onclick: ofChat }, "From this chat"),
    h("button.primary", { type: "button", "data-testid": "new-preset", onclick: () => editPreset({ name: "" }, act) }, "New preset"))];
}

function row(preset, act) {
  const remove = async () => {
    try {
      await act.call("delete_preset", { preset: preset.id });
      toast(`Deleted the preset “${preset.name}”.`, { action: "Undo", run: () => act.call("undelete_preset", { preset: preset.id }).catch(complain) });
    } catch (error) {
      complain(error);
    }
  };
  return h("li", { "data-testid": "preset" },
    h("div.preset", {}, h("b", {}, preset.name), h("small", {}, preset.system_turn ?? "the model's own system prompt")),
    h("button.link", { type: "button", "aria-label": `New chat with ${preset.name}`, onclick: () => act.begin(preset.id) }, "New chat"),
    iconButton("edit", `Edit ${preset.name}`, () => editPreset(preset, act)),
    iconButton("trash", `Delete ${preset.name}`, remove));
}
