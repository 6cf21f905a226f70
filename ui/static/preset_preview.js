// Beside the editor of presets: how each prompt begins, how long its parts are, and which chats began otherwise.

import { h } from "./dom.js";
import { count, plural } from "./format.js";
import { dayOf } from "./settings_parts.js";

const PARTS = [["system_prompt", "System prompt"], ["policy", "Policy"], ["tools", "Tools"], ["examples", "Examples"], ["marks", "The template's own"]];
const LONGEST = 3_000; // characters of the beginning that are shown

export class PresetPreview {
  constructor() {
    this.drift = h("div.drift", { role: "status" });
    this.bar = h("div.part-bar", { "aria-hidden": "true" });
    this.parts = h("dl.part-sizes");
    this.stable = h("p", {}, "…");
    this.text = h("pre.begins", { tabIndex: 0, role: "group", "aria-label": "The beginning of the prompt" });
    this.element = h("section.preset-preview", { "aria-label": "What the prompt begins with" },
      this.drift, h("h3", {}, "The same in every chat"), this.stable, this.bar, this.parts, this.text,
      h("h3", {}, "Comes after it"), h("p", {}, "The question with its files, passages quoted by the template above, and the reply. These differ, so they are computed for each message."));
  }

  show({ tokens, begins }) {
    this.element.classList.toggle("no-model", !tokens);
    if (!tokens) {
      this.stable.textContent = "Tokens are counted when a model is loaded.";
      for (const one of [this.bar, this.parts, this.text]) one.replaceChildren();
      return;
    }
    const shown = PARTS.filter(([name]) => tokens[name]);
    this.stable.replaceChildren(h("b", {}, plural(tokens.stable, "token")), ` ${tokens.stable === 1 ? "is" : "are"} computed once and shared by all chats of this preset.`);
    this.bar.replaceChildren(...shown.map(([name]) => h("i", { "data-part": name, style: `flex:${tokens[name]}` })));
    this.parts.replaceChildren(...shown.map(([name, label]) => h("div", {}, h("dt", {}, h("i", { "data-part": name }), label), h("dd", {}, count(tokens[name])))));
    this.#begin(begins);
  }

  #begin(pieces) {
    let left = LONGEST;
    const nodes = [];
    for (const [text, control] of pieces) {
      if (left <= 0) break;
      nodes.push(control ? h("span.control", {}, text) : text.slice(0, left));
      left -= text.length;
    }
    this.text.replaceChildren(...nodes, left <= 0 ? " …" : "");
  }

  /** Chats of the preset that began with other tokens than it has now. */
  showDrift({ groups, stable }) {
    this.drift.replaceChildren(...groups.map(({ since, chats, token, theirs, ours }) => h("p.part-warning", { "data-testid": "drift" },
      `${plural(chats, "chat")} since ${dayOf(since)} ${chats === 1 ? "differs" : "differ"} from token ${count(token)} of ${count(stable)} on: `,
      quoted(theirs), " instead of ", quoted(ours), ". What follows there is not shared with new chats.")));
  }
}

function quoted(word) {
  return word ? h("code", {}, word) : "nothing";
}
