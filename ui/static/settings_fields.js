// The settings of a chat by name: what stands for "not chosen", and how widgets hold them. What they are called and what
// they mean comes with the page (setting_fields.py).

import { byId } from "./dom.js";

const ALL = JSON.parse(byId("pc-setting-fields").textContent);

export const FIELDS = ALL.map(({ name }) => name); // in the order of the widgets
export const RARE = ALL.filter(({ rare }) => rare).map(({ name }) => name);
const BY_NAME = new Map(ALL.map((one) => [one.name, one]));
const OFF = {
  temperature: 1, top_p: 1, top_k: 0, min_p: 0, max_tokens: 1024, seed: null, stop: null, repetition_penalty: 1,
  presence_penalty: 0, frequency_penalty: 0, dry_multiplier: 0, dry_base: 1.75, dry_allowed_length: 2, min_tokens: 0,
};

/** {name, label, help, low, high, step, whole, rare}; without a step it is a text. */
export function fieldOf(name) {
  return BY_NAME.get(name);
}

export function labelOf(name) {
  return BY_NAME.get(name).label;
}

export function isNumber(name) {
  return BY_NAME.get(name).step !== null;
}

/** What acts where a chat has chosen nothing; `usual` is what the model or the server names. */
export function usualOf(name, usual = {}) {
  return usual[name] ?? OFF[name] ?? null;
}

/** The widgets' values of a chat, in their order. */
export function valuesOf(session, info) {
  const params = session.params ?? {};
  return FIELDS.map((name) => {
    if (name === "system_prompt") return session.system_prompt ?? info.default_system_prompt ?? "";
    if (name === "stop") return linesOf(params.stop);
    return params[name] ?? OFF[name];
  });
}

export function emptyValues() {
  return FIELDS.map((name) => (name === "stop" ? "" : OFF[name] ?? null));
}

/** What is sent for a widget's value. */
export function storedValue(name, value) {
  if (name !== "stop") return value;
  const texts = (value ?? "").split("\n").filter(Boolean).map((line) => line.replace(/\\([nt\\])/g, (_, sign) => ({ n: "\n", t: "\t", "\\": "\\" })[sign]));
  return texts.length ? texts : null;
}

/** Names of the sampling settings that this chat has of its own and that are not what the model would use. */
export function differing(session, usual) {
  const own = session.own_params ?? {};
  return FIELDS.slice(1).filter((name) => name in own && JSON.stringify(own[name]) !== JSON.stringify(usualOf(name, usual)));
}

/** A value of a setting in words. */
export function inWords(name, value) {
  if (name === "seed" && value === null) return "a new one each time";
  if (name === "stop") return value?.length ? linesOf(value).replaceAll("\n", ", ") : "none";
  return String(value);
}

function linesOf(texts) {
  return (texts ?? []).map((text) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\t", "\\t")).join("\n");
}
