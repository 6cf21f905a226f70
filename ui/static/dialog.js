// Small questions and reports over the page. The browser's own dialog keeps the focus inside and gives it back.

import { byId, h, icon } from "./dom.js";
import { placeToasts } from "./toasts.js";

/** Show `content` until it is closed; resolves with what `close(value)` was called with, or null. */
export function showDialog(title, content, { wide = false, testid = "dialog" } = {}) {
  return new Promise((resolve) => {
    let result = null;
    const close = (value = null) => { result = value; dialog.close(); };
    const head = h("div.dialog-head", {}, h("h2", { id: "pc-dialog-title" }, title),
      h("button.icon", { type: "button", "aria-label": "Close", title: "Close", onclick: () => close() }, icon("close")));
    const dialog = h(wide ? "dialog.dialog.wide" : "dialog.dialog", {
      "aria-labelledby": "pc-dialog-title", "data-testid": testid,
      onclose: () => { placeToasts(); dialog.remove(); holdPage(); resolve(result); },
      onclick: (event) => { if (event.target === dialog) close(); },
      onkeydown: (event) => { if (event.key === "Escape") event.stopPropagation(); },
    }, head);
    dialog.append(...content(close).filter(Boolean));
    byId("pc").append(dialog);
    holdPage();
    dialog.showModal();
    placeToasts();
    (dialog.querySelector("[data-first]") ?? dialog.querySelector("button"))?.focus();
  });
}

/** Behind the settings the page can not be used; but a dialog is a part of it, and holds back all else by itself. */
function holdPage() {
  byId("pagedchat").inert = document.documentElement.hasAttribute("data-settings") && !document.querySelector("#pc dialog");
}

/** Ask before something that cannot be undone; true if the answer is yes. */
export function confirmed(title, words, yes, { danger = true } = {}) {
  return showDialog(title, (close) => [
    h("p", {}, words),
    h("div.dialog-row", {},
      h("button.quiet", { type: "button", "data-first": "", onclick: () => close(false) }, "Cancel"),
      h(danger ? "button.primary.danger" : "button.primary", {
        type: "button", "data-testid": "confirm", onclick: () => close(true),
      }, yes)),
  ]).then(Boolean);
}

/** Ask for one line; null if it was left. */
export function askLine(title, label, value, yes) {
  return showDialog(title, (close) => {
    const field = h("input.line", { "aria-label": label, maxlength: "200", "data-first": "", placeholder: label });
    field.value = value;
    const done = (event) => { event.preventDefault(); if (field.value.trim()) close(field.value.trim()); };
    return [h("form", { onsubmit: done }, field, h("div.dialog-row", {},
      h("button.quiet", { type: "button", onclick: () => close() }, "Cancel"),
      h("button.primary", { type: "submit", "data-testid": "confirm" }, yes)))];
  });
}
