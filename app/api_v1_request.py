"""Bodies of ``/v1`` requests, checked by hand: each mistake gets a sentence that names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine.errors import RequestError
from ..engine.generate_request import OWN_WORK, GenerateRequest
from ..engine.sampling_params import SamplingParams
from .api_body import boolean, short, text
from .api_errors import ApiError

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
MAX_PROMPTS = 256
COMPLETION_TOKENS = 16

_DEFAULTED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Controls that follow the model's own recommendation where a request is silent."""
_PASSED = (
    *_DEFAULTED,
    "presence_penalty",
    "frequency_penalty",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_sequence_breakers",
    "logit_bias",
    "seed",
    "n",
    "min_tokens",
    "stop_token_ids",
    "prompt_logprobs",
)
_NOT_SERVED: dict[str, tuple[Any, ...]] = {
    # field: values that change nothing and are therefore fine
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "bad_words": ([],),
    "use_beam_search": (False,),
}


@dataclass
class ApiRequest:
    """What a body asks for.

    Attributes:
        requests: one for each prompt, in order, all with the same sampling.
    """

    requests: list[GenerateRequest]
    stream: bool
    include_usage: bool
    return_token_ids: bool


def chat_request(body: dict[str, Any], defaults: dict[str, Any]) -> ApiRequest:
    """Check the body of a chat completion. ``defaults`` is the model's own sampling.

    Raises:
        ApiError: 400 with the field and what it may be.
    """
    limit = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    named = {"max_tokens": limit, "logprobs": "top_logprobs"}
    params = _sampling(body, defaults, named, {"max_tokens": body.get(limit), "logprobs": _chat_logprobs(body)})
    request = GenerateRequest(
        params,
        messages=_messages(body),
        template_args=_template_args(body),
        salt=text(body, "cache_salt"),
        remember=True,
    )
    return _request(body, [request])


def completion_request(body: dict[str, Any], defaults: dict[str, Any]) -> ApiRequest:
    """Check the body of a completion; without ``max_tokens`` a reply has 16 tokens, as OpenAI's has.

    Raises:
        ApiError: 400 with the field and what it may be.
    """
    limit, logprobs = body.get("max_tokens"), body.get("logprobs")
    own = {"max_tokens": COMPLETION_TOKENS if limit is None else limit}
    own["logprobs"] = None if logprobs is False else logprobs  # false is how others write that there are none
    params = _sampling(body, defaults, {}, own)
    salt = text(body, "cache_salt")
    return _request(body, [GenerateRequest(params, salt=salt, **prompt) for prompt in prompts(body)])


