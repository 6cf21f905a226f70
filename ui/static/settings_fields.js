// The settings of a chat by name: what they are called, what stands for "not chosen", and how widgets hold them.

export const FIELDS = [ // in the order of the widgets; the server knows the same (settings_page.py)
  "system_prompt", "temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "stop", "repetition_penalty",
  "presence_penalty", "frequency_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "min_tokens",
];
export const LABELS = { // of numbers
  temperature: "Temperature", top_p: "Top-p", top_k: "Top-k", min_p: "Min-p", max_tokens: "Reply limit", seed: "Seed",
  repetition_penalty: "Repetition penalty", presence_penalty: "Presence penalty", frequency_penalty: "Frequency penalty",
  dry_multiplier: "DRY strength", dry_base: "DRY base", dry_allowed_length: "DRY allowed length", min_tokens: "Least tokens",
};
export const NAMES = { system_prompt: "system prompt", stop: "stop texts" }; // of those that are no numbers
export const RARE = FIELDS.slice(FIELDS.indexOf("repetition_penalty"));
const OFF = {
  temperature: 1, top_p: 1, top_k: 0, min_p: 0, max_tokens: 1024, seed: null, stop: null, repetition_penalty: 1,
  presence_penalty: 0, frequency_penalty: 0, dry_multiplier: 0, dry_base: 1.75, dry_allowed_length: 2, min_tokens: 0,
};

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
