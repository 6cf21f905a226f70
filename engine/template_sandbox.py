"""The sandbox that chat templates run in: Jinja's immutable one, with a clock and with limits on size.

The environment is the one transformers gives templates (`render_jinja_template`): immutable sandbox, trimmed blocks,
loop controls, `raise_exception`, `strftime_now`, a `tojson` that escapes nothing, `{% generation %}` blocks. On top of
it every turn of a loop and every call looks at the clock, and values of many megabytes are refused.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from typing import Any

import jinja2.ext
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.filters import do_format
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from .errors import RequestError

LARGEST_NUMBER = 100_000
LARGEST_TEXT = 50_000_000
_WIDE = re.compile(r"\d{6}")


class ChatTemplateError(RequestError):
    """The model's chat template refused the chat, is broken, or does what it may not."""


class Clock:
    """The time a rendering may still take."""

    def __init__(self) -> None:
        self._limit = self._end = 0.0

    def start(self, limit_s: float) -> None:
        """Begin to count."""
        self._limit, self._end = limit_s, time.monotonic() + limit_s

    def check(self) -> None:
        """Raise a `ChatTemplateError` once the time is over."""
        if time.monotonic() > self._end:
            raise ChatTemplateError(
                f"The model's chat template ran for more than {self._limit:g} seconds and was stopped. "
                "Choose another model or file."
            )


class GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks what a model wrote, for training; rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it

    def parse(self, parser: Any) -> nodes.Node:
        """Read the block up to its end."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Generator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Any) -> None:
        self.write("environment.join_texts((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """The environment of one template, whose ``clock`` the renderer starts."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})
    code_generator_class = _Generator

    def __init__(self, clock: Clock) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols])
        self.clock = clock
        self.check_clock = clock.check
        for name, function in list(self.filters.items()):
            self.filters[name] = _limited(function, clock)
        self.filters["format"] = _format
        self.filters["tojson"] = _tojson
        self.globals.pop("lipsum", None)
        self.globals |= {
            "dict": _PlainDict(),
            "namespace": _PublicNamespace,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        for node in source.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
            look = nodes.Call(nodes.EnvironmentAttribute("check_clock"), [], [], None, None)
            node.body.insert(0, nodes.ExprStmt(look))
        source.set_environment(self)
        return super()._generate(source, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """An operation that could make a huge value, if it does not."""
        self.clock.check()
        _refuse_large(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore
        """A call, if none of its numbers is huge."""
        self.clock.check()
        _refuse_numbers(args, kwargs)
        return super().call(context, obj, *args, **kwargs)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
        """Say at once what was reached for."""
        raise SecurityError(f"access to {attribute!r} of a {type(obj).__name__} is not allowed.")

    def wrap_str_format(self, value: Any) -> Any:
        """`str.format`, refusing widths that would make a huge text."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        @wraps(wrapped)
        def limited(*args: Any, **kwargs: Any) -> str:
            _refuse_wide(value.__self__)
            return wrapped(*args, **kwargs)

        return limited

    def join_texts(self, parts: Iterable[Any]) -> str:
        """What `~` does."""
        return join_limited(str(part) for part in parts)


def join_limited(parts: Iterable[str]) -> str:
    """Join texts, unless they grow out of all measure."""
    kept, length = [], 0
    for part in parts:
        length += len(part)
        if length > LARGEST_TEXT:
            raise ChatTemplateError("The model's chat template writes far too much text and was stopped.")
        kept.append(part)
    return "".join(kept)


class _PublicNamespace(Namespace):
    """`namespace(...)` without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a template may pass `self=`
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            _refuse_private(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


class _PlainDict:
    """`dict(...)` without the type's own attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict:
        return dict(*args, **kwargs)


def _raise_exception(message: str) -> None:
    raise TemplateError(str(message))


def _strftime_now(text: str) -> str:
    return datetime.now().strftime(text)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _limited(function: Callable, clock: Clock) -> Callable:
    """The filter, refusing numbers that would make it build a huge text."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        clock.check()
        _refuse_numbers(args, kwargs)
        return function(*args, **kwargs)

    return checked


def _refuse_private(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"names that begin with an underscore are not allowed ({name!r}).")


def _refuse_numbers(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise ChatTemplateError(f"The model's chat template asks for {value:.3g} of something and was stopped.")


def _refuse_large(operator: str, left: Any, right: Any) -> None:
    if operator == "**":
        _refuse_numbers((left, right), {})
        large = isinstance(right, (int, float)) and abs(right) > 1000
    elif operator == "*":
        large = any(
            isinstance(times, int) and hasattr(one, "__len__") and len(one) * times > LARGEST_TEXT
            for one, times in ((left, right), (right, left))
        )
    elif operator == "+":
        large = hasattr(left, "__len__") and hasattr(right, "__len__") and len(left) + len(right) > LARGEST_TEXT
    else:
        large = False
        _refuse_wide(left)
    if large:
        raise ChatTemplateError("The model's chat template builds a value that is far too large and was stopped.")


def _refuse_wide(layout: Any) -> None:
    """Refuse `%9999999d` and its like."""
    if isinstance(layout, str) and _WIDE.search(layout):
        raise ChatTemplateError("The model's chat template asks for a far too wide text and was stopped.")


def _format(layout: Any, *args: Any, **kwargs: Any) -> str:
    _refuse_wide(layout)
    return do_format(layout, *args, **kwargs)
