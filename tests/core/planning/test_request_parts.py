"""The trained conductor: what is followed of what it writes, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, strategies as st
from plan_format import format_lines

from baton.core.errors import BatonError, StoreError, WorkerError
from baton.core.messages import Card, Purpose, Request
from baton.core.plan_types import KINDS, Need, Outcome, Plan, Step
from baton.core.planning.plan_lines import PlanPart, is_repeating, parse_lines
from baton.core.planning.request_parts import (
    DOUBTFUL_NEED,
    CheckedPart,
    TrainedConductor,
    WrittenPlan,
    is_worth_following,
    plan_from_parts,
    split_request,
    with_implied_inputs,
)
from baton.core.ports import SpendingRoom
from baton.core.strategies._parts import SplitRequest
from baton.core.strategies.hybrid import Hybrid
from baton.workers.scripted_worker import ScriptedWorker
from support.strategy_context import (
    CLOUD,
    GEMMA,
    LLAMA,
    TALE,
    TINY,
    TOOL,
    ScriptedContext,
    execute,
    routing_context,
)

UNITS = Card("units", "tool", "Units")
TWO = "Translate 'good morning' to German and tell me what 17*23 is"
LINES = "translation1: translate 'good morning' to German\ncalc: 17 * 23"


@dataclass
class FakeTools:
    """Marks nothing; finds wrong what it is configured to."""

    wrong: str = ""
    fails: bool = False
    left: Sequence[str] = ()
    seen: list[str] = field(default_factory=list)

    def warm(self) -> None:
        self.seen.append("warm")

    async def mark(self, request: str) -> str:
        if self.fails:
            raise WorkerError("The tools are gone.")
        return request.upper()

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        self.seen += [part.text for part in parts]
        said = [
            CheckedPart(p.text, self.wrong if p.tool else "", f"tell me {p.text}") for p in parts
        ]
        return [*said, *(CheckedPart(text, "", text) for text in self.left)]


async def parts_of(
    text: str,
    *,
    prompt: str = TWO,
    roster: Sequence[Card] = (TINY, TOOL, UNITS),
    confidence: float | None = -0.01,
    tools: FakeTools | None = None,
    alone: str = "no plan",
    lines: Sequence[float] = (),
) -> Plan | None:
    """Return the plan that comes of what the conductor writes, and writes of a part `alone`."""

    async def write(request: Request) -> WrittenPlan:
        assert (request.purpose, request.temperature) == (Purpose.PLAN, 0.0)
        is_whole = request.messages[0].text == prompt.upper()
        return WrittenPlan(text, confidence, lines) if is_whole else WrittenPlan(alone, -0.01)

    conductor = TrainedConductor(ScriptedWorker(card=TINY), tools or FakeTools())
    return await split_request(conductor, routing_context(*roster, prompt=prompt), write)


async def test_each_part_is_a_step_of_its_own_and_the_answer_is_all_of_them() -> None:
    plan = await parts_of(f"{LINES}\nwriting2: a haiku about it <- 2")
    assert plan is not None
    assert [(s.worker, s.subtask, s.access) for s in plan.steps] == [
        ("", "translate 'good morning' to German", ()),
        ("calculator", "17 * 23", ("prompt",)),
        ("", "a haiku about it", ("2",)),
    ]
    assert [s.need for s in plan.steps] == [
        Need("translation", 1), Need("calculation", 1), Need("writing", 2)
    ]  # fmt: skip
    assert plan.answer == (1, 2, 3)


async def test_one_sum_is_one_step_and_one_task_is_not_a_plan() -> None:
    plan = await parts_of("calc: 17 * 23", prompt="what is 17*23")
    assert plan is not None
    assert [(s.worker, s.subtask) for s in plan.steps] == [("calculator", "17 * 23")]
    tools = FakeTools()
    for whole in ("translation1: *", "translation1: good morning"):
        assert await parts_of(whole, tools=tools) is None
    assert tools.seen == []


async def test_a_plain_question_is_not_shown_to_the_conductor() -> None:
    assert await parts_of(LINES, prompt=TALE, tools=FakeTools(fails=True)) is None


def test_it_is_warmed_only_for_what_it_will_be_shown() -> None:
    tools = FakeTools()
    conductor = TrainedConductor(ScriptedWorker(card=TINY), tools)
    for request in (TALE, "What is 17*23?", "42 km in miles"):
        conductor.warm_for(request)
    assert tools.seen == []
    conductor.warm_for(TWO)
    assert tools.seen == ["warm"]


@pytest.mark.parametrize("text", ["", "calc", "no plan at all", "calc: 1 <- 2", "x: *\n" * 9])
async def test_what_is_not_a_plan_is_not_followed(text: str) -> None:
    assert await parts_of(text) is None


async def test_a_part_in_doubt_is_a_models_in_the_persons_words() -> None:
    plan = await parts_of(LINES, tools=FakeTools("7 isn't in the request."))
    assert plan is not None
    in_doubt = [step for step in plan.steps if step.subtask.startswith("tell me ")]
    assert [(step.worker, step.need) for step in in_doubt] == [("", DOUBTFUL_NEED)]
    assert await parts_of("calc: 17 * 7", tools=FakeTools("7 isn't in the request.")) is None


class DoubtingTools(FakeTools):
    """Doubts the sums of a whole request, and none of its parts."""

    async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
        self.wrong = "23 isn't in the request." if request == TWO else ""
        self.left = ["Is 127 prime?"] if request == TWO else []
        return await super().check(request, parts)


async def test_what_is_in_doubt_is_shown_to_the_conductor_by_itself() -> None:
    plan = await parts_of(LINES, tools=DoubtingTools(), alone="calc: 17 * 24")
    assert plan is not None
    assert [(s.worker, s.subtask) for s in plan.steps[1:]] == [("calculator", "17 * 24")] * 2
    for text in (LINES, "writing1: say it", "calc: 17 * 24\nwriting1: say 17", "calc"):
        left = await parts_of(LINES, tools=DoubtingTools(), alone=text)
        assert left is not None
        assert [(s.worker, s.need == DOUBTFUL_NEED) for s in left.steps[1:]] == [
            ("", True),
            ("", False),
        ]


def test_what_speaks_of_a_result_sees_the_part_before() -> None:
    parts = parse_lines("calc: 1\nwriting1: double the result\nwriting1: say it <- 1\nchat1: hello")
    checked = [CheckedPart(part.text, "", part.text, refers=True) for part in parts]
    assert [part.inputs for part in with_implied_inputs(parts, checked)] == [(), (1,), (1,), (3,)]
    checked = [CheckedPart(part.text, "", part.text) for part in parts]
    assert with_implied_inputs(parts, checked) == parts


async def test_what_the_plan_leaves_out_is_a_part_too() -> None:
    plan = await parts_of("calc: 17 * 23", tools=FakeTools(left=["Who was she?"]))
    assert plan is not None
    assert [(s.worker, s.subtask) for s in plan.steps] == [
        ("calculator", "17 * 23"),
        ("", "Who was she?"),
    ]
    assert await parts_of(LINES, tools=FakeTools(left=["And this?"] * 5)) is None


async def test_a_plan_in_doubt_leaves_the_request_whole() -> None:
    assert await parts_of(LINES, confidence=-0.4) is None
    assert await parts_of(LINES, roster=(TINY,)) is None
    assert await parts_of(LINES, confidence=None) is not None
    assert await parts_of("calc: 17*23\ncalc: 17*23") is None


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ("planning2: monta um plano que eu consiga seu consiga seu consiga seu consiga seu", True),
        ("reasoning3: por que ao ao ao ao", True),
        ("writing1: very, very, very, very", True),
        ("calc: 1" + " + 1" * 60, True),
        ("calc: avg(1, 1, 1, 1, 1, 2)", False),
        ("writing1: write a poem\nwriting1: write a story\nwriting1: write a song", False),
        ("", False),
    ],
)
def test_a_plan_that_repeats_itself_is_stopped(text: str, is_lost: bool) -> None:
    assert is_repeating(text) == is_lost


async def test_a_plan_that_repeats_itself_is_not_followed() -> None:
    assert await parts_of("calc: 17*23\nwriting1: say ao ao ao ao") is None


def is_executed(lines: str, *confidence: float, request: str = TWO) -> bool:
    """Whether a plan is followed of whose lines, all as long, the model was so sure."""
    return is_worth_following(
        request, parse_lines(lines), WrittenPlan(lines, fmean(confidence), confidence)
    )


def test_a_sure_sum_carries_a_plan_that_texts_alone_would_not() -> None:
    assert is_executed("writing1: a\nwriting1: b", -0.02, -0.02)
    assert not is_executed("writing1: a\nwriting1: b", -0.07, -0.07)
    assert is_executed("calc: 17 * 23\nwriting1: b", -0.0, -0.14)
    assert not is_executed("calc: 17 * 23\nwriting1: b", -0.2, -0.14)
    assert is_executed("calc: 17 * 23\nwriting1: b", -0.2, -0.02)
    assert is_executed("calc: 17 * 23\ncalc: 40 * 8", -0.0, -0.3)
    assert not is_executed("calc: 17 / 23\ncalc: 40 * 8", -0.2, -0.3)
    assert not is_executed("writing1: a", 0.0)


def test_one_sum_needs_less_certainty_where_a_short_request_says_hardly_more() -> None:
    assert is_executed("calc: 40 * 8", -0.03)
    assert is_executed("calc: 40 * 8", -0.07, request="40 times 8")
    assert is_executed("calc: 2 ^ 20", -0.07, request="tell me what 2^20 is")
    assert not is_executed("calc: 40 * 8", -0.07, request="so " * 12 + "40 times 8")
    assert not is_executed("calc: 40 * 8 + 3 - 2", -0.07, request="40 times 8 plus 3 minus 2")


async def test_a_sum_that_is_a_step_of_a_story_is_not_computed() -> None:
    """Beside a part in doubt or left out, only what asks by itself is."""

    class Telling(FakeTools):
        async def check(self, request: str, parts: Sequence[PlanPart]) -> Sequence[CheckedPart]:
            sums = [CheckedPart(p.text, self.wrong, f"she has {p.text}") for p in parts]
            return [*sums, *(CheckedPart(text, "", text) for text in self.left)]

    assert await parts_of("calc: 17 * 23", tools=Telling(left=["How many are left?"])) is None
    assert await parts_of("calc: 17 * 23", tools=Telling()) is not None


async def test_a_sum_that_the_model_is_unsure_of_is_in_doubt_and_the_others_stay() -> None:
    lines = "calc: 17*23\ncalc: 40 * 8\ncalc: #2 + 1 <- 2\ncalc: #1 + 1 <- 1\nchat1: hello"
    plan = await parts_of(lines, lines=(0.0, -0.2, 0.0, 0.0, 0.0))
    assert plan is not None
    assert [step.worker for step in plan.steps] == ["calculator", "", "", "calculator", ""]
    assert [step.need == DOUBTFUL_NEED for step in plan.steps] == [False, True, True, False, False]


async def test_a_sum_that_the_model_is_unsure_of_is_shown_to_it_by_itself() -> None:
    lines = "calc: 17*23\ncalc: 40 * 8"
    plan = await parts_of(lines, lines=(0.0, -0.2), alone="calc: 40 / 8")
    assert plan is not None
    assert [(s.worker, s.subtask) for s in plan.steps][1] == ("calculator", "40 / 8")


def test_a_story_with_numbers_is_not_one_sum() -> None:
    assert is_executed("calc: 3 * 60", -0.01, request="what is 3 * 60")
    story = "James runs 3 sprints of 60 metres. " * 8
    assert not is_executed("calc: 3 * 60", -0.01, request=story)


@given(
    st.lists(
        st.tuples(st.sampled_from(["calculator", "units", "clock", ""]), st.sampled_from(KINDS)),
        min_size=1,
        max_size=5,
    ),
    st.data(),
)
def test_any_parts_make_a_plan_that_can_be_executed(
    drawn: Sequence[tuple[str, str]], data: st.DataObject
) -> None:
    parts = []
    for number, (tool, kind) in enumerate(drawn, start=1):
        earlier = st.lists(st.integers(1, number - 1), unique=True) if number > 1 else st.just([])
        inputs = tuple(sorted(data.draw(earlier)))
        need = Need("calculation", 1) if tool else Need(kind, data.draw(st.integers(1, 5)))
        parts.append(PlanPart(f"text {number}", tool, need, inputs))
    assert parse_lines(format_lines(parts)) == tuple(parts)
    subtasks = [part.text for part in parts]
    plan = plan_from_parts(parts, routing_context(TINY, files=["a.txt"]).material)
    assert [step.subtask for step in plan.steps] == subtasks
    assert [step.inputs for step in plan.steps] == [part.inputs for part in parts]
    assert plan.answer == tuple(range(1, len(parts) + 1))
    done: list[int] = []
    while ready := plan.startable_steps(done):
        done += ready
    assert sorted(done) == list(plan.answer)


# The strategy

PLAN = Plan((Step("", "translate it"), Step("calculator", "17 * 23", ("prompt",))), (1, 2))
SUM = Plan((Step("calculator", "17 * 23", ("prompt",)),), (1,))


def context(parts: Plan | None, *cards: Card, **more: Any) -> ScriptedContext:
    return ScriptedContext(routing_context(*cards, prompt=TWO, **more), parts=parts)


async def test_hybrid_executes_the_parts_in_their_order() -> None:
    executed = await execute(
        Hybrid(), context(PLAN, TINY, TOOL), lambda n, step: f"{n} by {step.worker}"
    )
    assert executed.text == "1 by tiny\n\n2 by calculator"
    assert executed.proposals[0].why == "You ask for 2 things, so each is a step of its own."


async def test_a_sum_that_can_not_be_computed_is_answered_by_a_model() -> None:
    def say(number: int, step: Step) -> str | BatonError:
        return WorkerError("No.") if step.worker == "calculator" else "391, perhaps"

    executed = await execute(Hybrid(), context(SUM, TINY, TOOL), say)
    assert (executed.workers, executed.text) == (["calculator", "tiny"], "391, perhaps")


async def test_a_sum_that_a_model_works_out_is_said_to_be_unsure() -> None:
    doubted = Step("", "17 times 23", (), DOUBTFUL_NEED)
    one = Plan((*PLAN.steps[:1], doubted), (1, 2))
    proposal = await Hybrid().first(context(one, TINY, TOOL))
    said = "Step 2 couldn't be computed for certain: a model's result may be wrong."
    assert proposal.why.endswith(said)
    two = Plan((doubted, doubted), (1, 2))
    assert "Steps 1 and 2 couldn't" in (await Hybrid().first(context(two, TINY, TOOL))).why


async def test_parts_that_all_fail_leave_the_request_to_one_worker() -> None:
    def say(number: int, step: Step) -> str | BatonError:
        return "whole" if step.is_direct else WorkerError("No.")

    assert (await execute(Hybrid(), context(PLAN, TINY, TOOL), say)).text == "whole"


@pytest.mark.parametrize("parts", [PLAN, SUM])
async def test_mini_never_waits_for_a_plan(parts: Plan) -> None:
    executed = await execute(
        Hybrid(), context(parts, TINY, TOOL, mode="mini"), lambda n, s: s.worker
    )
    assert executed.text == "tiny"


async def test_whom_the_user_named_splits_and_this_one_still_computes() -> None:
    named = {"conductor": CLOUD.id}
    whole = await Hybrid().first(context(PLAN, TINY, TOOL, CLOUD, **named))
    assert whole.plan.steps != PLAN.steps
    assert (await Hybrid().first(context(SUM, TINY, TOOL, CLOUD, **named))).plan == SUM


class FailingContext(ScriptedContext):
    """Its conductor fails in some way."""

    error: BatonError = WorkerError("The conductor died.")

    async def split(self) -> Plan | None:
        raise self.error


async def test_a_conductor_that_fails_leaves_the_request_whole() -> None:
    broken = FailingContext(routing_context(TINY, TOOL, prompt=TWO))
    assert (await execute(Hybrid(), broken, lambda n, step: step.worker)).text == "tiny"
    broken.error = StoreError("The disk is full.")
    with pytest.raises(StoreError):
        await Hybrid().first(broken)


async def test_a_resumed_plan_is_not_split_again() -> None:
    outcome = Outcome(PLAN, {1: "guten Morgen", 2: "391"})
    assert await SplitRequest(PLAN).next(context(None, TINY, TOOL), outcome) is None


THREE = Plan(
    (
        Step("", "Work out 17 minus 8 by hand", (), Need("math", 1)),
        Step("calculator", "17 * 23", ("prompt",), Need("calculation", 1)),
        Step("", "Write about it", ("1",), Need("writing", 1)),
    ),
    (1, 2, 3),
)


def who(number: int, step: Step) -> str:
    return f"{step.worker} {step.inputs}"


async def test_what_a_check_finds_wrong_another_does_again_with_what_follows_from_it() -> None:
    desk_ = context(THREE, LLAMA, TOOL, GEMMA)
    desk_.wrong = {1: "2 + 2 = 5"}
    executed = await execute(Hybrid(), desk_, who)
    assert not executed.proposals[0].final
    first, tool, writer, again, written_again = executed.workers
    assert tool == "calculator"
    assert {first, again} == {"llama", "gemma"}
    assert writer == written_again
    assert executed.answer == (4, 2, 5)
    assert executed.outcome.plan.steps[4].inputs == (4,)
    assert "does that again" in executed.why


async def test_what_is_right_stays_and_a_tools_result_stays() -> None:
    desk_ = context(THREE, LLAMA, TOOL, GEMMA)
    desk_.wrong = {2: "a tool's"}
    assert (await execute(Hybrid(), desk_, who)).answer == (1, 2, 3)
    alone = await Hybrid().first(context(THREE, TINY, TOOL))
    assert alone.final  # there is no other worker


async def test_a_correction_that_gives_nothing_leaves_what_was_there() -> None:
    desk_ = context(THREE, LLAMA, TOOL, GEMMA)
    desk_.wrong = {1: "2 + 2 = 5"}

    def say(number: int, step: Step) -> str | BatonError:
        return WorkerError("No.") if number == 4 else "something"

    assert (await execute(Hybrid(), desk_, say)).answer == (1, 2, 5)


@pytest.mark.parametrize("left", [10**9, 0])
async def test_who_costs_something_corrects_only_where_there_is_money_for_it(left: int) -> None:
    desk_ = context(replace(THREE, steps=THREE.steps[:2], answer=(1, 2)), LLAMA, TOOL, CLOUD)
    desk_.wrong = {1: "2 + 2 = 5"}
    desk_.money = SpendingRoom(left, 0.0)
    workers = (await execute(Hybrid(), desk_, who)).workers
    assert workers == ["llama", "calculator", *(["gpt"] if left else [])]
