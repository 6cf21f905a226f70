// A message as it is stored and as the model reads it: exact text, control tokens visible.

import { copyText } from "./clipboard.js";
import { h, iconButton } from "./dom.js";
import { plural } from "./format.js";

export class RawView {
  /** `found` is {content, reasoning, pieces, tokens, sent}; `close` goes back to the rendered text. */
  constructor(found, close) {
    const { content, reasoning, pieces, tokens, sent } = found;
    this.element = h("div.raw", { "data-testid": "raw" },
      part(reasoning ? "Answer, as stored" : "As stored", content, [content || "(nothing)"], h("button.link", { type: "button", onclick: close }, "Rendered")),
      reasoning ? part("Thinking, as stored", reasoning, [reasoning]) : null,
      pieces ? h("details.raw-tokens", {}, h("summary", {}, tokens ? `In the prompt: ${plural(tokens, "token")}${sent ? "" : ", as it would be sent"}`
        : "In no prompt: there is nothing to send"),
      tokens ? part("As the model reads it", pieces.map(([text]) => text).join(""), pieces.map(piece)) : null) : h("p.hint", {}, "How the model reads it can be told when it is loaded."));
  }
}

function part(title, copied, shown, more = null) {
  const button = iconButton("copy", `Copy: ${title}`, () => copyText(copied, button));
  return h("section", { "aria-label": title }, h("div.raw-head", {}, h("span", {}, title), more, button),
    h("pre", { tabIndex: 0 }, ...shown));
}

function piece([text, control]) {
  return control ? h("span.control", { title: "A control token" }, text) : text;
}
