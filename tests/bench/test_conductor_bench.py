"""Conductors compared on requests whose parts are known: what a plan scores, and who draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given, strategies as st

from baton.bench.conductor_bench import (
    ConductorRow,
    DrawnPlan,
    Episode,
    ExpectedPart,
    draw_plans,
    read_episodes,
    score_plan,
    value_text,
)
from baton.core.errors import BatonError, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Chunk, Purpose, Request, Text
from baton.core.plan_types import DIRECT_SUBTASK, PROMPT, Plan, Step, single_step_plan
from baton.core.planning.plan_lines import MAX_TEXT_CHARS, TOOL_HEADS, PlanPart
from baton.core.planning.request_parts import TrainedConductor
from baton.core.reading.request_words import may_have_parts
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.workers.scripted_worker import Script, ScriptedWorker
from baton.workers.tools.computation.marked_text import mark
from baton.workers.tools.computation.plan_check import check_parts
from baton.workers.tools.computation.plan_steps import compute_step
from support.scripted_conductors import PlainTools, plan_text
from support.strategy_context import CLOUD, LLAMA, TINY, TOOL

SUM = ExpectedPart("17 * 23", ("17", "23"), tool="calculator")
WISH = ExpectedPart("write a wish for Dana", ("wish",), ("dana",))
TWO = Episode("two", "en", "What's 17 times 23, and write a wish for Dana?", (SUM, WISH))
ONE = Episode("one", "en", "Write a wish for Dana and Tom.", (WISH,))
COMPUTED = Episode("sum", "en", "What's 17 times 23?", (SUM,))
POEM = ExpectedPart("write a poem about that number", ("poem",), needs=(1,))
CHAIN = Episode("chain", "en", "What's 17 times 23? Write a poem about it.", (SUM, POEM))


def says(*texts: str | BaseException) -> Script:
    """Say one text after the other, call by call."""
    left = list(texts)

    def script(request: Request) -> Iterable[Chunk | BaseException | float]:
        text = left.pop(0)
        yield text if isinstance(text, BaseException) else Text(text)

    return script


def computes(request: Request) -> Iterable[Chunk]:
    """Compute a product."""
    assert request.purpose is Purpose.VERIFY
    left, _, right = request.messages[-1].text.partition(" * ")
    yield Text(f"{left} * {right} = {int(left) * int(right)}")


Make = Callable[..., Orchestra]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    """Give what makes an orchestra of scripted workers, the first as default, and a calculator."""
    store = Store(None)

    def made(*workers: ScriptedWorker, trained: TrainedConductor | None = None) -> Orchestra:
        tool = ScriptedWorker(computes, TOOL)
        everyone = {worker.card.id: worker for worker in (*workers, tool)}
        return Orchestra(Services(everyone, store, trained=trained), workers[0].card.id)

    yield made
    await store.aclose()


async def drawn(
    orchestra: Orchestra, conductor: str = "", episodes: Sequence[Episode] = (TWO, COMPUTED, ONE)
) -> list[float]:
    return [one.score async for one in draw_plans(orchestra, conductor, episodes)]


def scripted_conductor(*texts: str | BaseException) -> tuple[TrainedConductor, ScriptedWorker]:
    worker = ScriptedWorker(says(*texts), replace(TINY, id="conductor"))
    return TrainedConductor(worker, PlainTools()), worker


async def test_the_trained_conductor_plans_and_no_step_is_run(make: Make) -> None:
    conductor, writer = scripted_conductor(
        "calc: 17 * 23\nwriting1: write a wish for Dana", "calc: 17 * 23", "writing1: *"
    )
    small = ScriptedWorker(card=TINY)
    assert await drawn(make(small, trained=conductor)) == [1.0, 1.0, 1.0]
    assert small.requests == [], "only the plan is drawn"
    assert [request.label for request in writer.requests] == [Label.LOCAL] * 3


async def test_a_language_model_plans_with_the_same_workers(make: Make) -> None:
    large = ScriptedWorker(
        says(
            plan_text(("calculation", "17 * 23", ()), ("writing", "Write a wish for Dana.", ())),
            plan_text(("math", "Compute 17 times 23.", ())),
            plan_text(("writing", "Answer the prompt.", ())),
        ),
        LLAMA,
    )
    assert await drawn(make(ScriptedWorker(card=TINY), large), "llama") == [1.0, 0.5, 1.0]
    assert {request.purpose for request in large.requests} == {Purpose.PLAN}


async def test_a_wrong_operation_is_not_right(make: Make) -> None:
    conductor, _ = scripted_conductor("calc: 17 * 24", "calc: 23 * 17")
    orchestra = make(ScriptedWorker(card=TINY), trained=conductor)
    assert await drawn(orchestra, episodes=[COMPUTED] * 2) == [0.0, 1.0]


async def test_a_plan_that_can_not_be_used_scores_nothing_and_the_next_is_drawn(make: Make) -> None:
    good = plan_text(("writing", "Answer the prompt.", ()))
    large = ScriptedWorker(says("invalid", "invalid", WorkerError("It is too long."), good), LLAMA)
    assert await drawn(make(large), "llama", [ONE] * 3) == [0.0, 0.0, 1.0]
    conductor, _ = scripted_conductor(WorkerError("It is too long."), "no plan at all")
    orchestra = make(ScriptedWorker(card=TINY), trained=conductor)
    assert await drawn(orchestra, episodes=[ONE] * 2) == [0.0, 1.0], "what can't be read is whole"


@pytest.mark.parametrize("error", [WorkerUnavailable("It is gone."), ModelFileError("No file.")])
async def test_a_worker_that_is_gone_ends_the_row(error: BatonError, make: Make) -> None:
    with pytest.raises(type(error)):
        await drawn(make(ScriptedWorker(says(error), LLAMA)), "llama")


async def test_nothing_remote_is_ever_asked(make: Make) -> None:
    far = ScriptedWorker(card=CLOUD)
    conductor, _ = scripted_conductor("writing1: *")
    orchestra = make(ScriptedWorker(card=TINY), far, trained=conductor)
    assert await drawn(orchestra, episodes=[ONE]) == [1.0]
    large = ScriptedWorker(says(plan_text(("writing", "Answer the prompt.", ()))), LLAMA)
    assert await drawn(make(large, far), "llama", [ONE]) == [1.0]
    assert far.requests == []


def test_a_row_is_the_mean_of_its_plans() -> None:
    row = ConductorRow("", [DrawnPlan(1.0, 0.2), DrawnPlan(0.5, 0.4), DrawnPlan(0.0, 3.0)])
    low, high = row.interval
    assert (row.score, row.seconds) == (0.5, 0.4)
    assert low < 0.5 < high


def plan(*steps: Step) -> Plan:
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def calc(text: str = "17 * 23", *access: str) -> Step:
    return Step("calculator", text, (PROMPT, *access))


def model(text: str, *access: str) -> Step:
    return Step("small", text, access)


WISHES = model("write a wish for Dana")


def test_each_part_in_a_step_of_its_own_is_right() -> None:
    assert score_plan(plan(calc(), WISHES), TWO, {}) == 1.0
    assert score_plan(plan(WISHES, calc()), TWO, {}) == 1.0, "in any order"
    assert score_plan(plan(calc()), COMPUTED, {}) == 1.0


def test_one_task_is_to_stay_one_step() -> None:
    assert score_plan(single_step_plan("small"), ONE, {}) == 1.0
    assert score_plan(plan(WISHES), ONE, {}) == 1.0
    assert score_plan(plan(WISHES, model("write one for Tom")), ONE, {}) == 0.5
    assert score_plan(plan(model("solve the problem", PROMPT)), ONE, {}) == 0.0


def test_a_request_with_parts_is_not_to_stay_whole() -> None:
    for episode in (TWO, CHAIN):
        assert score_plan(single_step_plan("small"), episode, {}) == 0.0


def test_a_model_that_computes_in_words_has_half_the_credit() -> None:
    assert score_plan(single_step_plan("small"), COMPUTED, {}) == 0.5
    words = model("Compute 17 times 23.")
    assert score_plan(plan(words), COMPUTED, {}) == 0.5
    assert score_plan(plan(words, WISHES), TWO, {}) == 0.75


def test_a_tool_is_not_a_worker_for_a_text() -> None:
    assert score_plan(plan(calc("wish")), ONE, {}) == 0.0
    assert score_plan(plan(Step("python", "17 * 23", ())), COMPUTED, {}) == 1.0


@pytest.mark.parametrize("text", ["17 * 123", "1.17 * 23", "17 * 23.5", "7 * 23", "17"])
def test_a_step_without_a_part_s_numbers_is_not_for_it(text: str) -> None:
    assert score_plan(plan(calc(text)), COMPUTED, {}) == 0.0


def test_expressions_are_compared_by_their_values() -> None:
    values = {("calculator", text): value for text, value in
              (("17 * 23", "391"), ("23 * 17", "391"), ("17 + 23", "40"))}  # fmt: skip
    assert score_plan(plan(calc("23 * 17")), COMPUTED, values) == 1.0
    assert score_plan(plan(calc("17 + 23")), COMPUTED, values) == 0.0
    assert score_plan(plan(calc("17 + 23")), COMPUTED, {}) == 1.0, "nothing else is known"


def test_a_part_may_be_put_in_other_words_and_its_data_be_shown() -> None:
    part = ExpectedPart("übersetze das Wort", ("übersetz|translat",), ("bahnhof",))
    episode = Episode("x", "de", "Übersetze Bahnhof", (part,))
    assert score_plan(plan(model("Translate it.", PROMPT)), episode, {}) == 1.0
    assert score_plan(plan(model("Translate it.")), episode, {}) == 0.0
    assert score_plan(plan(model("ÜBERSETZE Bahnhof")), episode, {}) == 1.0


def test_a_result_that_is_needed_must_be_seen() -> None:
    poem = model("write a poem about that number", "1")
    assert score_plan(plan(calc(), poem), CHAIN, {}) == 1.0
    assert score_plan(plan(calc(), replace(poem, access=())), CHAIN, {}) == 0.75
    poem = model("take the result of 17 * 23 and write a poem", "1")
    assert score_plan(plan(calc(), poem), CHAIN, {}) == 1.0, "it may name what it builds on"


def test_a_tool_may_compute_what_it_builds_on_once_more() -> None:
    half = ExpectedPart("#1 / 2", ("/|half",), tool="calculator", needs=(1,))
    episode = Episode("x", "en", "What's 17 times 23, and half of that?", (SUM, half))
    assert score_plan(plan(calc(), calc("(17 * 23) / 2", "1")), episode, {}) == 1.0
    assert score_plan(plan(calc(), calc("(17 * 23) / 2")), episode, {}) == 1.0
    assert score_plan(plan(calc(), calc("391 / 2")), episode, {}) == 0.75


def test_a_step_that_does_two_parts_is_not_a_step_of_its_own() -> None:
    both = model("compute 17 * 23 and write a wish for Dana")
    assert score_plan(plan(both), TWO, {}) == 0.0
    assert score_plan(plan(both, both), TWO, {}) == 0.0
    assert score_plan(plan(calc(), both), TWO, {}) == 0.5
    whole = Step("small", DIRECT_SUBTASK)
    assert score_plan(plan(calc(), whole), TWO, {}) == 0.5


def test_what_is_done_twice_or_besides_takes_away() -> None:
    assert score_plan(plan(calc(), calc(), WISHES), TWO, {}) == 2 / 3
    merge = model("put the results together", "1", "2")
    assert score_plan(plan(calc(), WISHES, merge), TWO, {}) == 2 / 3


STEPS = st.builds(
    Step,
    st.sampled_from(["small", "calculator"]),
    st.sampled_from(
        [
            "17 * 23",
            "write a wish for Dana",
            "write a poem",
            "17 * 23 and a wish",
            DIRECT_SUBTASK,
            "x",
        ]
    ),
    st.just((PROMPT,)) | st.just(()),
)
ANY_EPISODE = st.sampled_from([TWO, CHAIN, ONE, COMPUTED])


@given(st.lists(STEPS, min_size=1, max_size=5), ANY_EPISODE)
def test_any_plan_has_a_score_within_bounds(steps: list[Step], episode: Episode) -> None:
    score = score_plan(plan(*steps), episode, {})
    assert 0.0 <= score <= 1.0
    if score == 1.0:
        assert len(steps) == len(episode.parts)


@given(st.lists(STEPS, min_size=1, max_size=4), ANY_EPISODE)
def test_a_step_more_never_makes_a_right_plan_better(steps: list[Step], episode: Episode) -> None:
    score = score_plan(plan(*steps), episode, {})
    more = score_plan(plan(*steps, model("and sing a song")), episode, {})
    assert more <= score
    assert more < 1.0


@given(st.permutations([calc(), WISHES, model("write a poem")]))
def test_the_order_of_independent_steps_does_not_matter(steps: list[Step]) -> None:
    poem = ExpectedPart("write a poem", ("poem",))
    episode = msgspec.structs.replace(TWO, parts=(*TWO.parts, poem))
    assert score_plan(plan(*steps), episode, {}) == 1.0


def test_a_tool_s_sentence_is_reduced_to_its_value() -> None:
    said = {
        "17 \u00d7 23 = 391": "391",
        "(2 + 3) ÷ 7 ≈ 0.7142857143": "0.7142857143",
        "75 %. (pct(45, 60))": "75 %.",
        "8 h 25 min (span(09:15, 17:40))": "8 h 25 min",
        "42 km are 26.1 miles.": "42 km are 26.1 miles.",
    }
    assert {text: value_text(text) for text in said} == said


EPISODES = read_episodes()
HEADS = {tool: head for head, tool in TOOL_HEADS.items()}


def is_whole(episode: Episode) -> bool:
    """Whether it is one task for one model, which must not be split."""
    return len(episode.parts) == 1 and not episode.parts[0].tool


def checked_plan(episode: Episode) -> Plan:
    """Return the expected plan as the trained conductor's is run."""
    asked = [PlanPart(part.text, part.tool, inputs=part.needs) for part in episode.parts]
    found = check_parts(mark(episode.request), asked)
    assert [part.problem for part in found] == [""] * len(found)
    steps = tuple(
        Step(
            part.tool or "small",
            one.text,
            (*((PROMPT,) if part.tool else ()), *map(str, part.needs)),
        )
        for part, one in zip(episode.parts, found, strict=True)
    )
    return Plan(steps, tuple(range(1, len(steps) + 1)))


