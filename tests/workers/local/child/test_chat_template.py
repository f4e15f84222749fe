"""Chat templates: what they render, and what they may not do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from baton.workers.local.child.chat_template import (
    CHATML,
    ChatTemplate,
    TemplateRefused,
    TemplateUnusable,
    compile_template,
)

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": " Hello "},
]

NO_SYSTEM = """
{%- if messages[0].role == 'system' %}{{ raise_exception('No system role') }}{% endif -%}
{%- for m in messages %}[{{ m.role }}]{{ m['content'] | trim }}{% endfor -%}
"""


SAYS_NO = ("no", "", "no")
SAYS_ON = ("", "on", "")
"""What a template says of thoughts where nothing is asked, then where they are wanted or not."""


def render(source: str) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(MESSAGES)


def test_what_templates_of_real_models_use() -> None:
    assert render("{{ bos_token }}{{ messages | length }}{{ eos_token }}") == "<s>2</s>"
    assert render("{% if tools is not none or documents %}x{% endif %}ok") == "ok"
    assert render("{% generation %}{{ messages[1].content }}{% endgeneration %}") == " Hello "
    assert (
        render("{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}b{% endfor %}")
        == "b"
    )
    assert render("{{ messages[1] | tojson }}") == '{"role": "user", "content": " Hello "}'
    assert len(render("{{ strftime_now('%Y') }}")) == 4
    dense = "{{ {'b': 'é', 'a': 1} | tojson(separators=(',', ':'), sort_keys=true) }}"
    assert render(dense) == '{"a":1,"b":"é"}'
    assert render("{{ 'é' | tojson(ensure_ascii=true) }}") == r'"\u00e9"'


def test_a_template_without_a_system_role_gets_it_in_the_first_prompt() -> None:
    assert render(NO_SYSTEM) == "[user]Be kind.\n\n Hello"


HARMONY = "{% if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}"


@pytest.mark.parametrize(
    ("source", "unset", "on", "off"),
    [
        (
            "{% if enable_thinking is defined and enable_thinking is false %}no{% endif %}",
            *SAYS_NO,
        ),
        ("{% if enable_thinking is defined and enable_thinking is true %}on{% endif %}", *SAYS_ON),
        ("{% if not enable_thinking is defined or enable_thinking %}on{% endif %}", *SAYS_ON),
        ("{% if thinking %}on{% endif %}", *SAYS_ON),
        (HARMONY + "{{ reasoning_effort }}", "medium", "medium", "low"),
        ("{% set known = ['none', 'high'] %}{{ reasoning_effort }}", "", "high", "none"),
        ('{% set known = ["xhigh", "medium", "low"] %}{{ reasoning_effort }}', "", "medium", "low"),
    ],
)
def test_thoughts_are_switched_in_the_words_of_each_family(
    source: str, unset: str, on: str, off: str
) -> None:
    template = ChatTemplate(f".{source}", "", "")
    rendered = [template.render(MESSAGES, thinking) for thinking in (None, True, False)]
    assert rendered == [f".{unset}", f".{on}", f".{off}"]


def test_one_that_refuses_a_switch_is_rendered_without() -> None:
    source = "{% if enable_thinking is defined %}{{ raise_exception('no switch') }}{% endif %}ok"
    assert ChatTemplate(source, "", "").render(MESSAGES, False) == "ok"
    assert ChatTemplate(source + NO_SYSTEM, "", "").render(MESSAGES).startswith("ok[user]Be kind.")


def test_a_template_that_refuses_says_why() -> None:
    with pytest.raises(TemplateRefused, match="no more than one"):
        render("{{ raise_exception('no more than one') }}")
    with pytest.raises(TemplateRefused):
        render("{{ messages[7].content }}")


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'a' * 10 ** 10 }}",
        "{{ 'a' * 9999999999 }}",
        "{{ [0] * 9999999999 }}",
        "{% for i in range(999999999) %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_the_sandbox_holds(hostile: str) -> None:
    with pytest.raises(TemplateRefused):
        render(hostile)


GROWS = "{%% set ns = namespace(a='x', l=[1]) %%}{%% for i in range(45) %%}%s{%% endfor %%}x"


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ '%0999999999d' % 1 }}",
        "{{ '%.999999999f' % 1 }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ ('%099999d' * 12500) % ((1,) * 12500) }}",
        "{{ ('%s' * 33000) % (('x' * 99999,) * 33000) }}",
        "{{ '%0999999999d' | format(1) }}",
        "{{ '{0:>9999999999}'.format('a') }}",
        "{{ '{:{w}}'.format('a', w='9999999999') }}",
        "{{ '{a:>9999999999}'.format_map({'a': 1}) }}",
        "{{ 'x' | center(9999999999) }}",
        "{{ 'x'.center(9999999999) }}",
        "{{ 'x'.ljust(9999999999) }}",
        "{{ 'x'.zfill(9999999999) }}",
        "{{ 'x'.rjust(width=9999999999) }}",
        "{{ ('\t' * 99999).expandtabs(99999) }}",
        "{{ (1).to_bytes(9999999999, 'big') }}",
        "{{ [1, 2] | map('center', 9999999999) | list }}",
        "{{ 'x' | indent(9999999999, true) }}",
        "{{ ('x\n' * 50000) | indent('y' * 99999) }}",
        "{{ ('x' * 99999) | replace('x', 'y' * 99999) }}",
        "{{ ('x' * 99999).replace('x', 'y' * 99999) }}",
        "{{ ''.join(['x' * 99999] * 99999) }}",
        "{{ ('x' * 9999) | list | join('y' * 99999) }}",
        "{{ [1] | batch(999999999, 'x') | list }}",
        "{{ [1] | slice(9999999999) | list }}",
        "{{ 1 | round(999999999, 'ceil') }}",
        "{{ lipsum(n=100000) }}",
        "{{ range(99999) | list | map('string') | map('center', 99999) | join }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}" + "x" * 60 + "{% endfor %}"
        "{% endfor %}",
        "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('x') }}",
        GROWS % "{% set ns.a = ns.a + ns.a %}",
        GROWS % "{% set ns.a = ns.a ~ ns.a %}",
        GROWS % "{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}",
        GROWS % "{% set ns.a = '%s%s' % (ns.a, ns.a) %}",
        GROWS % "{% set ns.a = '{}{}'.format(ns.a, ns.a) %}",
        GROWS % "{% set ns.a = [ns.a, ns.a] | join %}",
        GROWS % "{% set ns.a = ns.a | replace('x', 'xx') %}",
        "{% set ns = namespace(n=9) %}{% for i in range(45) %}{% set ns.n = ns.n * ns.n %}"
        "{% endfor %}{{ ns.n }}",
    ],
)
def test_what_would_fill_the_memory_is_refused(hostile: str) -> None:
    """Each took seconds to minutes and gigabytes; now it is refused before it takes either."""
    with pytest.raises(TemplateRefused):
        render(hostile)


@pytest.mark.parametrize("depth", [25, 3000])
def test_what_python_cannot_compile_is_broken(depth: int) -> None:
    loops = "{% for a in 'x' %}" * depth + "x" + "{% endfor %}" * depth
    for source in (loops, "{{ " + "(" * depth * 9 + "1" + ")" * depth * 9 + " }}"):
        assert compile_template(source, "", "")[1] or depth < 3000


@pytest.mark.parametrize(
    "source",
    [
        CHATML,
        "{{ messages | map(attribute='content') | join('\n\n') }}",
        "{{ messages | map(attribute='content') | map('upper') | join }}",
        "{{ ', '.join(['a', 'b']) }}{{ 'a-b'.split('-') | join('+') }}",
        "{{ messages[1].content.replace('l', 'LL') | replace('H', 'h', 1) | indent(4, true) }}",
        "{{ '%s: %05.2f%%' % ('x', 2.5) }}{{ '%s' | format('y') }}{{ '{:>8}|{}'.format('a', 1) }}",
        "{{ 'x' * 20 ~ 3 ~ none ~ [1, 'b'] }}{{ 'x'.center(9) }}{{ 'x' | center(9) }}|",
        "{% set ns = namespace(t='') %}{% for m in messages %}{% set ns.t = ns.t + m.content %}"
        "{% endfor %}{{ ns.t | trim }}{{ 7 // 2 }}{{ 7 * 6 }}{{ 2 - 1 }}{{ 7 % 4 }}",
        "{% set x %}{{ messages[0].content }}!{% endset %}{{ x | length }}{{ x | e }}",
        "{% macro f(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ f(1) }}{{ f('<', b='&') }}",
        "{{ {'b': 1, 'a': [1, {'c': none}]} | dictsort }}{{ [3, 1] | sort | list }}{{ dict(a=1) }}",
        "{% for m in messages[::-1] %}{{ loop.index0 }}{{ loop.last }}{{ m.items() | list }}"
        "{% endfor %}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    ],
)
def test_what_honest_templates_do_is_as_in_jinja(source: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    assert render(source) == plain.from_string(source).render(messages=MESSAGES)


def test_a_long_conversation_is_rendered() -> None:
    """Those templates copy all that came before for each message."""
    source = (
        "{% set ns = namespace(t='') %}{% for m in messages %}"
        "{% set ns.t = ns.t + m.role + ': ' + m.content + '\n' %}{% endfor %}{{ ns.t }}"
    )
    talk = [{"role": "user", "content": "x" * 2000} for _ in range(400)]
    assert len(ChatTemplate(source, "", "").render(talk)) > 800_000


@pytest.mark.parametrize("own", ["<|im_end|>", "x", "a b\n"])
def test_a_prompt_is_not_much_longer_than_its_messages(own: str) -> None:
    """Of 10,000 control tokens in one text llama.cpp takes a minute to find all."""
    source = "{{ messages[-1].content }}" + f"{{{{ {own!r} * 9999 }}}}" * 10
    with pytest.raises(TemplateUnusable, match="too long a text"):
        render(source)


def test_memory_is_bounded_while_a_template_is_rendered(tmp_path: Path) -> None:
    """What no count sees: the text of nested lists. The limit ends with the rendering."""
    code = """if True:
        from baton.workers.local.child.chat_template import ChatTemplate, TemplateUnusable
        from baton.workers.local.child.chat_template import rendering_limits
        source = ("{% set ns = namespace(a=['x' * 99999]) %}{% for i in range(16) %}"
            "{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}")
        template = ChatTemplate(source, "", "")
        try:
            with rendering_limits(100, lambda: None):
                template.render([{"role": "user", "content": "x"}])
        except TemplateUnusable as error:
            print(error)
        print(len(bytearray(1 << 30)))
    """
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout == f"it takes too much memory\n{1 << 30}\n", done.stderr


def test_a_missing_or_broken_template_is_stood_in_for() -> None:
    expected = ChatTemplate(CHATML, "", "").render(MESSAGES)
    assert expected.endswith("<|im_start|>assistant\n")
    for source, note in ((None, "no chat template"), ("{% for %}", "broken")):
        template, said = compile_template(source, "", "")
        assert template.render(MESSAGES) == expected
        assert note in said
    assert compile_template("{{ 1 }}", "", "")[1] == ""
