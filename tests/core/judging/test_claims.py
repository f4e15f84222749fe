"""Conversions of units that a text claims: only plainly wrong ones are called wrong."""

from __future__ import annotations

import pytest

from baton.core.events import Verdict
from baton.core.judging.checks import check_text, is_checkable
from baton.core.judging.claims import claimed_conversions
from baton.core.messages import Message, Purpose, Request, Role, Text
from baton.workers.tools import build_tools


async def compute(tool: str, text: str) -> str:
    """Return what the real tool answers."""
    request = Request((Message(Role.USER, text),), Purpose.VERIFY)
    worker = build_tools()[tool]
    return "".join([c.text async for c in worker.stream(request) if isinstance(c, Text)])


async def verdicts(text: str, prompt: str = "How far is it?") -> dict[str, Verdict]:
    return {found.what: found.verdict for found in await check_text(text, prompt, compute, None)}


@pytest.mark.parametrize(
    "text",
    [
        "It is 42 km = 15 miles to the sea.",
        "Note that 3 ounces are about 1.34 grams.",
        "So 100 °F is 212 °C.",
        "5 feet equals 60 cm.",
    ],
)
async def test_a_wrong_conversion_is_found(text: str) -> None:
    assert (await verdicts(text))["units"] is Verdict.WRONG


@pytest.mark.parametrize(
    "text",
    [
        "It is 42 km = 26.1 miles to the sea.",
        "10 km is about 6 miles.",
        "1 kg is 2.2 pounds.",
        "5 feet are 152 cm.",
        "2 hours are 120 minutes.",
    ],
)
async def test_a_right_or_rounded_conversion_is_right(text: str) -> None:
    assert (await verdicts(text))["units"] is Verdict.RIGHT


@pytest.mark.parametrize(
    "text",
    [
        "He ran 5 km in 25 minutes.",
        "The box is 3 m and 40 cm wide.",
        "10 m is not 15 feet.",
        "It is 5 km, which is 30 minutes on foot.",
        "Between 5 km and 7 miles.",
    ],
)
async def test_what_is_not_a_claim_is_not_called_wrong(text: str) -> None:
    assert (await verdicts(text)).get("units") is not Verdict.WRONG


async def test_what_the_prompt_claims_is_not_the_answer_s_mistake() -> None:
    text = "You say that 42 km = 15 miles."
    assert "units" not in await verdicts(text, "Is it right that 42 km = 15 miles?")


def test_a_conversion_makes_a_text_worth_checking() -> None:
    assert is_checkable("It is 42 km = 15 miles to the sea.")
    assert [one.question for one in claimed_conversions("42 km = 15 miles")] == ["42 km in miles"]
