// A preset in the order in which a prompt has its parts: first what is the same in every chat, then what comes after it.

import { showDialog } from "./dialog.js";
import { debounced, h } from "./dom.js";
import { plural } from "./format.js";
import { Examples } from "./preset_examples.js";
import { PresetPreview } from "./preset_preview.js";
import { fieldOf, FIELDS, storedValue, valuesOf } from "./settings_fields.js";
import { complain, toast } from "./toasts.js";

const PREVIEW_PAUSE_MS = 350;
const TEXTS = [
  ["system_prompt", "System prompt", 5, "What the model is told first. Without one, the model's template may put in its own."],
  ["policy", "Policy", 3, "Rules that follow it, in a part of their own so that they are easy to find and change."],
  ["tools", "Tools", 3, "A JSON list of objects. It is kept in always the same bytes, whatever its order and blanks here."],
];
const RETRIEVAL = "How passages of large files are quoted after a question. {passages} are the passages with their numbers, {files} the names of their files. Empty: as shown.";

/** Edit a preset, or make one of `preset` if it has no id; `act` as in presets.js. Resolves with whether it was saved. */
export async function editPreset(preset, act) {
  const editor = new Editor(preset, act);
  const saved = await showDialog(preset.id ? "Edit preset" : "New preset", (close) => editor.build(close), { testid: "preset-form", wide: true });
  editor.over = true;
  if (!saved && editor.touched) {
    toast("The changes to the preset were not saved.", { action: "Go on editing", run: () => editPreset({ ...preset, ...editor.values() }, act).catch(complain) });
  }
  return Boolean(saved);
}

class Editor {
  constructor(preset, act) {
    this.preset = preset;
    this.act = act;
    this.asked = 0;
    this.fields = {};
    this.notes = {};
    this.preview = new PresetPreview();
    this.look = debounced(PREVIEW_PAUSE_MS, () => this.#look());
  }

  build(close) {
    const { preset, act } = this;
    this.problem = h("p.problem", { role: "alert" });
    this.examples = new Examples(preset.examples ?? [], preset.pairs ?? [], () => this.#changed());
    const form = h("form.preset-form", { onsubmit: (event) => this.#save(event, close), oninput: () => this.#changed() },
      this.#line("name", "Name", { "data-first": "", maxlength: "200" }),
      h("h3", {}, "The same in every chat"),
      ...TEXTS.map(([name, label, rows, help]) => this.#part(name, label, help, this.#area(name, rows))),
      this.#part("examples", "Example messages", "Questions and answers that every chat begins with, as if they had been said.", this.examples.element, "div"),
      h("h3", {}, "Comes after it"),
      this.#part("retrieval", "Retrieval template", RETRIEVAL, this.#area("retrieval", 3)),
      h("h3", {}, "Changes no token of the prompt"),
      this.#sampling(), this.#line("model", "Model", { placeholder: "whichever is loaded" }, "The name of a model. It will be loaded for such chats when pagedchat can change models while it runs."),
      this.problem, h("div.dialog-row", {},
        h("button.quiet", { type: "button", onclick: () => close() }, "Cancel"),
        h("button.primary", { type: "submit", "data-testid": "confirm" }, "Save")));
    this.#look();
    if (preset.id) act.call("preset_drift", { preset: preset.id }).then((told) => this.preview.showDrift(told), () => {});
    return [h("div.preset-editor", {}, form, this.preview.element)];
  }

  /** What the form says. */
  values() {
    const texts = Object.fromEntries(["name", ...TEXTS.map(([name]) => name), "retrieval", "model"].map((name) => [name, this.fields[name].value]));
    const params = Object.fromEntries([...this.numbers].flatMap(([name, field]) => {
      const value = name === "stop" ? storedValue(name, field.value) : field.value === "" ? null : Number(field.value);
      return value === null ? [] : [[name, value]];
    }));
    return { ...texts, model: texts.model.trim() || null, examples: this.examples.value, params };
  }

  #changed() {
    this.touched = true;
    this.look();
  }

  async #look() {
    const turn = ++this.asked;
    const { system_prompt, policy, tools, examples } = this.values();
    try {
      const told = await this.act.call("preset_preview", { change: { system_prompt, policy, tools, examples } });
      if (turn === this.asked && !this.over) this.#show(told);
    } catch (error) {
      if (turn === this.asked) this.preview.stable.textContent = error.message;
    }
  }

  #show(told) {
    this.preview.show(told);
    this.fields.retrieval.placeholder = told.retrieval;
    for (const [part, place] of Object.entries(this.notes)) {
      const problem = told.problems[part];
      const warnings = told.warnings.filter((one) => one.part === part);
      place.replaceChildren(
        ...(problem ? [h("p.problem", {}, problem)] : []),
        ...warnings.map(({ sentence }) => h("p.part-warning", { "data-testid": "part-warning" }, sentence)),
        ...(part === "tools" && told.tools && !problem ? [h("p.part-said", {}, `${plural(JSON.parse(told.tools).length, "tool")}, ${plural(new Blob([told.tools]).size, "byte")} as it is kept.`)] : []));
    }
  }

  async #save(event, close) {
    event.preventDefault();
    const change = this.values();
    if (this.preset.id) change.id = this.preset.id;
    try {
      await this.act.call("save_preset", { change, version: this.preset.version });
      this.touched = false;
      close(true);
    } catch (error) {
      this.problem.textContent = error.message;
      this.problem.scrollIntoView({ block: "nearest" });
    }
  }

