// What computes the replies, and what becomes of a chat that outgrows the context. Both are chosen when pagedchat starts.

import { h } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { copyable, facts, heading, page } from "./settings_parts.js";

const POLICIES = [
  ["trim", "Leave out the oldest turns", "The system prompt and the newest whole turns are sent, with room for the reply. The place of the cut stays for as long as it can, so that most of the prompt is still found in the cache. Under each reply stands how much was left out; the chat itself keeps every message."],
  ["refuse", "Refuse", "A message that has no room is refused before it is stored, with both numbers. Nothing is ever left out; branch from an earlier message or begin a new chat to go on."],
];

export function modelSection(settings) {
  const place = h("div.set-engine", { "data-testid": "engine-facts" });
  const element = page("model", null, place, heading("Another model"),
    h("p", {}, "One model runs from start to end. For another, stop pagedchat and start it with a path, or with a name from the models folder:"),
    copyable("pagedchat --model PATH", "the command"),
    h("p", {}, "Device, precision and memory are flags too: ", copyable("pagedchat serve --help", "the command that lists the flags")));
  return { id: "model", title: "Model and device", icon: "grid", element, fill: () => place.replaceChildren(...engineFacts(settings)) };
}

function engineFacts({ info }) {
  if (!info.model) return [h("p", {}, "No model is loaded at the moment.")];
  const blocks = info.kv_bytes && `${count(info.num_blocks)} blocks of ${count(info.block_size)}, ${count(info.num_blocks * info.block_size)} tokens, ${bytes(info.kv_bytes)}`;
  const since = info.rolled_back && new Date(info.rolled_back).toLocaleString();
  return [
    facts([
      ["Model", info.model],
      ["Computes", info.dtype && `${info.dtype} on ${info.device}`],
      ["Kernels", info.kernels && `${info.kernels} kernels${info.reason ? `: ${info.reason}` : ""}`],
      ["Threads", info.threads && plural(info.threads, "thread")],
      ["Context", info.max_model_len && `${count(info.max_model_len)} tokens for prompt and reply`],
      ["KV cache", blocks],
      ["Shared prefixes", info.prefix_caching === false ? "off: every prompt is computed anew" : null],
      ["At once", info.max_num_seqs && `${count(info.max_num_seqs)} replies at once; more wait their turn`],
      ["Same tokens always", info.deterministic ? "yes, alone and in company" : null],
      ["Remarks", (info.warnings ?? []).join(" ")],
    ]),
    since && h("p", {}, `Rolled back since ${since} to the configuration that answered before; `,
      h("code", {}, "pagedchat rollback --undo"), " on the terminal and a new start return to your own settings."),
  ].filter(Boolean);
}

export function contextSection(settings) {
  const list = h("ul.set-choices");
  const change = h("p", {});
  const element = page("context", "What happens when a chat has more tokens than the model's context holds. It holds for all chats.", list, change);
  const fill = () => {
    const { installation } = settings.facts;
    const acts = installation?.context_policy;
    const length = settings.info.max_model_len;
    list.replaceChildren(...POLICIES.map(([name, title, words]) => h(name === acts ? "li.acts" : "li", { "data-policy": name },
      h("b", {}, title), h("code", {}, name), name === acts && h("span.set-acts", {}, "acts now"), h("p", {}, words))));
    const other = POLICIES.find(([name]) => name !== acts)?.[0];
    change.replaceChildren(length ? `This model's context has ${count(length)} tokens. ` : "", "To change it, start pagedchat with ",
      copyable(`pagedchat serve --context-policy ${acts ? other : "trim"}`, "the command"));
  };
  return { id: "context", title: "Context policy", icon: "compare", element, fill };
}
