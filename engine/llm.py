"""Offline inference in the call shape people know from vLLM: ``LLM(path).generate(prompts, params)``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import platformdirs

from .config import EngineConfig
from .engine import Engine
from .errors import ConfigError, ModelFileError, RequestError
from .sampling_params import SamplingParams
from .types import RequestMetrics, RequestOutput, TokenLogprobs

TRAINING_ARGUMENTS = frozenset(
    {"gradient_checkpointing", "learning_rate", "optimizer", "num_train_epochs", "lora_rank"}
)


@dataclass
class CompletionOutput:
    """One generated text: ``token_ids`` include an end-of-turn id that was sampled.

    ``logprobs`` has an entry for each of them, if asked for.
    """

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    logprobs: list[TokenLogprobs] | None = None


@dataclass
class GenerationResult:
    """What one prompt brought; ``metrics`` says how it was served.

    ``prompt_logprobs`` has an entry for each prompt token, None for the first, if asked for.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    metrics: RequestMetrics | None = None
    finished: bool = True
    prompt_logprobs: list[TokenLogprobs | None] | None = None


class LLM:
    """A model in this process, for scripts.

    Args:
        model: path of a GGUF file or a Hugging Face directory, the name of a file in the models folder, or an id on
            the Hugging Face hub.
        settings: fields of `EngineConfig`, by name.

    Raises:
        ConfigError: on a setting that does not exist; training settings are refused by name.
        ModelFileError: when there is no such model.
    """

    def __init__(self, model: str | Path, **settings: Any) -> None:
        known = {one.name for one in fields(EngineConfig)} - {"model"}
        for name in settings:
            if name in TRAINING_ARGUMENTS:
                raise ConfigError(f"{name} is a training setting; pagedchat only runs models, it does not train them.")
            if name not in known:
                raise ConfigError(f"There is no engine setting {name!r}; there are: {', '.join(sorted(known))}.")
        self.engine = Engine(EngineConfig(model=find_model(model), **settings))
        self._count = 0

    def generate(
        self,
        prompts: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[GenerationResult]:
        """Complete prompts (texts, or lists of token ids), all of them batched; results in the order of the prompts.

        Raises:
            RequestError: when a prompt can never be served; then none is.
        """
        tokenized = [self._tokenize(one) for one in _as_list(prompts)]
        return self._run(tokenized, sampling_params)

    def chat(
        self, messages: list[dict[str, str]] | list[list[dict[str, str]]], sampling_params: SamplingParams | None = None
    ) -> list[GenerationResult]:
        """Answer a conversation, or each of several, through the model's chat template."""
        from .prompt import PromptMessage

        several = messages if messages and isinstance(messages[0], list) else [messages]
        builder = self.engine.prompt_builder
        if builder is None:
            raise RequestError("This engine has no chat template.")
        prompts = [
            builder.build([PromptMessage(one["role"], one["content"]) for one in conversation]).token_ids  # type: ignore[index]
            for conversation in several
        ]
        return self._run([(None, ids) for ids in prompts], sampling_params)

    def _tokenize(self, prompt: str | Sequence[int]) -> tuple[str | None, list[int]]:
        if isinstance(prompt, str):
            return prompt, self.engine.tokenizer.encode_prompt(prompt)
        return None, list(prompt)

    def _run(
        self,
        prompts: list[tuple[str | None, list[int]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None,
    ) -> list[GenerationResult]:
        params = _params_for(sampling_params, len(prompts))
        results: dict[str, GenerationResult] = {}
        try:
            for (text, ids), one in zip(prompts, params, strict=True):
                name = f"llm-{self._count}"
                self._count += 1
                self.engine.add_request(name, ids, one)
                results[name] = GenerationResult(name, text, ids, [CompletionOutput(index) for index in range(one.n)])
            while self.engine.has_unfinished():
                for output in self.engine.step():
                    _add(results[output.request_id], output)
        except BaseException:
            for name in results:
                self.engine.cancel(name)
            while self.engine.has_unfinished():
                self.engine.step()
            raise
        return list(results.values())


def find_model(model: str | Path) -> str:
    """Path of a model: as given, in the models folder, or fetched from the Hugging Face hub.

    Raises:
        ModelFileError: when it is in none of them.
    """
    if Path(model).expanduser().exists():
        return str(Path(model).expanduser())
    named = os.environ.get("PAGEDCHAT_MODELS_DIR")
    folder = Path(named).expanduser() if named else platformdirs.user_data_path("pagedchat", appauthor=False) / "models"
    for name in (str(model), f"{model}.gguf"):
        if (folder / name).exists():
            return str(folder / name)
    if str(model).count("/") == 1 and not str(model).endswith(".gguf") and not str(model).startswith((".", "/", "~")):
        return _from_hub(str(model))
    raise ModelFileError(f"There is no model at {model}, and none of that name in {folder}.")


def _from_hub(model_id: str) -> str:
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(model_id, ignore_patterns=["*.bin", "*.pt", "*.pth", "*.onnx", "*.gguf"])
    except Exception as error:
        raise ModelFileError(f"There is no model at {model_id}, and the hub did not give one: {error}") from error


def _as_list(prompts: Any) -> list[Any]:
    if isinstance(prompts, str) or (len(prompts) and isinstance(prompts[0], int)):
        return [prompts]
    return list(prompts)


def _params_for(given: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if given is None or isinstance(given, SamplingParams):
        return [given or SamplingParams()] * count
    if len(given) != count:
        raise RequestError(f"{count} prompts came with {len(given)} sampling parameters.")
    return list(given)


def _add(result: GenerationResult, output: RequestOutput) -> None:
    completion = result.outputs[output.index]
    completion.text += output.text
    completion.token_ids += output.token_ids
    completion.finish_reason = output.finish_reason or completion.finish_reason
    if output.logprobs is not None:
        completion.logprobs = [*(completion.logprobs or []), *output.logprobs]
    result.prompt_logprobs = output.prompt_logprobs or result.prompt_logprobs
    if output.index == 0:
        result.metrics = output.metrics or result.metrics
