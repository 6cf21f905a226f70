// What new chats may begin with: a list to choose from, and a form for each.

import { showDialog } from "./dialog.js";
import { h, iconButton } from "./dom.js";
import { complain, toast } from "./toasts.js";

const PARTS = [ // in the order in which a prompt has them
  ["system_prompt", "System prompt", 4], ["policy", "Policy: rules that follow it", 2], ["tools", "Tools: a JSON list", 2],
];

/** `act` has: call(op, fields) -> promise, follow(listener, signal) tells the presets after each change, begin(preset),
 * session() -> the shown chat or null. */
export function showPresets(act) {
  const over = new AbortController();
  return showDialog("Presets", (close) => {
    const list = h("ul.presets");
    const draw = (presets) => {
      const rows = presets.map((preset) => row(preset, act, close));
      list.replaceChildren(...(rows.length ? rows : [h("li.none", {}, "No presets yet. A preset is what a new chat begins with.")]));
    };
    act.follow(draw, over.signal);
    act.call("presets").then(draw, complain);
    const session = act.session();
    return [list, h("div.dialog-row", {},
      session && h("button.quiet", { type: "button", onclick: () => edit(ofChat(session), act) }, "From this chat"),
      h("button.primary", { type: "button", "data-testid": "new-preset", onclick: () => edit({ name: "" }, act) }, "New preset"))];
  }, { testid: "presets" }).finally(() => over.abort());
}

function row(preset, act, close) {
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
    h("button.link", { type: "button", "aria-label": `New chat with ${preset.name}`, onclick: () => { close(); act.begin(preset.id); } },
      "New chat with it"),
    iconButton("edit", `Edit ${preset.name}`, () => edit(preset, act)),
    iconButton("trash", `Delete ${preset.name}`, remove));
}

function labelled(words, field) {
  return h("label", {}, h("span", {}, words), field);
}

/** A preset with the settings of a chat, not stored yet. */
function ofChat({ title, system_prompt, own_params }) {
  return { name: title, system_prompt: system_prompt ?? "", params: own_params };
}

function edit(preset, act) {
  return showDialog(preset.id ? "Edit preset" : "New preset", (close) => {
    const name = h("input.line", { maxlength: "200", "data-first": "" });
    name.value = preset.name;
    const fields = PARTS.map(([part, label, rows]) => {
      const field = h("textarea.line", { rows: String(rows) });
      field.value = preset[part] ?? "";
      return [part, field, label];
    });
    const problem = h("p.problem", { role: "alert" });
    const save = async (event) => {
      event.preventDefault();
      const change = { name: name.value, ...Object.fromEntries(fields.map(([part, field]) => [part, field.value])) };
      if (preset.id) change.id = preset.id;
      else if (preset.params) change.params = preset.params;
      try {
        await act.call("save_preset", { change, version: preset.version });
        close(true);
      } catch (error) {
        problem.textContent = error.message;
      }
    };
    return [h("form.preset-form", { onsubmit: save }, labelled("Name", name),
      ...fields.map(([, field, label]) => labelled(label, field)), problem, h("div.dialog-row", {},
      h("button.quiet", { type: "button", onclick: () => close() }, "Cancel"),
      h("button.primary", { type: "submit", "data-testid": "confirm" }, "Save")))];
  }, { testid: "preset-form" });
}
