"""Bodies of ``/v1`` requests, checked by hand: each mistake gets a sentence that names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine.errors import RequestError
from ..engine.generate_request import GenerateRequest
from ..engine.sampling_params import SamplingParams
from .api_body import boolean, short, text
from .api_errors import ApiError

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
MAX_PROMPTS = 256
COMPLETION_TOKENS = 16

_SAMPLED = ("temperature", "top_p", "top_k", "min_p")
_NOT_SERVED: dict[str, tuple[Any, ...]] = {
    # field: values that change nothing and are therefore fine
    "n": (1,),
    "best_of": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "prompt_logprobs": (0,),
    "echo": (False,),
    "suffix": ("",),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "min_tokens": (0,),
    "use_beam_search": (False,),
}


@dataclass
class ApiRequest:
    """What a body asks for.

    Attributes:
        requests: one for each prompt, in order.
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
    params = _sampling(body, defaults, limit, None)
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
    params = _sampling(body, defaults, "max_tokens", COMPLETION_TOKENS)
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
        if all(type(one) is int for one in prompt):
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
        if name == "n":
            raise ApiError(400, f"n must be 1, not {short(value)}: send the request several times.", param="n")
        raise ApiError(400, f"{name} is not supported here (given: {short(value)}); leave it out.", param=name)


def _sampling(body: dict[str, Any], defaults: dict[str, Any], limit: str, max_tokens: int | None) -> SamplingParams:
    fields = {name: defaults[name] for name in _SAMPLED if defaults.get(name) is not None}
    fields |= {name: body[name] for name in (*_SAMPLED, "seed") if body.get(name) is not None}
    fields["ignore_eos"] = boolean(body, "ignore_eos")
    fields["stop"] = _stop(body)
    fields["max_tokens"] = body[limit] if body.get(limit) is not None else max_tokens
    try:
        return SamplingParams(**fields)
    except RequestError as error:
        if error.param != "max_tokens":
            raise
        raise ApiError(400, str(error).replace("max_tokens", limit, 1), param=limit) from error


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
