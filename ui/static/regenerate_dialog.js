// Asks with what settings a reply is to be written again, and how many at once. An empty field is as the chat has it.

import { ACTIONS } from "./action_names.js";
import { showDialog } from "./dialog.js";
import { h } from "./dom.js";
import { fieldOf, usualOf } from "./settings_fields.js";

export const COUNTS = [1, 2, 3, 4, 6, 8];
const FIELDS = ["temperature", "top_p", "max_tokens", "seed"];
const MORE = ["top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "dry_multiplier"];

/** `params` is what acts in the chat, `own` what the reply had for itself, `model` what is loaded; `run({n, params})`
 * asks for the replies, and what it complains about is said here. */
export function askRegenerate({ params, own = {}, model, count: first = 1, run }) {
  return showDialog(ACTIONS.with, (close) => {
    const inputs = new Map();
    const field = (name) => row(fieldOf(name), params, own, inputs);
    const count = chooser(first, () => remark());
    const fresh = params.seed !== undefined && params.seed !== null ? h("input", { type: "checkbox", name: "fresh" }) : null;
    const note = h("p.hint", { role: "status", "data-testid": "regenerate-note" });
    const problem = h("p.problem", { role: "alert" });
    const send = h("button.primary", { type: "submit", "data-testid": "regenerate-go" }, ACTIONS.regenerate);
    const remark = () => { note.textContent = words(count(), chosen(inputs, fresh), params); };
    const submit = async (event) => {
      event.preventDefault();
      send.disabled = true;
      try {
        await run({ n: count(), params: chosen(inputs, fresh) });
        close();
      } catch (error) {
        problem.textContent = error.message;
      }
      send.disabled = false;
    };
    const form = h("form.again", { onsubmit: submit, oninput: remark },
      h("p", {}, "They hold for this reply alone; the chat and the other versions keep theirs."),
      h("div.again-fields", {}, ...FIELDS.map(field)),
      fresh && h("label.again-check", {}, fresh, h("span", {}, "A new seed, although the chat has a fixed one")),
      h("details", { open: MORE.some((name) => own[name] !== undefined) }, h("summary", {}, "More sampling"),
        h("div.again-fields", {}, ...MORE.map(field))),
      modelRow(model),
      h("fieldset.again-count", {}, h("legend", {}, "How many at once"), ...count.elements),
      note, problem,
      h("div.dialog-row", {}, h("button.quiet", { type: "button", onclick: () => close() }, "Cancel"), send));
    remark();
    return [form];
  }, { testid: "regenerate-with" });
}

function row({ name, label, help, low, high, step }, params, own, inputs) {
  const usual = params[name] ?? usualOf(name);
  const input = h("input.line", {
    type: "number", name, "aria-label": label, inputMode: "decimal", step: step === 1 ? "1" : "any", "aria-describedby": `pc-again-${name}`,
    min: low === null ? null : String(low), max: high === null ? null : String(high),
    placeholder: usual === null ? "a new one" : String(usual), "data-first": name === "temperature" ? "" : null,
  });
  if (own[name] !== undefined && own[name] !== null) input.value = own[name];
  inputs.set(name, input);
  return h("label", {}, h("span", {}, label), input, h("small", { id: `pc-again-${name}` }, help));
}

function modelRow(model) {
  return h("label.again-model", {}, h("span", {}, "Model"),
    h("select", { disabled: true, "aria-label": "Model", "aria-describedby": "pc-again-model" }, h("option", {}, model || "the loaded one")),
    h("small", { id: "pc-again-model" }, "Replies are written by the model that is loaded; another one cannot be chosen here yet."));
}

/** Radio buttons; calling it tells the number that is chosen. */
function chooser(first, changed) {
  let value = COUNTS.includes(first) ? first : 1;
  const choose = () => Number(elements.find((one) => one.firstChild.checked)?.firstChild.value ?? value);
  const elements = COUNTS.map((number) => h("label", {},
    h("input", { type: "radio", name: "count", value: String(number), checked: number === value, onchange: () => { value = number; changed(); } }),
    h("span", {}, String(number))));
  return Object.assign(choose, { elements });
}

/** What was filled in, by name. */
function chosen(inputs, fresh) {
  const found = {};
  for (const [name, input] of inputs) if (input.value.trim() !== "") found[name] = Number(input.value);
  if (fresh?.checked && found.seed === undefined) found.seed = null;
  return found;
}

/** What follows from the choice that one might not expect. */
function words(count, own, params) {
  const seed = own.seed === undefined ? params.seed : own.seed;
  const fixed = seed !== undefined && seed !== null;
  if ((own.temperature ?? params.temperature) === 0) {
    return count > 1 ? "At temperature 0 all of them say the same." : "At temperature 0 the same prompt brings the same reply again.";
  }
  if (!fixed) return count > 1 ? "Each gets a seed of its own; the prompt is computed once for all." : "";
  return count > 1 ? "With one seed all would be the same, so the first gets it and the others get seeds that follow from it."
    : "With a fixed seed the same settings bring the same reply again.";
}
