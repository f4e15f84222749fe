"""Workflows drawn by hand: TOML to plans and back, and what is said of mistakes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.errors import ConfigError, PlanError
from baton.core.labels import Label
from baton.core.messages import Attachment, Card, Role, Turn, TurnStatus, estimated_tokens
from baton.core.plan_types import KINDS, MAX_STEPS, Material, Need, Plan, Step
from baton.core.planning.templates import format_plan, parse_plan, parse_workflow
from baton.workers.template_files import read_templates

SMALL = Card("small", "local", "Small", context=2048)
LARGE = Card("large", "local", "Large", context=32_768)
CLOUD = Card("gpt", "cloud", "GPT", privacy=Label.CLOUD, context=400_000, remote=True)
TOOL = Card("calculator", "tool", "Calculator")


def material(*files: tuple[str, str], prompt: str = "Who did it?") -> Material:
    attached = tuple(Attachment(name, text, len(text)) for name, text in files)
    turn = Turn(
        "t", "c", None, Role.USER, prompt, TurnStatus.DONE, Label.LOCAL, 0.0, files=attached
    )
    return Material((turn,))


# There and back


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps: list[Step] = []
    for number in range(1, draw(st.integers(1, 6)) + 1):
        things = [
            "prompt",
            "history",
            "file:a.txt",
            'file:o"d\\d\n#1/2',
            *map(str, range(1, number)),
        ]
        access = draw(st.lists(st.sampled_from(things), unique=True))
        steps.append(
            Step(
                draw(st.text(max_size=8)),
                draw(st.text(min_size=1).filter(lambda text: text.strip() != "")),
                tuple(access),
                Need(draw(st.sampled_from(KINDS)), draw(st.integers(1, 5))),
                draw(st.booleans()),
                draw(st.booleans()),
            )
        )
    numbers = st.lists(st.integers(1, len(steps)), min_size=1, unique=True)
    return Plan(tuple(steps), tuple(draw(numbers)))


@given(plans())
def test_a_plan_that_is_written_is_read_as_it_was(plan: Plan) -> None:
    assert parse_plan(format_plan(plan)) == plan
    assert parse_workflow(format_plan(plan, "A 'plan'\x7f.")).about == "A 'plan'\x7f."


@pytest.mark.parametrize(
    "task", ['a\n"""b\\n"""', 'two\nlines"', "cr\r\nlf", '"', "tab\tx\n", "\x00\n"]
)
def test_difficult_texts_come_back(task: str) -> None:
    plan = Plan((Step("w", task),), (1,))
    assert parse_plan(format_plan(plan)) == plan


def test_a_text_of_several_lines_is_written_as_it_looks() -> None:
    assert "First this.\nThen that." in format_plan(
        Plan((Step("w", "First this.\nThen that."),), (1,))
    )


# Mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("answer = [1]\nsteps = x", "line 2"),
        ("answer = " + "[" * 9000, "isn't TOML"),
        ("answer = " + "1" * 9000, "isn't TOML"),
        ("about = 'x'", "no steps"),
        ("steps = 3", "no steps"),
        ("[[steps]]", "Step 1 of flow has no task"),
        (
            "[[steps]]\ntask = 'x'\nwroker = 'y'",
            "Step 1 of flow has an unknown `wroker`. Is 'worker' meant?",
        ),
        ("step = 'x'\n[[steps]]\ntask = 'x'", "Is 'steps' meant?"),
        ("[[steps]]\ntask = 'x'\nkind = 'mahts'", "Is 'math' meant?"),
        ("[[steps]]\ntask = 'x'\ndifficulty = 7", "difficulty of 7"),
        ("[[steps]]\ntask = 'x'\ndifficulty = true", "a whole number"),
        ("[[steps]]\ntask = 'x'\noptional = 'no'", "true or false"),
        ("[[steps]]\ntask = 'x'\nsees = [1]", "Step 1 of flow can't see step 1"),
        (
            "[[steps]]\ntask = 'x'\n[[steps]]\ntask = 'y'\nsees = [2]",
            "Step 2 of flow can't see step 2",
        ),
        ("[[steps]]\ntask = 'x'\nsees = ['hisotry']", "Is 'history' meant?"),
        ("[[steps]]\ntask = 'x'\nsees = ['piece']", "each"),
        ("[[steps]]\ntask = 'x'\neach = 'line'", "each = 'line'"),
        ("answer = [2]\n[[steps]]\ntask = 'x'", "The answer of flow is [2]"),
        ("answer = []\n[[steps]]\ntask = 'x'", "The answer of flow"),
        ("answer = [1, 1]\n[[steps]]\ntask = 'x'", "The answer of flow"),
        ("[[steps]]\ntask = 'x'\n" * 33, "33 steps"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_workflow(text, "flow")
    assert message in str(error.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"[[steps]]\ntask = 'x'\n{text}", f"[[steps]]\n{text}\ntask = 'x'"):
        with contextlib.suppress(ConfigError):
            assert parse_plan(whole).steps


@given(
    st.dictionaries(
        st.sampled_from(["task", "kind", "difficulty", "sees", "worker", "each", "check"]),
        st.sampled_from(
            ["1", "'x'", "[]", "[1]", "['files']", "true", "'piece'", "1.5", "{}", "3"]
        ),
    )
)
def test_any_values_are_read_or_refused(entries: dict[str, str]) -> None:
    lines = "\n".join(f"{key} = {value}" for key, value in entries.items())
    with contextlib.suppress(ConfigError):
        assert parse_workflow(f"[[steps]]\n{lines}").drawn


def test_a_plan_that_is_edited_names_its_files_itself() -> None:
    with pytest.raises(ConfigError, match="names each file by itself"):
        parse_plan("[[steps]]\ntask = 'x'\nsees = ['files']")


# Made for a prompt


def test_a_step_without_a_kind_has_the_need_of_the_prompt() -> None:
    flow = parse_workflow("[[steps]]\ntask = 'x'\n[[steps]]\ntask = 'y'\nkind = 'code'\n")
    plan = flow.plan(material(), [SMALL], Need("math", 4))
    assert [step.need for step in plan.steps] == [Need("math", 4), Need("code", 3)]
    assert plan.answer == (2,)


def test_files_are_all_files() -> None:
    flow = parse_workflow("[[steps]]\ntask = 'x'\nsees = ['files', 'prompt']")
    plan = flow.plan(material(("a", "1"), ("b", "2")), [SMALL])
    assert plan.steps[0].access == ("file:a", "file:b", "prompt")


LONG = "\n".join(f"Line {n} of the story says that somebody did something." for n in range(400))


def test_a_long_document_is_read_here_in_pieces_and_answered_from_extracts_only() -> None:
    flow = read_templates()["read-long-document"]
    what = material(("story.txt", LONG))
    plan = flow.plan(what, [CLOUD, TOOL, SMALL, LARGE], Need("knowledge", 3))
    *readers, writer = plan.steps
    assert len(readers) > 3
    assert {step.worker for step in readers} == {"small"}
    texts = [what.file(step.access[1])[1] for step in readers]
    assert "".join(texts) == LONG
    assert all(estimated_tokens(text) < SMALL.context * 0.6 for text in texts)
    assert writer.access == ("prompt", "history", *(str(n) for n in range(1, len(plan.steps))))
    assert plan.answer == (len(plan.steps),)


@given(st.integers(1, 40), st.integers(1, 3000), st.sampled_from([1024, 2048, 8192]))
def test_no_piece_is_more_than_its_reader_holds(lines: int, length: int, context: int) -> None:
    text = "\n".join("x" * (length + n) for n in range(lines))
    card = Card("w", "local", "W", context=context)
    what = material(("a.txt", text), ("b.txt", "short"))
    try:
        plan = read_templates()["read-long-document"].plan(what, [card])
    except PlanError:
        assert estimated_tokens(text) > context  # not for want of trying
        return
    assert len(plan.steps) <= MAX_STEPS
    texts = [what.file(step.access[1])[1] for step in plan.steps[:-1]]
    assert "".join(texts) == text + "short"
    assert max(map(estimated_tokens, texts)) < context * 0.6


def test_a_larger_context_reads_what_is_too_long_for_the_first() -> None:
    flow = read_templates()["read-long-document"]
    what = material(("story.txt", LONG * 8))
    assert {step.worker for step in flow.plan(what, [SMALL, LARGE]).steps[:-1]} == {"large"}
    with pytest.raises(PlanError, match="too long"):
        flow.plan(what, [SMALL])
    with pytest.raises(PlanError, match="no file"):
        flow.plan(material(), [SMALL])


# Where they are


def test_what_baton_brings_along_can_be_executed() -> None:
    templates = read_templates()
    assert set(templates) == {
        "draft-verify-revise",
        "split-merge",
        "plan-code-test",
        "read-long-document",
    }
    for template in templates.values():
        plan = template.plan(material(("a.txt", "text")), [SMALL])
        assert template.about.endswith(".")
        assert parse_plan(format_plan(plan)) == plan


def test_the_persons_folder_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("about = 'Mine.'\n[[steps]]\ntask = 'x'\n")
    (tmp_path / "split-merge.toml").write_text("about = 'Other.'\n[[steps]]\ntask = 'x'\n")
    (tmp_path / "notes.txt").write_text("no template")
    templates = read_templates(tmp_path)
    assert templates["mine"].about == "Mine."
    assert templates["split-merge"].about == "Other."
    assert "notes" not in templates
    assert set(read_templates(tmp_path / "missing")) == set(read_templates())


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[[steps]]\nwroker = 'x'\n")
    with pytest.raises(ConfigError, match=r"Step 1 of .*mine\.toml has an unknown `wroker`"):
        read_templates(tmp_path)["mine"]
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_templates(tmp_path)["mine"]


def test_a_broken_file_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[[steps]\n")
    (tmp_path / "mine.toml").write_text("about = 'Mine.'\n[[steps]]\ntask = 'x'\n")
    templates = read_templates(tmp_path)
    assert set(templates) == {*read_templates(), "broken", "mine"}
    assert "broken" in templates
    assert templates["mine"].about == "Mine."
    assert templates["split-merge"] == read_templates()["split-merge"]
