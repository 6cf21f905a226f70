"""Chat templates that came with a model: untrusted Jinja code, run in a sandbox and against the clock.

The environment is the one transformers gives templates (`render_jinja_template`): immutable sandbox, trimmed blocks,
loop controls, `raise_exception`, `strftime_now`, a `tojson` that escapes nothing, `{% generation %}` blocks. On top of
it every turn of a loop and every call of a macro looks at the clock, and numbers that could make a value of a thousand
megabytes are refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from .errors import RequestError

TIME_LIMIT_S = 2.0
LARGEST_NUMBER = 100_000
LARGEST_TEXT = 50_000_000

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN_TURNS = (
    "{% for message in messages %}{{ message['role'] | capitalize + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


class ChatTemplateError(RequestError):
    """The model's chat template refused the chat, is broken, or does what it may not."""


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text.
        variables: what the template may name besides the messages, such as ``bos_token``.
    """

    def __init__(self, source: str, variables: Mapping[str, str] | None = None) -> None:
        self.source = source
        self._variables = dict(variables or {})
        self._clock = _Clock()

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = False) -> str:
        """Text of a chat.

        Raises:
            ChatTemplateError: with one sentence; for what the template itself raised, its own words.
        """
        self._clock.start()
        try:
            pieces = self._compiled.generate(
                messages=[dict(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
            return _joined(pieces)
        except ChatTemplateError:
            raise
        except Exception as error:  # whatever untrusted code may raise
            raise _as_template_error(error) from None

    @cached_property
    def literal_text(self) -> str:
        """All the text that the template itself can write, joined by null characters."""
        from jinja2 import nodes

        try:
            tree = self._compiled.environment.parse(self.source)
        except Exception as error:  # whatever untrusted code may raise
            raise _as_template_error(error) from None
        found = {node.data for node in tree.find_all(nodes.TemplateData)}
        found |= {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
        return "\0".join(found)

    @cached_property
    def _compiled(self) -> Any:
        try:
            return _environment(self._clock).from_string(self.source)
        except Exception as error:  # whatever untrusted code may raise
            raise _as_template_error(error) from None


class _Clock:
    """The time a rendering may still take."""

    def __init__(self) -> None:
        self._end = 0.0

    def start(self) -> None:
        self._end = time.monotonic() + TIME_LIMIT_S

    def check(self) -> str:
        if time.monotonic() > self._end:
            raise ChatTemplateError(
                f"The model's chat template ran for more than {TIME_LIMIT_S:g} seconds and was stopped. "
                "Choose another model or file."
            )
        return ""


def _as_template_error(error: Exception) -> ChatTemplateError:
    from jinja2.exceptions import SecurityError, TemplateSyntaxError

    reason = str(error) or type(error).__name__
    if isinstance(error, SecurityError):
        return ChatTemplateError(f"The model's chat template tried something it may not do and was stopped: {reason}")
    if isinstance(error, TemplateSyntaxError):
        return ChatTemplateError(f"The model's chat template cannot be read: {reason}")
    return ChatTemplateError(f"The model's chat template cannot render this chat: {reason}")


def _environment(clock: _Clock) -> Any:
    """The sandbox, built on first use: importing Jinja costs 40 ms."""
    import jinja2.compiler
    import jinja2.ext
    import jinja2.nodes
    import jinja2.utils
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationBlock(jinja2.ext.Extension):
        """`{% generation %}` marks what a model wrote, for training; rendered as it is."""

        tags = {"generation"}  # noqa: RUF012 - the base class declares it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    class Generator(jinja2.compiler.CodeGenerator):
        def visit_Concat(self, node: Any, frame: Any) -> None:
            self.write("environment.join_texts((")
            for part in node.nodes:
                self.visit(part, frame)
                self.write(", ")
            self.write("))")

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "%", "+"})
        code_generator_class = Generator

        def unsafe_undefined(self, obj: Any, attribute: str) -> Any:
            raise SecurityError(f"access to {attribute!r} of a {type(obj).__name__} is not allowed.")

        def join_texts(self, parts: Sequence[Any]) -> str:
            return _joined(str(part) for part in parts)

        def _generate(self, source: Any, *args: Any, **kwargs: Any) -> Any:
            for node in source.find_all((jinja2.nodes.For, jinja2.nodes.Macro, jinja2.nodes.CallBlock)):
                look = jinja2.nodes.Call(jinja2.nodes.EnvironmentAttribute("check_clock"), [], [], None, None)
                node.body.insert(0, jinja2.nodes.ExprStmt(look))
            source.set_environment(self)
            return super()._generate(source, *args, **kwargs)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            clock.check()
            _refuse_large(operator, left, right)
            return super().call_binop(context, operator, left, right)

        def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore
            clock.check()
            _refuse_numbers(args, kwargs)
            return super().call(context, obj, *args, **kwargs)

    class Namespace(jinja2.utils.Namespace):
        def __init__(*args: Any, **kwargs: Any) -> None:
            self, args = args[0], args[1:]
            attributes = dict(*args, **kwargs)
            for name in attributes:
                _refuse_private(name)
            jinja2.utils.Namespace.__init__(self, attributes)

        def __setitem__(self, name: str, value: Any) -> None:
            _refuse_private(name)
            super().__setitem__(name, value)

    def _refuse_private(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"names that begin with an underscore are not allowed ({name!r}).")

    def raise_exception(message: str) -> None:
        raise TemplateError(str(message))

    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols]
    )
    environment.check_clock = clock.check  # type: ignore[attr-defined]
    for name, function in list(environment.filters.items()):
        environment.filters[name] = _checked_filter(function, clock)
    environment.filters["tojson"] = _tojson
    environment.globals.pop("lipsum", None)
    environment.globals["dict"] = _PlainDict()
    environment.globals["namespace"] = Namespace
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
    return environment


class _PlainDict:
    """`dict(...)` for templates, without the type's own attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict:
        return dict(*args, **kwargs)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _checked_filter(function: Any, clock: _Clock) -> Any:
    """The filter, refusing numbers that would make it build a huge text."""
    from functools import wraps

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        clock.check()
        _refuse_numbers(args, kwargs)
        return function(*args, **kwargs)

    return checked


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
        large = isinstance(left, str) and any(len(digits) > 5 for digits in _digit_runs(left))
    if large:
        raise ChatTemplateError("The model's chat template builds a value that is far too large and was stopped.")


def _joined(parts: Iterable[str]) -> str:
    kept, length = [], 0
    for part in parts:
        length += len(part)
        if length > LARGEST_TEXT:
            raise ChatTemplateError("The model's chat template writes far too much text and was stopped.")
        kept.append(part)
    return "".join(kept)


def _digit_runs(text: str) -> list[str]:
    return "".join(character if character.isdigit() else " " for character in text).split()