  // -- fields -------------------------------------------------------------------------------------------------------

  #area(name, rows) {
    const field = h("textarea.line", { rows: String(rows), class: name === "tools" ? "line code" : "line", spellcheck: name === "tools" ? "false" : null });
    field.value = (name === "tools" ? spread(this.preset.tools) : this.preset[name]) ?? "";
    this.fields[name] = field;
    return field;
  }

  #line(name, label, properties, help = null) {
    const field = h("input.line", properties);
    field.value = this.preset[name] ?? "";
    this.fields[name] = field;
    return h("div.part", {}, h("label", {}, h("span", {}, label), field), help && h("small", {}, help));
  }

  /** A part with its help, and a place for warnings beside it. */
  #part(name, label, help, field, tag = "label") {
    this.notes[name] = h("div.part-notes", { role: "status" });
    return h("div.part", { "data-part": name }, h(tag, {}, h("span", {}, label), field), h("small", {}, help), this.notes[name]);
  }

  #sampling() {
    const { params = {} } = this.preset;
    const values = valuesOf({ params }, {});
    this.numbers = new Map(FIELDS.slice(1).map((name) => {
      const field = name === "stop" ? h("textarea.line", { rows: "1" }) : h("input.line", { type: "number", step: "any" });
      if (name in params) field.value = String(values[FIELDS.indexOf(name)] ?? "");
      return [name, field];
    }));
    const number = Object.keys(params).length;
    return h("details.part", { open: number > 0 }, h("summary", {}, number ? `Sampling: ${plural(number, "setting")} of its own` : "Sampling: as the model has it"),
      h("small", {}, "Empty fields follow the model."),
      h("div.part-grid", {}, ...[...this.numbers].map(([name, field]) => sampling(fieldOf(name), field))));
  }
}

function sampling({ name, label, help }, field) {
  const id = `pc-preset-${name}`;
  field.setAttribute("aria-label", label);
  field.setAttribute("aria-describedby", id);
  return h("label", {}, h("span", {}, label), field, h("small", { id }, help));
}

/** JSON as people read it; what is none stays as it is. */
function spread(json) {
  try {
    return json ? JSON.stringify(JSON.parse(json), null, 2) : "";
  } catch {
    return json;
  }
}
