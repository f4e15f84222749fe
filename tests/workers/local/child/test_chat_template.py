"""Chat templates: what they render, and what they may not do."""

from __future__ import annotations

import pytest

from baton.workers.local.child.chat_template import (
    CHATML,
    ChatTemplate,
    TemplateRefused,
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


def test_a_missing_or_broken_template_is_stood_in_for() -> None:
    expected = ChatTemplate(CHATML, "", "").render(MESSAGES)
    assert expected.endswith("<|im_start|>assistant\n")
    for source, note in ((None, "no chat template"), ("{% for %}", "broken")):
        template, said = compile_template(source, "", "")
        assert template.render(MESSAGES) == expected
        assert note in said
    assert compile_template("{{ 1 }}", "", "")[1] == ""
