"""What programs put around a user's words doesn't change where these words go."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.plan_types import Material
from baton.core.ports import Route
from baton.core.prompt_wrapping import bare_question, spoken_words, strip_wrapping
from baton.core.reading.bare_expressions import can_compute
from baton.core.reading.missing_knowledge import missing_knowledge
from baton.core.run.rule_router import RuleRouter
from support.wrapped_prompts import WRAPPERS, ordinary_questions

ROSTER = (
    Card("small", "local", "Small", context=8192),
    Card("calculator", "tool", "Calculator"),
    Card("gpt", "cloud", "GPT", privacy=Label.CLOUD, context=100_000),
)


def material(text: str) -> Material:
    return Material((Turn("", "", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0),))


async def route(text: str) -> Route:
    return await RuleRouter().route(material(text), ROSTER)


@pytest.mark.parametrize("program", WRAPPERS)
async def test_a_wrapped_question_goes_where_the_bare_one_goes(program: str) -> None:
    asked = [*ordinary_questions(1, 60), "what is 17 * 23?", "12 km in miles", "hi"]
    for text in asked:
        wrapped = WRAPPERS[program](text)
        assert await route(wrapped) == await route(text), text
        assert missing_knowledge(material(wrapped)) == missing_knowledge(material(text))


@pytest.mark.parametrize("program", WRAPPERS)
def test_a_wrapped_sum_is_computed(program: str) -> None:
    wrapped = material(WRAPPERS[program]("what is 17 * 23?"))
    assert can_compute("calculator", wrapped.question)
    assert wrapped.prompt != wrapped.question


@given(st.text())
def test_a_text_without_wrapping_stays_as_it_is(text: str) -> None:
    assert strip_wrapping(f"Tell me: {text}.") == f"Tell me: {text}."


@given(st.text(min_size=1).filter(lambda text: "<" not in text and text.strip() == text))
@pytest.mark.parametrize("program", WRAPPERS)
def test_any_question_is_found_in_its_wrapping(program: str, text: str) -> None:
    assert bare_question(WRAPPERS[program](text)) == bare_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "What does <system-reminder>x</system-reminder> mean?",
        "<task>Sum this up</task> in two lines, and then translate it.",
        "Explain </environment_context>",
        "</system-reminder>",
        "<system-reminder> is a tag",
        "### Task:\nWrite a parser\n### Rules:\nNo regular expressions.",
        "<context>A text.</context> Summarize it.",
        "",
        "  \n",
    ],
)
def test_what_a_user_writes_about_such_blocks_stays(text: str) -> None:
    assert strip_wrapping(text) == text
    assert bare_question(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<local-command-caveat>Caveat</local-command-caveat>", ""),
        ("<command-name>/review</command-name><command-args>the login</command-args>", "the login"),
        ("<user_info>\nOS: linux\n</user_info>\n<user_query>\nFix it\n</user_query>", "Fix it"),
        ("<context>\nnow\n</context>\n<userRequest>\nFix it\n</userRequest>", "Fix it"),
        (
            "<user_message>\nGo on\n</user_message>\n<environment_details>x</environment_details>",
            "Go on",
        ),
        ("<system-reminder>a</system-reminder>" * 3 + "hi", "hi"),
    ],
)
def test_blocks_of_several_programs_are_known(text: str, words: str) -> None:
    assert strip_wrapping(text) == words


def test_results_of_tools_are_not_words_of_the_user() -> None:
    result = '<tool_response>\n{"name": "ls"}\n</tool_response>'
    assert spoken_words(result) == spoken_words(f"{result}\n<tool_response>cut") == ""
    assert spoken_words(f"{result}\n\nGo on") == "Go on"
    assert bare_question(result) == result


def test_a_task_of_open_webui_is_one_task() -> None:
    task = (
        "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat.\n"
        "### Guidelines:\n- Keep it clear; then write it down.\n### Output:\nJSON format: {}\n"
        "### Chat History:\n<chat_history>\nUSER: Why? How? When?\n</chat_history>"
    )
    assert bare_question(task) == (
        "Generate a concise, 3-5 word title with an emoji summarizing the chat."
    )
