// How a message came to be: model, settings, tokens, timings, blocks; and whether it can be reproduced.

import { ACTIONS } from "./action_names.js";
import { copyText } from "./clipboard.js";
import { showDialog } from "./dialog.js";
import { h, iconButton } from "./dom.js";
import { count, plural, rate, seconds, STATES } from "./format.js";

const REASONS = {
  stop: "the model ended it", length: "the reply limit was reached", abort: "it was stopped", error: "it failed",
  refused: "the prompt had no room",
};
const ROLES = { user: "Your message", assistant: "Reply", system: "System message", tool: "Tool" };
const SHORT = 12;

/** `details()` fetches the record; `reproduce(run, told)` makes a run again, tells how many tokens there are, and ends with
 * null after `stop()`; `begin` does so at once. Who closes the dialog wants to know no more. */
export function showDetails(role, { details, reproduce, stop, begin = false }) {
  const act = { reproduce, stop, busy: false };
  return showDialog("Details", () => {
    const place = h("div.facts", { "aria-busy": "true" }, h("p.hint", {}, "…"));
    details().then((found) => {
      place.replaceChildren(...content(role, found, act));
      place.ariaBusy = "false";
      if (begin) place.querySelector("[data-testid=reproduce]")?.click();
    }, (error) => place.replaceChildren(h("p.problem", { role: "alert" }, error.message)));
    return [place];
  }, { testid: "details" }).then(() => { if (act.busy) stop(); });
}

function content(role, { message, runs, tokens, loaded }, act) {
  const general = group("", [
    [ROLES[role] ?? role, STATES[message.status] ?? message.status],
    ["Written", new Date(message.created_at).toLocaleString()],
    message.siblings.length > 1 && ["Version", `${message.siblings.indexOf(message.id) + 1} of ${message.siblings.length}`],
    tokens !== null && ["In the prompt", plural(tokens, "token")],
  ]);
  if (!runs.some((run) => run.model_fingerprint)) {
    return [general, role === "assistant" ? h("p.hint", {}, "No model wrote this: it was typed, edited or brought from elsewhere.") : null].filter(Boolean);
  }
  const shown = [...runs].reverse();
  return [general, ...shown.map((run, at) => runPart(run, {
    loaded, act, open: at === 0, title: runs.length > 1 ? `Run ${run.run} of ${runs.length}` : "",
    words: run.run > 1 ? "continued it" : "began it",
  }))];
}

function runPart(run, { loaded, act, open, title, words }) {
  const body = [
    group("Model", modelFacts(run, loaded)), again(run, act), run.note ? h("p.facts-note", {}, run.note) : null,
    group("Settings", paramFacts(run)), group("Tokens", tokenFacts(run)), group("Time", timeFacts(run)), group("Blocks", blockFacts(run)),
  ].filter(Boolean);
  if (!title) return h("div", {}, ...body);
  return h("details.facts-run", { open }, h("summary", {}, `${title}, ${words}`), ...body);
}

function modelFacts({ model, model_fingerprint: print, engine, finish_reason: reason, prompt_hash: hash }, loaded) {
  return [
    ["Model", model ?? "not named"],
    print && print !== model && ["Fingerprint", short(print), print],
    loaded && print && loaded !== print && ["Now", "another model is loaded"],
    reason && ["Ended because", REASONS[reason] ?? reason],
    Object.keys(engine).length > 0 && ["Engine", engineWords(engine)],
    hash && ["Prompt", short(hash), hash],
  ];
}

function engineWords({ pagedchat, device, dtype, kernels, threads, deterministic }) {
  return [dtype && device ? `${dtype} on ${device}` : dtype ?? device, kernels && `${kernels} kernels`,
    threads && plural(threads, "thread"), deterministic && "deterministic", pagedchat && `pagedchat ${pagedchat}`].filter(Boolean).join(", ");
}

function paramFacts({ params, own, seed }) {
  const rows = Object.entries(params).map(([name, value]) =>
    [words(name), `${plain(value)}${name in own ? " (for this reply alone)" : ""}`]);
  return [...rows, seed !== null && ["Seed", `${seed}${"seed" in own && own.seed !== null ? " (for this reply alone)" : ""}`, String(seed)]];
}