def prompts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The prompts of a completion as fields of ``GenerateRequest``: text, texts, ids, or lists of ids.

    Raises:
        ApiError: 400 if ``prompt`` is none of them.
    """
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [{"prompt": prompt}]
    if isinstance(prompt, list) and prompt:
        if set(map(type, prompt)) == {int}:
            return [{"prompt_token_ids": prompt}]
        if len(prompt) > MAX_PROMPTS:
            raise ApiError(400, f"prompt has {len(prompt)} prompts; {MAX_PROMPTS} are accepted.", param="prompt")
        if all(isinstance(one, str) for one in prompt):
            return [{"prompt": one} for one in prompt]
        if all(isinstance(one, list) and one and all(type(token) is int for token in one) for one in prompt):
            return [{"prompt_token_ids": one} for one in prompt]
    raise ApiError(
        400,
        f"prompt must be a text, a list of texts, a list of token ids or a list of such lists, not {short(prompt)}.",
        param="prompt",
    )


def check_model(body: dict[str, Any], served: str) -> None:
    """Refuse a body that asks for another model.

    Raises:
        ApiError: 404 if the body names a model other than ``served``, 400 if it names none that could be.
    """
    name = body.get("model", served)
    if not isinstance(name, str):
        raise ApiError(400, f"model must be a text, not {short(name)}.", param="model")
    if name != served:
        message = f"The model {short(name)} is not served here; the one that is is {short(served)}."
        raise ApiError(404, message, param="model", code="model_not_found")


def _request(body: dict[str, Any], requests: list[GenerateRequest]) -> ApiRequest:
    _refuse_what_is_not_served(body)
    if boolean(body, "own_work"):
        for one in requests:
            one.request_id = OWN_WORK + one.request_id
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise ApiError(400, f"stream_options must be an object, not {short(options)}.", param="stream_options")
    return ApiRequest(
        requests,
        stream=boolean(body, "stream"),
        include_usage=boolean(options or {}, "include_usage"),
        return_token_ids=boolean(body, "return_token_ids"),
    )


def _refuse_what_is_not_served(body: dict[str, Any]) -> None:
    for name, harmless in _NOT_SERVED.items():
        value = body.get(name)
        if value is None or any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in harmless):
            continue
        raise ApiError(400, f"{name} is not supported here (given: {short(value)}); leave it out.", param=name)


def _sampling(
    body: dict[str, Any], defaults: dict[str, Any], named: dict[str, str], own: dict[str, Any]
) -> SamplingParams:
    """The controls of a body.

    Args:
        named: what the body calls some of them, for errors.
        own: controls that the two kinds of request write differently.
    """
    fields = {name: defaults[name] for name in _DEFAULTED if defaults.get(name) is not None}
    fields |= {name: body[name] for name in _PASSED if body.get(name) is not None}
    fields |= {"ignore_eos": boolean(body, "ignore_eos"), "stop": _stop(body), **own}
    if fields.get("prompt_logprobs") is not None and boolean(body, "stream"):
        message = "prompt_logprobs are not told in a stream; leave out stream or prompt_logprobs."
        raise ApiError(400, message, param="prompt_logprobs")
    try:
        return SamplingParams(**fields)
    except RequestError as error:
        name = named.get(error.param or "")
        if name is None:
            raise
        raise ApiError(400, str(error).replace(error.param or "", name, 1), param=name) from error


def _chat_logprobs(body: dict[str, Any]) -> Any:
    """How many likely tokens to tell beside each one of a chat's reply; None for no log probabilities at all."""
    asked, count = boolean(body, "logprobs"), body.get("top_logprobs")
    if count is None or asked:
        return (count or 0) if asked else None
    if count != 0 or isinstance(count, bool):
        raise ApiError(400, "top_logprobs need logprobs to be true.", param="top_logprobs")
    return None


def _stop(body: dict[str, Any]) -> list[str]:
    stop = body.get("stop")
    if stop is None or stop == "":
        return []
    texts = [stop] if isinstance(stop, str) else stop
    if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts):
        message = f"stop must be a text or a list of texts, none of them empty, not {short(stop)}."
        raise ApiError(400, message, param="stop")
    return texts


def _template_args(body: dict[str, Any]) -> dict[str, Any]:
    """vLLM's field for variables of the chat template, such as ``enable_thinking``."""
    found = body.get("chat_template_kwargs")
    if found is not None and not isinstance(found, dict):
        message = f"chat_template_kwargs must be an object, not {short(found)}."
        raise ApiError(400, message, param="chat_template_kwargs")
    return found or {}


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError(400, f"messages must be a list of messages, not {short(messages)}.", param="messages")
    return [_message(one, f"messages[{index}]") for index, one in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise ApiError(400, f"{where} must be an object with role and content, not {short(message)}.", param=where)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(ROLES)
        raise ApiError(400, f"{where}.role must be one of {known}, not {short(role)}.", param=f"{where}.role")
    if message.get("tool_calls"):
        raise ApiError(400, f"{where}.tool_calls is not supported here; leave it out.", param=f"{where}.tool_calls")
    return {"role": ROLES[role], "content": _content(message.get("content"), f"{where}.content")}


def _content(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise ApiError(400, f"{where} must be a text or a list of text parts, not {short(content)}.", param=where)
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            message = f"{where} may hold text parts only, not {short(part)}: images and sound are not understood here."
            raise ApiError(400, message, param=where)
        parts.append(part["text"])
    return "".join(parts)
