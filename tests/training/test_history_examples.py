"""The user's own runs that they marked good become examples, those marked bad don't."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from pathlib import Path

import history_examples
import pytest
import pytest_asyncio
from request_generator import OWN, OWN_SHARE, Generator

from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import Signal
from baton.core.labels import Label
from baton.core.messages import Finish, Prompt, Purpose, TurnStatus
from baton.core.plan_types import HISTORY, PROMPT, Need, Plan, Step, direct_step
from baton.core.ports import ConversationPosition
from baton.history import Store

TWO = "What is seventeen times 23, and write a poem about rain"
TWO_PLAN = Plan(
    (
        Step("calculator", "17 * 23", (PROMPT,), Need("calculation", 1)),
        Step("small", "write a poem about rain", (), Need("writing", 2)),
    ),
    (1, 2),
)
HALVED = "Convert 42 km to miles and divide the result by two"
HALVED_PLAN = Plan(
    (
        Step("units", "42 km -> mi", (PROMPT,), Need("calculation", 1)),
        Step(
            "calculator",
            "#1 / 2 where #1 = units: 42 km -> mi",
            (PROMPT, "1"),
            Need("calculation", 1),
        ),
    ),
    (1, 2),
)
WHOLE = Plan((direct_step("small", (), Need("knowledge", 3)),), (1,))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "baton.db"


@pytest_asyncio.fixture
async def store(file: Path) -> AsyncIterator[Store]:
    opened = Store(file)
    yield opened
    await opened.aclose()


def planning_call() -> ev.Called:
    """Return the conductor's call."""
    return ev.Called(
        0, "conductor", Purpose.PLAN, 40, 20, 0, 2048, 0, True, 0.4, 0.1, 0.0, Finish.STOP, at=0.1
    )


async def execute(
    store: Store,
    prompt: str,
    plans: Sequence[Plan],
    rating: Signal | None = Signal.GOOD,
    *,
    conducted: bool = True,
) -> None:
    """Record a finished run with these plans, the later replacing the earlier, and its mark."""
    begun = await store.begin(Prompt(prompt), ConversationPosition(), Label.LOCAL)
    ids = (begun.run, begun.conversation, begun.prompt, begun.answer)
    events: list[ev.Event] = [ev.Started(*ids), *([planning_call()] if conducted else [])]
    events += [ev.Planned(plan, at=0.2) for plan in plans]
    for number, step in enumerate(plans[-1].steps, start=1):
        events.append(ev.StepStarted(number, step.worker, at=0.3))
        events.append(ev.StepFinished(number, Finish.STOP, "391", at=0.4))
    for event in (*events, ev.Finished(at=0.5)):
        await store.append(begun.run, event)
    await store.write(begun.answer, "391", TurnStatus.DONE, "small")
    await store.feedback.rate(begun.answer, rating)


async def test_a_split_request_becomes_its_marked_prompt_and_its_lines(
    store: Store, file: Path
) -> None:
    await execute(store, TWO, [TWO_PLAN])
    await execute(store, HALVED, [HALVED_PLAN])
    await execute(store, "Who painted Guernica?", [WHOLE], conducted=False)
    examples = {example.prompt: example for example in history_examples.read_examples(file)}
    two = examples["What is 17 times 23, and write a poem about rain"]
    assert (two.kind, two.language) == (OWN, "en")
    assert two.plan == ("calc: 17 * 23", "writing2: write a poem about rain")
    halved = examples["Convert 42 km to miles and divide the result by 2"]
    assert halved.plan == ("units: 42 km -> mi", "calc: #1 / 2 <- 1")
    assert examples["Who painted Guernica?"].plan == ("knowledge3: *",)


async def test_a_draft_that_another_worker_replaced_leaves_the_request_whole(
    store: Store, file: Path
) -> None:
    await execute(store, "Who wrote Emma?", [WHOLE, WHOLE.with_steps([direct_step("gpt")], (2,))])
    [example] = history_examples.read_examples(file)
    assert example.plan == ("knowledge3: *",)


