"""Chat templates that came with a model: untrusted code, run in a sandbox and against the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError

from .chat_date import DATE_NAMES
from .template_sandbox import ChatTemplateError, Clock, TemplateSandbox, join_limited

__all__ = ["CHATML", "PLAIN_TURNS", "ChatTemplate", "ChatTemplateError"]

TIME_LIMIT_S = 2.0

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PLAIN_TURNS = (
    "{% for message in messages %}{{ message['role'] | capitalize + ': ' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text.
        variables: what the template may name besides the messages, such as ``bos_token``.
    """

    def __init__(self, source: str, variables: Mapping[str, Any] | None = None) -> None:
        self.source = source
        self._variables = dict(variables or {})
        self._clock = Clock()

    def with_variables(self, variables: Mapping[str, Any]) -> ChatTemplate:
        """The same template, given more variables (``enable_thinking``, say)."""
        _ = self._compiled  # shared by all copies
        other = copy(self)
        other._variables = {**self._variables, **variables}
        return other

    def render(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = False) -> str:
        """Text of a chat.

        Raises:
            ChatTemplateError: with one sentence; for what the template itself raised, its own words.
        """
        self._clock.start(TIME_LIMIT_S)
        try:
            pieces = self._compiled.generate(
                messages=[dict(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._variables,
            )
            return join_limited(pieces)
        except ChatTemplateError:
            raise
        except Exception as error:  # whatever untrusted code may raise
            raise _as_template_error(error) from None

    @property
    def writes_dates(self) -> bool:
        """Whether it asks for the date."""
        return any(name in self.source for name in DATE_NAMES)

    @cached_property
    def literal_text(self) -> str:
        """All the text that the template itself can write, joined by null characters."""
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
            return TemplateSandbox(self._clock).from_string(self.source)
        except Exception as error:  # whatever untrusted code may raise
            raise _as_template_error(error) from None


def _as_template_error(error: Exception) -> ChatTemplateError:
    reason = str(error) or type(error).__name__
    if isinstance(error, SecurityError):
        return ChatTemplateError(f"The model's chat template tried something it may not do and was stopped: {reason}")
    if isinstance(error, TemplateSyntaxError):
        return ChatTemplateError(f"The model's chat template cannot be read: {reason}")
    return ChatTemplateError(f"The model's chat template cannot render this chat: {reason}")