def test_there_are_so_many_of_each_sort_and_language() -> None:
    languages = Counter(episode.language for episode in EPISODES)
    assert languages == {"en": 30, "de": 6, "fr": 6, "es": 6, "it": 6, "pt": 6}
    several = [episode for episode in EPISODES if len(episode.parts) > 1]
    assert len(several) == 24
    assert all(len(episode.parts) <= 4 for episode in several)
    assert sum(any(part.needs for part in episode.parts) for episode in several) >= 8
    assert sum(is_whole(episode) for episode in EPISODES) == 18
    assert len({episode.id for episode in EPISODES}) == len(EPISODES) == 60
    assert len({episode.request for episode in EPISODES}) == 60


def test_the_first_ones_are_of_all_sorts() -> None:
    first = EPISODES[:3]
    assert {(len(one.parts) > 1, is_whole(one)) for one in first} == {
        (True, False), (False, False), (False, True),
    }  # fmt: skip


@pytest.mark.sampled(12)
@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.id)
def test_the_expected_plan_is_right_and_no_other_is(episode: Episode) -> None:
    if is_whole(episode):
        assert score_plan(single_step_plan("small"), episode, {}) == 1.0
        return
    assert may_have_parts(episode.request)
    expected = checked_plan(episode)
    assert score_plan(expected, episode, {}) == 1.0
    whole = score_plan(single_step_plan("small"), episode, {})
    assert whole == (0.5 if len(episode.parts) == 1 else 0.0)
    for number in range(len(expected.steps)):
        steps = [*expected.steps[:number], *expected.steps[number + 1 :]]
        if steps and not any(step.inputs for step in steps):
            less = Plan(tuple(steps), tuple(range(1, len(steps) + 1)))
            assert score_plan(less, episode, {}) <= 1 - 1 / len(expected.steps)


@pytest.mark.parametrize(
    ("tool", "text"),
    sorted({(p.tool, p.text) for e in EPISODES for p in e.parts if p.tool and "#" not in p.text}),
)
def test_what_a_tool_is_asked_to_compute_can_be_computed(tool: str, text: str) -> None:
    assert compute_step(HEADS[tool], text)


def test_texts_are_short_enough_for_a_line_of_a_plan() -> None:
    assert max(len(part.text) for episode in EPISODES for part in episode.parts) <= MAX_TEXT_CHARS
