// The line above the chat: what the engine is doing when it cannot answer, and a lost connection.

import { byId, h, icon, sentence } from "./dom.js";

const WORDS = {
  starting: "Starting the engine",
  fetching: "Fetching the model",
  loading: "Loading the model",
  restarting: "Starting the engine again",
  failed: "The engine could not start",
};

export class Banner {
  constructor(retry, goBack) {
    this.element = byId("pc-banner");
    this.retry = retry;
    this.goBack = goBack;
    this.status = null;
    this.lost = false;
  }

  setStatus(status) {
    this.status = status;
    this.draw();
  }

  setLost(lost) {
    this.lost = lost;
    this.draw();
  }

  get ready() {
    return this.status?.state === "ready" && !this.lost;
  }

  draw() {
    const { element, status } = this;
    const { problem, way_back: wayBack } = status?.configuration ?? {};
    const state = this.lost ? "lost" : status?.state ?? "ready";
    const compiling = state === "ready" && !problem && Boolean(status?.info?.compiling);
    element.hidden = state === "ready" && !problem && !compiling;
    element.dataset.state = state === "ready" && problem ? "problem" : compiling ? "compiling" : state;
    if (element.hidden) return element.replaceChildren();
    if (this.lost) {
      return element.replaceChildren(icon("warn"),
        h("span.words", {}, h("b", {}, "No connection to pagedchat."), " Nothing is lost; trying again…"),
        h("button.link", { type: "button", onclick: this.retry }, "Try now"));
    }
    if (compiling) {
      return element.replaceChildren(h("span.words", {},
        "Compiled kernels are being made for your processor; until they are ready, replies are slow."));
    }
    const back = wayBack
      ? [h("button.link", { type: "button", onclick: this.goBack, "data-testid": "rollback" }, "Go back to what worked")] : [];
    if (state === "ready") {
      return element.replaceChildren(icon("warn"),
        h("span.words", {}, h("b", {}, "This configuration has a problem."), " ", ...sentence(problem)), ...back);
    }
    const progress = status.progress;
    const known = typeof progress === "number";
    const head = `${WORDS[state] ?? state}${known ? ` · ${Math.floor(progress * 100)} %` : ""}`;
    const said = status.message === `${WORDS[state]}.` ? "" : status.message;
    const stop = (said && !known) || state === "failed" ? "." : "";
    const parts = [h("span.words", {}, h("b", {}, head + stop), " ", ...sentence(said))];
    if (state === "failed") {
      parts.unshift(icon("warn"));
      parts.push(...back);
    } else {
      parts.push(h(known ? "span.progress" : "span.progress.unknown", {
        role: "progressbar", "aria-label": WORDS[state] ?? state, "aria-valuemin": "0", "aria-valuemax": "100",
        "aria-valuenow": known ? String(Math.floor(progress * 100)) : null,
      }, h("i", { style: known ? `width:${progress * 100}%` : "" })));
    }
    element.replaceChildren(...parts);
  }
}
