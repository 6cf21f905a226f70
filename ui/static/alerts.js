// What warns: a strip over the KV panel while something does, and all rules in the settings. Shapes and words tell the
// states apart, colour only helps: an octagon for what is critical, a triangle for a warning, a ring for what is being
// watched.

import { byId, h, icon, sentence as marked } from "./dom.js";
import { plural } from "./format.js";

const NO_BASELINE = "no baseline";
const STATES = { inactive: "quiet", pending: "watched", [NO_BASELINE]: NO_BASELINE };
const SEVERITIES = { warning: "Warning", critical: "Critical" };
const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short" };
const clock = new Intl.DateTimeFormat(undefined, CLOCK);
const dayAndClock = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...CLOCK });

export class Alerts {
  constructor() {
    this.element = h("ul.alerts", { "aria-label": "Alerts", "aria-live": "polite", "data-testid": "alerts", hidden: true });
    byId("pc-kv").querySelector("h2").after(this.element);
    this.mark = h("i.mark", { hidden: true });
    byId("pc-blocks").append(this.mark);
    this.view = null;
  }

  /** `view` is that of the server's watch, or null where nothing is watched. */
  take(view) {
    this.view = view;
    const firing = this.#of("firing");
    const grave = ({ severity }) => Number(severity === "critical");
    const loud = firing.sort((a, b) => grave(b) - grave(a)).concat(this.#of("pending"));
    const key = JSON.stringify(loud.map(({ name, state, since, sentence }) => [name, state, since, sentence]));
    if (key !== this.key) {
      this.key = key;
      this.element.hidden = !loud.length;
      this.element.replaceChildren(...loud.map(row));
    }
    this.#markButton(firing.length);
    this.describe();
  }

  /** All rules, for the settings; nothing is said of a server that watches nothing. */
  describe() {
    const place = document.querySelector("#pc-settings .set-alerts");
    if (!place) return;
    place.hidden = !this.view;
    if (!this.view) return;
    const { alerts, baseline } = this.view;
    const list = h("ul", {}, ...alerts.map(({ name, title, state, severity, sentence }) =>
      h("li", { "data-alert": name, "data-state": state },
        h("b", {}, title), h("span", {}, STATES[state] ?? severity), h("p", {}, ...marked(unbroken(sentence))))));
    place.replaceChildren(h("h3", {}, `Alerts: ${this.#summary()}.`), list, h("p", {}, ...marked(baseline.words)));
  }

  #summary() {
    const firing = this.#of("firing").length;
    const missing = this.#of(NO_BASELINE).length;
    const told = firing ? `${firing} firing` : "nothing to tell";
    return missing ? `${told}, ${plural(missing, "rule")} without a baseline` : told;
  }

  #of(state) {
    return (this.view?.alerts ?? []).filter((alert) => alert.state === state);
  }

  /** With the panel closed, the button that opens it shows that there is something to read. */
  #markButton(firing) {
    const button = byId("pc-blocks");
    this.mark.hidden = !firing;
    button.title = firing ? `KV blocks: ${plural(firing, "alert")}` : "KV blocks";
    if (firing) button.setAttribute("aria-label", `Blocks, ${plural(firing, "alert")}`);
    else button.removeAttribute("aria-label");
  }
}

function row({ name, title, state, severity, since, sentence }) {
  const firing = state === "firing";
  return h(`li.${state}.${severity}`, { "data-alert": name },
    firing ? icon(severity === "critical" ? "critical" : "warn") : h("i.ring", { "aria-hidden": "true" }),
    h("div", {},
      h("b", {}, firing ? `${SEVERITIES[severity] ?? severity}: ${title}` : title), h("small", {}, `${firing ? "since" : "watched since"} ${timeOf(new Date(since * 1_000))}`),
      h("p", {}, ...marked(unbroken(sentence)))));
}

function timeOf(date) {
  return (date.toDateString() === new Date().toDateString() ? clock : dayAndClock).format(date);
}

/** No line ends between a number and its unit. */
function unbroken(sentence) {
  return sentence.replace(/(\d) (%|ms|s|minutes)(?!\w)/g, "$1\u00a0$2");
}