async def test_only_the_newest_mark_of_a_prompt_counts_and_only_a_good_one(
    store: Store, file: Path
) -> None:
    await execute(store, TWO, [WHOLE], Signal.BAD)
    await execute(store, TWO, [TWO_PLAN])
    await execute(store, "Who wrote Emma?", [WHOLE])
    await execute(store, "Who wrote Emma?", [WHOLE], Signal.BAD)
    await execute(store, "Who wrote Ulysses?", [WHOLE], None)
    [example] = history_examples.read_examples(file)
    assert len(example.plan) == 2


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(TWO_PLAN.with_steps([direct_step("small")], (3,)), id="rescued"),
        pytest.param(
            Plan((Step("small", "compose verses on precipitation"), *TWO_PLAN.steps), (1, 2, 3)),
            id="in words that the request doesn't hold",
        ),
        pytest.param(
            Plan((Step("calculator", "17 * 26", (PROMPT,)), *TWO_PLAN.steps[1:]), (1, 2)),
            id="a number that the request doesn't hold",
        ),
        pytest.param(
            Plan(
                (
                    Step("small", "seventeen times 23", (), Need("calculation", 2)),
                    *TWO_PLAN.steps[1:],
                ),
                (1, 2),
            ),
            id="an expression in doubt",
        ),
        pytest.param(
            Plan((*TWO_PLAN.steps, Step("gpt", "Check it.", ("1",), check=True)), (1, 2)),
            id="checked",
        ),
    ],
)
async def test_what_is_not_a_sound_split_is_left_out(store: Store, file: Path, plan: Plan) -> None:
    await execute(store, TWO, [plan])
    with pytest.raises(ConfigError, match="marked good: 1, but none"):
        history_examples.read_examples(file)
    await execute(store, "Who wrote Emma?", [WHOLE])
    assert [e.prompt for e in history_examples.read_examples(file)] == ["Who wrote Emma?"]


async def test_a_template_of_several_steps_is_not_a_plan_of_the_conductor(
    store: Store, file: Path
) -> None:
    await execute(store, TWO, [TWO_PLAN], conducted=False)
    with pytest.raises(ConfigError, match="marked good: 1, but none"):
        history_examples.read_examples(file)


async def test_a_text_too_long_for_a_batch_is_left_out(store: Store, file: Path) -> None:
    await execute(store, "Who wrote it? " * 60, [WHOLE])
    with pytest.raises(ConfigError, match="marked good: 1, but none"):
        history_examples.read_examples(file)


async def test_without_a_marked_run_it_says_what_to_do(store: Store, file: Path) -> None:
    await execute(store, TWO, [TWO_PLAN], None)
    with pytest.raises(ConfigError, match=r"marked good.*baton history rate good"):
        history_examples.read_examples(file)


def test_without_a_history_it_says_where_it_looked_and_makes_none(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no history at .*baton\.db"):
        history_examples.read_examples(file)
    assert not file.exists()


def test_the_history_is_as_it_was(file: Path) -> None:
    async def fill() -> None:
        store = Store(file)
        await execute(store, TWO, [TWO_PLAN])
        await store.aclose()

    asyncio.run(fill())
    before = file.read_bytes()
    history_examples.read_examples(file)
    assert file.read_bytes() == before


@pytest.mark.sampled(0.34)
async def test_a_fixed_share_of_what_is_drawn_is_the_persons_own(store: Store, file: Path) -> None:
    step = Step("small", "write a poem about rain", (HISTORY,), Need("writing", 2))
    await execute(store, TWO, [Plan((TWO_PLAN.steps[0], step), (1, 2))])
    own = history_examples.read_examples(file)
    drawn = list(islice(iter(Generator(3, own=own)), 1500))
    share = sum(example.kind == OWN for example in drawn) / len(drawn)
    assert share == pytest.approx(OWN_SHARE, abs=0.03)
    without = list(islice(iter(Generator(3)), 40))
    assert without == list(islice(iter(Generator(3, own=())), 40))
    assert all(example.kind != OWN for example in without)
