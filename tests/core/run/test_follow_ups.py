"""Follow-ups in six languages are judged with what they follow: by the router and the doubts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from baton.core.labels import Label
from baton.core.messages import Card, Role, Turn, TurnStatus
from baton.core.plan_types import Material
from baton.core.planning.request_parts import TrainedConductor, split_request
from baton.core.ports import RoutingContext
from baton.core.reading.follow_up import is_follow_up
from baton.core.reading.missing_knowledge import Lack, missing_knowledge
from baton.core.run.rule_router import RuleRouter

DATA: dict[str, Any] = tomllib.loads((Path(__file__).parent / "follow_ups.toml").read_text("utf-8"))
ROSTER = [
    Card("small", "local", "Small", context=8192, parameters=135_000_000),
    *(Card(name, "tool", name) for name in ("calculator", "units", "clock", "baton")),
]


def material(*texts: str) -> Material:
    roles = (Role.USER, Role.ASSISTANT)
    return Material(
        tuple(
            Turn(str(n), "c", None, roles[n % 2], text, TurnStatus.DONE, Label.CLOUD, 0.0)
            for n, text in enumerate(texts)
        )
    )


@pytest.mark.parametrize(
    "case", DATA["follow_ups"], ids=lambda one: f"{one['thread']}-{one['text']}"
)
async def test_a_follow_up_is_judged_with_its_thread(case: dict[str, str]) -> None:
    thread = DATA["threads"][case["thread"]]
    prompt, text = thread["prompt"], case["text"]
    threaded = material(prompt, thread["answer"], text)
    route = await RuleRouter().route(threaded, ROSTER)
    first, alone = [await RuleRouter().route(material(one), ROSTER) for one in (prompt, text)]
    assert (route.tool != "") is (text == "what is 2+2?")
    lack = missing_knowledge(threaded)
    if case["expect"] == "carries":
        assert route.need.difficulty == first.need.difficulty
        assert lack is missing_knowledge(material(prompt))
    else:
        assert route.need.difficulty == alone.need.difficulty
        assert lack is None


async def test_a_chain_of_follow_ups_leads_to_its_request() -> None:
    proof = DATA["threads"]["en-proof"]["prompt"]
    threaded = material(proof, "First part.", "go on", "Second part.", "yes")
    first = await RuleRouter().route(material(proof), ROSTER)
    assert (await RuleRouter().route(threaded, ROSTER)).need == first.need
    after = material(proof, "Done.", "thanks", "You are welcome.", "yes")
    assert (await RuleRouter().route(after, ROSTER)).need.difficulty == 1
    live = material("What is the weather in Oslo now?", "Sunny.", "and in Rome?", "Hot.", "sure?")
    assert missing_knowledge(live) is Lack.NOW


@pytest.mark.parametrize("text", ["and with 20 % off?", "yes, add 5", "both times"])
async def test_numbers_of_a_follow_up_are_not_computed_by_themselves(text: str) -> None:
    """The conductor, which would read them, isn't even asked."""
    threaded = material("A coat costs 80 euros, and I have 3.", "What of it?", text)
    routing = SimpleNamespace(material=threaded, roster=(), limits=SimpleNamespace(label=None))
    nobody = cast("TrainedConductor", SimpleNamespace(tools=None))
    write = cast("Any", None)
    assert await split_request(nobody, cast("RoutingContext", routing), write) is None


ALONE: tuple[str, ...] = (
    "How are you?",
    "who are you",
    "What is it?",
    "What time is it?",
    "come stai?",
    "no thanks",
)
ALONE += ("and 13 times 13?", "and what is 12 + 30?", "Write a poem about it", "", "?", "x" * 99)


@pytest.mark.parametrize("text", ALONE)
def test_a_prompt_that_stands_alone_is_not_a_follow_up(text: str) -> None:
    assert not is_follow_up(text)


MORE: tuple[str, ...] = (
    "tell me more",
    "keep going",
    "what else?",
    "try again",
    "option 2",
    "2",
    "b",
    "yes, thanks",
)
MORE += ("mach's", "gib mir ein Beispiel", "und weiter?", "dis m'en plus", "encore une fois")
MORE += ("de acuerdo", "otra vez", "dimmi di più", "va bene", "dá-me um exemplo")


@pytest.mark.parametrize("text", [*MORE, "pode ser, continua"])
def test_other_words_for_more_are_follow_ups(text: str) -> None:
    assert is_follow_up(text)
