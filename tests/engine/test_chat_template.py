"""Chat templates: rendered as transformers renders them, and kept from doing anything else."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from pagedchat.engine import chat_template
from pagedchat.engine.chat_template import CHATML, PLAIN_TURNS, ChatTemplate, ChatTemplateError
from support.chat_templates import ALL

CHAT = [{"role": "user", "content": " hi\n"}, {"role": "assistant", "content": "<b>yes</b>"}]
NAMES = {"bos_token": "<s>", "eos_token": "</s>"}

FEATURES = {
    "blocks are trimmed": "{% if true %}\n  x\n{% endif %}\n   {% set y = 1 %}\ny",
    "loop controls": "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
    "{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "generation blocks": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "plain json": "{{ messages | tojson }}{{ {'a': 'é<'} | tojson(indent=2) }}",
    "namespaces": "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "macros": "{% macro say(m) %}[{{ m.role }}]{% endmacro %}{% for m in messages %}{{ say(m) }}{% endfor %}",
    "the year": "{{ strftime_now('%Y') }}",
    "texts joined": "{{ 'a' ~ 1 ~ none ~ messages[0].role }}{{ 'x' * 3 + 'y' }}{{ '%s-%d' % ('a', 3) }}"
    "{{ '{}/{:>5}'.format('a', 3) }}{{ '%s' | format(4) }}",
    "dictionaries": "{{ dict(a=1) }}{{ dict(a=1).items() | list }}",
    "nothing else given": "{{ tools is none }}{{ documents is none }}{{ missing is defined }}",
    "filters": "{{ ' a ' | trim | upper }}{{ [1, 2] | length }}{{ messages | map(attribute='role') | join(',') }}",
}


@pytest.mark.parametrize("source", [*FEATURES.values(), *ALL.values(), CHATML, PLAIN_TURNS])
@pytest.mark.parametrize("ask", [False, True])
def test_templates_render_as_in_transformers(source: str, ask: bool) -> None:
    def expected() -> str:
        return render_jinja_template([CHAT], chat_template=source, add_generation_prompt=ask, **NAMES)[0][0]

    before, ours, after = expected(), ChatTemplate(source, NAMES).render(CHAT, add_generation_prompt=ask), expected()
    assert ours in (before, after), "one of the two, where the second turns in between and the template writes it"


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=30)), max_size=5))
def test_any_contents_render_as_in_transformers(turns: list[tuple[str, str]]) -> None:
    chat: list[Any] = [{"role": role, "content": content} for role, content in turns]
    [expected], _ = render_jinja_template([chat], chat_template=CHATML)
    assert ChatTemplate(CHATML).render(chat) == expected


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('touch MARKER') }}",
        "{{ messages.append.__self__.__class__ }}",
        "{% set f = raise_exception.__globals__ %}{{ f['__builtins__']['open']('MARKER', 'w') }}",
        "{{ namespace(__class__=1) }}",
        "{% set ns = namespace() %}{% set ns.__init__ = 1 %}",
        "{{ messages.append({'role': 'user', 'content': 'x'}) }}",
        "{{ self._TemplateReference__context.environment.from_string('x') }}",
        "{{ strftime_now.__globals__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
    ],
)
def test_reaching_out_of_the_sandbox_is_refused_and_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "marker"
    with pytest.raises(ChatTemplateError, match="chat template"):
        ChatTemplate(attack.replace("MARKER", str(marker))).render(CHAT)
    assert not any(tmp_path.iterdir())


def test_a_security_error_is_called_one() -> None:
    with pytest.raises(ChatTemplateError, match="something it may not do"):
        ChatTemplate("{{ ''.__class__ }}").render(CHAT)


@pytest.mark.parametrize(
    "endless",
    [
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(1000000000) %}{% endfor %}",
        "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(90000) %}{% set x = range(90000) | sum %}{% endfor %}",
    ],
)
def test_a_template_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch, endless: str) -> None:
    monkeypatch.setattr(chat_template, "TIME_LIMIT_S", 0.2)
    start = time.monotonic()
    with pytest.raises(ChatTemplateError, match="chat template"):
        ChatTemplate(endless).render(CHAT)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    "huge",
    [
        "{{ 'x' * 10**10 }}",
        "{{ [0] * 10**10 }}",
        "{{ 10 ** 10 ** 8 }}",
        "{{ 'x' | center(10**9) }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000d}'.format(1) }}",
        "{{ '{:{width}d}'.format(1, width=10**9) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ 'x' | indent(10**9) }}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set x = 'x' * 1000000 %}{% for i in range(90000) %}{{ x }}{% endfor %}",
    ],
)
def test_a_template_that_builds_huge_values_is_stopped(huge: str) -> None:
    start = time.monotonic()
    with pytest.raises(ChatTemplateError, match="chat template"):
        ChatTemplate(huge).render(CHAT)
    assert time.monotonic() - start < 2


def test_what_a_template_raises_is_told_in_its_own_words() -> None:
    with pytest.raises(ChatTemplateError, match="cannot render this chat: roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render(CHAT)


def test_a_broken_template_says_so() -> None:
    with pytest.raises(ChatTemplateError, match="cannot be read"):
        ChatTemplate("{% if %}").render(CHAT)


def test_rendering_leaves_the_messages_alone() -> None:
    chat = [{"role": "user", "content": "hi"}]
    ChatTemplate("{{ messages[0].pop('content') if false }}{{ messages[0].content }}").render(chat)
    assert chat == [{"role": "user", "content": "hi"}]


def test_the_text_that_a_template_can_write_is_found() -> None:
    written = ChatTemplate("<|user|>{{ '<|im_end|>' if true else \"<x>\" }}").literal_text
    assert all(token in written for token in ("<|user|>", "<|im_end|>", "<x>"))
    assert "<|user|><|im_end|>" not in written
