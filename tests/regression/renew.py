"""Recipe of the regression set: writes ``app/bench/data/regression.json`` anew.

    python tests/regression/renew.py MODEL.gguf [OUT.json]

Questions come from `conversations`, their ids from the model's chat template, and every reply from plain transformers
alone: its own reader of the GGUF file, float32, eager attention, greedy, no paging and nothing batched. A reply ends at
the end of its turn, at its length, or before the first token that is too close a call: where the two best logits differ
by less than `CLOSE_CALL`, float32 sums taken in another order may choose the other one. To read GGUF files,
transformers needs ``accelerate`` beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import transformers

import pagedchat.app
from pagedchat.engine.models.checkpoint import open_checkpoint
from pagedchat.engine.prompt import PromptBuilder, PromptMessage, load_prompt_builder
from pagedchat.engine.tokenizer import Tokenizer, load_tokenizer
from regression.conversations import CONVERSATIONS, Conversation

OUT = Path(pagedchat.app.__file__).parent / "bench/data" / "regression.json"
CLOSE_CALL = 0.005
FEWEST = 4


def greedy(model: Any, prompt: list[int], most: int, ends: frozenset[int]) -> tuple[list[int], float]:
    """A greedy reply of plain transformers and its closest call, the least difference of its two best logits."""
    reply: list[int] = []
    closest = float("inf")
    past, fed = None, prompt
    with torch.inference_mode():
        while len(reply) < most and not (reply and reply[-1] in ends):
            step = model(torch.tensor([fed]), past_key_values=past, use_cache=True)
            best, next_best = step.logits[0, -1].topk(2).values.tolist()
            if best - next_best < CLOSE_CALL:
                break
            closest = min(closest, best - next_best)
            past, fed = step.past_key_values, [int(step.logits[0, -1].argmax())]
            reply += fed
    return reply, closest


def answer(model: Any, builder: PromptBuilder, tokenizer: Tokenizer, chat: Conversation) -> dict[str, Any]:
    """One case of the file: the ids of every turn's prompt and reply."""
    messages = [PromptMessage("system", chat.system)] if chat.system else []
    for question, reply in chat.examples:
        messages += [PromptMessage("user", question), PromptMessage("assistant", reply)]
    turns = []
    for question in chat.questions:
        messages.append(PromptMessage("user", question))
        built = builder.build(messages)
        reply, closest = greedy(model, built.token_ids, chat.most, tokenizer.end_ids)
        if len(reply) < min(FEWEST, chat.most):
            raise SystemExit(f"{chat.kind} {chat.name!r}: token {len(reply)} is a close call; ask it in other words.")
        text = tokenizer.decode(reply)
        turns.append({"prompt": built.token_ids, "reply": reply, "text": text, "closest_call": round(closest, 4)})
        print(f"{chat.kind:>10} {chat.name:<20} {len(built.token_ids):>5} {len(reply):>3} {closest:7.4f} {text!r}")
        kept = [PromptMessage(m.role, m.content, ids or None) for m, ids in zip(messages, built.segments, strict=True)]
        messages = [*kept, PromptMessage("assistant", text, built.generation_ids + reply)]
    return {"name": chat.name, "kind": chat.kind, "turns": turns}


def main(path: Path, out: Path) -> None:
    """Ask everything and write the file."""
    checkpoint = open_checkpoint(str(path))
    tokenizer = load_tokenizer(checkpoint)
    builder = load_prompt_builder(tokenizer)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    cases = [answer(model, builder, tokenizer, chat) for chat in CONVERSATIONS]
    data = {
        "model": path.name,
        "source": f"transformers {transformers.__version__}, greedy, dequantized float32 weights, eager attention",
        "recipe": "tests/regression/renew.py",
        "cases": cases,
    }
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in data.pop("cases")]
    head = json.dumps(data, ensure_ascii=False)[:-1]
    out.write_text(f'{head}, "cases": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else OUT)
