// The line under a message: which version it is, what it cost, and the buttons.

import { h, iconButton, unfit } from "./dom.js";
import { count, plural, rate, seconds } from "./format.js";
import { openMenu } from "./menu.js";

/** What stands in the footer of `message`; empty places are null. */
export function footParts(message) {
  const { siblings = [], sibling_index: index, generation } = message.view;
  return [
    siblings.length > 1 ? versions(message, siblings, index) : null,
    message.role === "assistant" ? stats(message, generation) : null,
    h("span.acts", {}, ...message.act.bar(message).map((entry) => button(message, entry)), more(message)),
  ];
}

function versions(message, ids, index) {
  const go = (step) => {
    const id = ids[index - 1 + step];
    if (id) message.act.select(id, message.id);
  };
  return h("span.sib", { role: "group", "aria-label": "Versions of this message" },
    iconButton("left", "Previous version", () => go(-1), { "data-testid": "sibling-prev", ...unfit(index <= 1) }),
    h("span.at", { "data-testid": "sibling-label" }, `${index}/${ids.length}`),
    iconButton("right", "Next version", () => go(1), { "data-testid": "sibling-next", ...unfit(index >= ids.length) }));
}

function button(message, { name, label, icon, disabled }) {
  const element = iconButton(icon, label, () => message.act.run(name, message, element),
    { "data-testid": name, ...unfit(disabled), title: disabled ?? label });
  return element;
}

function more(message) {
  const element = iconButton("more", "More", () => message.openMenu(), { "data-testid": "message-menu", "aria-haspopup": "menu" });
  return element;
}

/** Open the menu of a message at the button that is there for it. */
export function openMessageMenu(message) {
  const button = () => message.foot.querySelector("[data-testid=message-menu]"); // another one once the line was drawn anew
  openMenu(button(), message.act.menu(message), { label: "More about this message", back: button });
}

function stats(message, generation) {
  const made = generation ?? {};
  const parts = [];
  if (made.prompt_tokens && made.cached_tokens !== null && made.cached_tokens !== undefined) {
    const share = Math.round((100 * made.cached_tokens) / made.prompt_tokens);
    parts.push(h("span.meter", {}, h("span", {}, `${count(made.cached_tokens)} of ${count(made.prompt_tokens)}`, h("span.wide", {}, " tokens"), " reused"),
      h("u", { style: `--p:${share}%`, "aria-hidden": "true" })));
  }
  if (typeof made.ttft_s === "number") parts.push(h("span", {}, `first token ${seconds(made.ttft_s)}`));
  if (message.growing && message.rate) parts.push(h("span", {}, message.rate));
  else if (!message.growing && made.tokens_per_second) parts.push(h("span", {}, rate(made.tokens_per_second)));
  if (made.own) parts.push(h("span", { "data-testid": "own-settings", title: ownWords(made.own) }, "own settings"));
  if (made.left_out) parts.push(h("span", { "data-testid": "left-out" }, `${count(made.left_out)} earlier left out`));
  if (!parts.length) return null;
  return h("span.stats", { "data-testid": "reply-stats", title: summary(made) }, ...parts);
}

function ownWords(own) {
  return Object.entries(own).map(([name, value]) => `${name.replaceAll("_", " ")} ${value ?? "as the model has it"}`).join(", ");
}

/** The figures in the tooltip; everything else is in the details. */
function summary(made) {
  const lines = [];
  if (made.model) lines.push(made.model);
  if (made.prompt_tokens) {
    lines.push(`prompt ${plural(made.prompt_tokens, "token")}: ${count(made.cached_tokens ?? 0)} cached, ` +
      `${count(made.computed_tokens ?? 0)} computed`);
  }
  if (made.completion_tokens) lines.push(`reply ${plural(made.completion_tokens, "token")}`);
  const times = [["queue", made.queue_s], ["prefill", made.prefill_s], ["decode", made.decode_s]]
    .filter(([, value]) => typeof value === "number").map(([name, value]) => `${name} ${seconds(value)}`);
  if (times.length) lines.push(times.join(" · "));
  if (typeof made.blocks_new === "number") {
    lines.push(`blocks: ${made.blocks_new} new, ${made.blocks_shared} shared, ${made.blocks_copied} copied`);
  }
  if (made.note) lines.push(made.note);
  if (made.preemptions) lines.push(plural(made.preemptions, "preemption"));
  return lines.join("\n");
}
