"""The lines between the engine process and its client: one JSON object a line, both ways.

Parent to child: ``start``, ``add``, ``cancel``, ``call`` under "op". Child to parent: ``status``, ``ready``,
``info``, ``metrics``, ``failed``, ``started``, ``refused``, ``step`` (one that may take long begins), ``outputs``,
``events``, ``reply`` under "type". This module knows the shapes, not who sends them when.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import orjson

from . import errors
from .errors import PagedChatError, RequestError
from .generate_request import GenerateRequest, RequestStarted
from .sampling_params import SamplingParams
from .types import RequestMetrics, RequestOutput, TimelineEntry, TokenLogprob, TokenLogprobs

INTERNAL = "internal"
DUMP_SIGNAL = getattr(signal, "SIGUSR1", None)
"""Not a line: on this signal the child writes to its log where its threads are."""
OUTPUT_HEAD = frozenset({"request_id", "index", "token_ids", "text"})
LOGPROBS = ("logprobs", "prompt_logprobs")


def encode(message: dict[str, Any]) -> bytes:
    """One line, its end included.

    Raises:
        RequestError: if a text in it is not valid Unicode (half of a surrogate pair).
    """
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        if "surrogate" not in str(error) and "UTF-8" not in str(error):
            raise
        raise RequestError("The text holds half a character (a lone surrogate); send valid Unicode.") from error


decode = orjson.loads


class LineSplitter:
    """Cuts a byte stream into lines, whatever the sizes in which it arrives."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that ``data`` completes, without their ends."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            if self._parts:
                line = b"".join([*self._parts, line])
                self._parts = []
            yield line
            start = end + 1
        if start < len(data):
            self._parts.append(data[start:])


def request_to_wire(request: GenerateRequest) -> dict[str, Any]:
    """All fields as plain values, the request's own lists among them; JSON wants texts for keys."""
    bias = {str(token): number for token, number in request.params.logit_bias.items()}
    return {**vars(request), "params": {**vars(request.params), "logit_bias": bias}}


def request_from_wire(fields: dict[str, Any]) -> GenerateRequest:
    """The inverse of ``request_to_wire``."""
    return GenerateRequest(**{**fields, "params": SamplingParams(**fields["params"])})


def source_from_wire(fields: dict[str, Any]) -> GenerateRequest:
    """A request that asks about a prompt and generates nothing; ``max_tokens`` is the limit of the reply meant."""
    params = SamplingParams(max_tokens=fields.get("max_tokens"))
    return GenerateRequest(params, **{name: value for name, value in fields.items() if name != "max_tokens"})


def started_to_wire(started: RequestStarted) -> dict[str, Any]:
    """All fields; prompt ids are left out where the segments hold them."""
    fields = dict(vars(started))
    if started.segments:
        fields["prompt_token_ids"] = None
    return fields


def started_from_wire(fields: dict[str, Any]) -> RequestStarted:
    """The inverse of ``started_to_wire``."""
    if fields["prompt_token_ids"] is None:
        ids = [token for segment in fields["segments"] for token in segment]
        fields = {**fields, "prompt_token_ids": ids + fields["generation_ids"]}
    return RequestStarted(**fields)


def output_to_wire(output: RequestOutput) -> list[Any]:
    """A short list, since most outputs are one token and its text; what else is set follows by name."""
    head = [output.request_id, output.index, output.token_ids, output.text]
    rest = {
        name: value for name, value in vars(output).items() if name not in OUTPUT_HEAD and value not in (None, False)
    }
    for name in LOGPROBS:
        if name in rest:
            rest[name] = [None if one is None else _logprobs_to_wire(one) for one in rest[name]]
    if output.metrics is not None:
        rest["metrics"] = asdict(output.metrics)
    return [*head, rest] if rest else head


def output_from_wire(fields: list[Any]) -> RequestOutput:
    """The inverse of ``output_to_wire``."""
    request_id, index, token_ids, text, *more = fields
    rest = dict(more[0]) if more else {}
    if "metrics" in rest:
        metrics = dict(rest["metrics"])
        timeline = [TimelineEntry(**entry) for entry in metrics.pop("timeline")]
        rest["metrics"] = RequestMetrics(**metrics, timeline=timeline)
    for name in LOGPROBS:
        if name in rest:
            rest[name] = [None if one is None else _logprobs_from_wire(one) for one in rest[name]]
    return RequestOutput(request_id, token_ids, text, index=index, **rest)


def _logprobs_to_wire(one: TokenLogprobs) -> list[Any]:
    """A flat list: four values of the token itself, then four of each likely one. JSON has no -inf: null."""
    return [value for each in (one, *one.top) for value in _logprob_to_wire(each)]


def _logprob_to_wire(one: TokenLogprob) -> tuple[int, float | None, int, str]:
    logprob = one.logprob if math.isfinite(one.logprob) else None
    return one.token_id, logprob, one.rank, one.piece.decode("latin-1")


def _logprobs_from_wire(fields: list[Any]) -> TokenLogprobs:
    each = [
        TokenLogprob(token, -math.inf if logprob is None else logprob, rank, piece.encode("latin-1"))
        for token, logprob, rank, piece in zip(*[iter(fields)] * 4, strict=True)
    ]
    return TokenLogprobs(**vars(each[0]), top=each[1:])


def error_to_wire(error: BaseException) -> dict[str, str]:
    """Errors of ours keep text, public class and the field to blame; of others only a sentence crosses, the rest
    belongs in the log."""
    if isinstance(error, PagedChatError):
        public = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        param = error.param if isinstance(error, RequestError) else None
        return {"kind": public.__name__, "text": str(error), **({"param": param} if param else {})}
    if errors.is_out_of_memory(error):
        return {"kind": INTERNAL, "text": errors.OUT_OF_MEMORY}
    return {"kind": INTERNAL, "text": f"The engine met an internal error ({type(error).__name__}); its log says more."}


def error_from_wire(fields: dict[str, str]) -> PagedChatError:
    """The error to raise on this side."""
    kind = getattr(errors, fields["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, PagedChatError)):
        kind = errors.EngineError
    return kind(fields["text"], fields.get("param")) if issubclass(kind, RequestError) else kind(fields["text"])