function tokenFacts(run) {
  const { prompt_tokens: prompt, cached_tokens: cached, computed_tokens: computed, completion_tokens: reply } = run;
  return [
    typeof prompt === "number" && ["Prompt", count(prompt)],
    typeof cached === "number" && ["Found cached", count(cached)],
    typeof computed === "number" && ["Computed", count(computed)],
    typeof reply === "number" && ["Reply", count(reply)],
    run.left_out > 0 && ["Left out", `${plural(run.left_out, "earlier message")}, ${plural(run.left_out_tokens ?? 0, "token")}`],
  ];
}

function timeFacts(run) {
  const times = [["Waited", run.queue_s], ["Prompt (prefill)", run.prefill_s], ["Reply (decode)", run.decode_s], ["First token after", run.ttft_s]];
  return [
    ...times.map(([name, value]) => typeof value === "number" && [name, seconds(value)]),
    run.tokens_per_second && ["Speed", rate(run.tokens_per_second)],
    run.started_at && ["Began", new Date(run.started_at).toLocaleString()],
  ];
}

function blockFacts(run) {
  if (typeof run.blocks_new !== "number") return [];
  return [["New", count(run.blocks_new)], ["Shared", count(run.blocks_shared)], ["Copied on write", count(run.blocks_copied)],
    run.preemptions > 0 && ["Preempted", plural(run.preemptions, "time")]];
}

/** A list of [name, value, what to copy]; nothing without rows. */
function group(title, rows) {
  const known = rows.filter(Boolean);
  if (!known.length) return null;
  return h("section", {}, title ? h("h3", {}, title) : null, h("dl", {}, ...known.map(([name, value, copied]) => h("div", {},
    h("dt", {}, name), h("dd", {}, h("span", { title: copied ?? null }, value), copied ? copier(name, copied) : null)))));
}

function copier(name, text) {
  const button = iconButton("copy", `Copy ${name.toLowerCase()}`, () => copyText(text, button));
  return button;
}

function again({ run, completion_tokens: total }, act) {
  const said = h("p.facts-again", { role: "status", "data-testid": "reproduced" });
  const cancel = h("button.quiet", { type: "button", hidden: true, "data-testid": "reproduce-cancel", onclick: () => act.stop() }, "Cancel");
  const button = h("button.quiet", { type: "button", "data-testid": "reproduce", onclick: async () => {
    if (act.busy) return;
    show(true);
    said.textContent = "Writing it again, unseen …";
    try {
      const found = await act.reproduce(run, (tokens) => { said.textContent = `${count(tokens)} of ${plural(total ?? tokens, "token")} …`; });
      said.textContent = found ? outcome(found) : "Cancelled.";
    } catch (error) {
      said.textContent = error.message;
    }
    show(false);
  } }, ACTIONS.reproduce);
  const show = (busy) => {
    const held = cancel === document.activeElement;
    act.busy = busy;
    said.ariaBusy = String(busy); // the count is not read out at each step
    cancel.hidden = !busy;
    button.ariaDisabled = String(busy); // and not disabled, which would lose the focus
    if (held) button.focus();
  };
  return h("div.facts-row", {}, button, cancel, said);
}

/** What became of a reply that was made again. */
function outcome({ same, first_difference: first, tokens, changed, promised, verified, engine }) {
  if (changed.includes("model")) return "Another model is loaded now, so this reply cannot be reproduced.";
  if (changed.includes("prompt")) return "The prompt of this reply cannot be built again exactly, so it cannot be reproduced.";
  if (same) return `Reproduced: the same ${plural(tokens, "token")}.${verified ? "" : " Whether the prompt was the same is not known."}`;
  const differs = Object.entries(engine ?? {}).map(([name, [then, now]]) => `${name} was ${plain(then)}, is ${plain(now)}`).join("; ");
  const why = changed.includes("engine") ? ` The engine is not set as it was then${differs ? `: ${differs}` : ""}.`
    : promised ? "" : " This engine does not promise the same tokens.";
  return `Not reproduced: it differs from token ${first + 1} of ${tokens} on.${why}`;
}

function short(text) {
  return text.length > SHORT + 2 ? `${text.slice(0, SHORT)}…` : text;
}

function words(name) {
  const spelled = name.replaceAll("_", " ").replace(/^(top|min) (p|k)$/, "$1-$2").replace(/^dry/, "DRY").replace(/^max tokens$/, "reply limit");
  return spelled[0].toUpperCase() + spelled.slice(1);
}

function plain(value) {
  if (value === null || value === undefined) return "none";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
