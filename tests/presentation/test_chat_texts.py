"""The home in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from baton.core.events import Cancelled
from baton.core.history_types import RecentConversation
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope, ScopeBalance, Standing
from baton.core.messages import Card, TurnStatus
from baton.core.money import FREE, NANO, Price, Rates
from baton.core.permissions import RunTerms
from baton.core.view import RunView, fold_events
from baton.presentation.chat_texts import cloud_text, models_text, recent_text
from baton.presentation.words import ago_text
from support.stored_runs import BEGUN, EVENTS

LOCAL = Card("small", "local", "SmolLM2 135M", note="Tiny, often wrong.")
PAID = Card("gpt", "cloud", "gpt-5", privacy=Label.CLOUD, price=Price(Rates(1, 1, 1, 1)))
STOPPED = fold_events((*BEGUN, Cancelled(at=2.5)))
UNPLAYED = fold_events((*BEGUN[:5], Cancelled(at=2.5)))
DAY = Standing((ScopeBalance(Scope.DAY, 2 * NANO, settled=140_000_000),))


@pytest.mark.parametrize(
    ("status", "run", "cost", "state", "is_open"),
    [
        (TurnStatus.DONE, RunView(), 0, "", False),
        (TurnStatus.DONE, RunView(), 3_000_000, "$0.003", False),
        (TurnStatus.STREAMING, RunView(), 0, "being answered", False),
        (TurnStatus.LOST, RunView(), 0, "interrupted", True),
        (TurnStatus.CUT, RunView(), 0, "cut at its length limit", True),
        (TurnStatus.CANCELLED, RunView(), 0, "stopped", False),
        (TurnStatus.FAILED, RunView(), NANO, "failed · $1.00", False),
        (TurnStatus.CANCELLED, STOPPED, 0, "interrupted at step 3", True),
        (TurnStatus.CANCELLED, UNPLAYED, 0, "plan kept, not run", True),
        (TurnStatus.FAILED, fold_events(EVENTS), 0, "failed", False),
    ],
)
def test_how_a_conversation_stands(
    status: TurnStatus, run: RunView, cost: int, state: str, is_open: bool
) -> None:
    said = recent_text(RecentConversation("c", "A title", 100.0, "t", status, cost), run, 220.0)
    assert (said.title, said.age, said.state) == ("A title", "2 min ago", state)
    assert said.at == ("t" if is_open else None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 day ago"),
        (29 * 86_400, "29 days ago"),
        (30 * 86_400, "1 month ago"),
        (800 * 86_400, "2 years ago"),
    ],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert ago_text(seconds) == words


@given(st.floats(0, 1e9))
def test_an_age_is_short_and_never_above_the_truth(seconds: float) -> None:
    number, unit = [*ago_text(seconds).split(), ""][:2]
    units = {"min": 60, "h": 3600, "day": 86_400, "month": 30 * 86_400, "year": 365 * 86_400}
    if number == "just":
        assert seconds < 60
    else:
        assert int(number) * units[unit.rstrip("s")] <= seconds


@pytest.mark.parametrize(
    ("cards", "terms", "standing", "is_private", "words"),
    [
        ((), RunTerms(), DAY, False, "off; /connect sets a provider up"),
        ((PAID,), RunTerms(), DAY, False, "ask each time · $0.14 of $2.00 today"),
        (
            (PAID,),
            RunTerms(policy=Policy.BUDGET),
            DAY,
            False,
            "within the ceilings, without asking · $0.14 of $2.00 today",
        ),
        (
            (PAID,),
            RunTerms(),
            Standing(()),
            False,
            "off: no ceiling is set; /budget day 2 allows $2 a day",
        ),
        ((replace(PAID, price=FREE),), RunTerms(), Standing(()), False, "ask each time"),
        ((PAID,), RunTerms(), replace(DAY, frozen="over"), False, "frozen; /budget shows why"),
        (
            (PAID,),
            RunTerms(policy=Policy.NEVER),
            DAY,
            False,
            "off: never asked; /budget policy ask changes that",
        ),
        (
            (PAID,),
            RunTerms(mode="local"),
            DAY,
            False,
            "off: this mode keeps all on this machine; /mode auto lifts that",
        ),
        ((PAID,), RunTerms(), DAY, True, "off: this conversation is private"),
        (
            (PAID,),
            RunTerms(offline=True),
            DAY,
            True,
            "off: Baton is offline; /offline off lifts that",
        ),
    ],
)
def test_how_the_cloud_stands(
    cards: tuple[Card, ...], terms: RunTerms, standing: Standing, is_private: bool, words: str
) -> None:
    roster = {card.id: card for card in (LOCAL, *cards)}
    assert cloud_text(standing, roster, terms, is_private=is_private) == words


@pytest.mark.parametrize(
    ("cards", "worker", "words"),
    [
        ((LOCAL,), "small", "SmolLM2 135M: tiny, often wrong"),
        ((LOCAL, PAID), "gpt", "gpt-5 · 1 more"),
        ((LOCAL, Card("sum", "tool", "Sums")), "small", "SmolLM2 135M: tiny, often wrong"),
        ((), "small", "none here yet; F6 shows what suits this machine"),
        ((replace(LOCAL, name="a\x1b[2Jb\nc", note=""),), "small", "a\ufffd[2Jb c"),
    ],
)
def test_who_answers(cards: tuple[Card, ...], worker: str, words: str) -> None:
    assert models_text({card.id: card for card in cards}, worker, "F6") == words
