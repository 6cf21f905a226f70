// Copying text, also where the browser keeps the clipboard for itself.

import { h, icon } from "./dom.js";

const SHOWN_MS = 1_600;

/** Copy `text`; the button shows that it is done. */
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { style: "position:fixed;opacity:0" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.replaceChildren(icon("check"));
  button.classList.add("done");
  setTimeout(() => { button.replaceChildren(icon("copy")); button.classList.remove("done"); }, SHOWN_MS);
}
