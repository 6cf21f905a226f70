// One line that only screen readers get: what an action did that the eye sees elsewhere.

import { byId, h } from "./dom.js";

let line = null;

/** Say `words` politely; the same words again are said again. */
export function announce(words) {
  line ??= byId("pc").appendChild(h("div.unseen", { role: "status", "data-testid": "told" }));
  line.textContent = line.textContent === words ? `${words}\u00a0` : words;
}
