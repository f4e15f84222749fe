"""Whatever a program says, it gets no more than the user allows: headers, fields, models, money."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.core.money import NANO
from baton.server import ServingLimits
from baton.server.access import Grant
from baton.server.client_request import ConditionFields, read_conditions
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import GPT, SMALL, Served, cut_answer, served_baton

LAN = Card("lab", "server", "Lab", privacy=Label.LAN, context=8192, remote=True)
LARGE = 10 * NANO
CALL_COST = 500 * 10_000
"""What a call of the paid worker is billed: 500 tokens at $10 for a million."""

# Of contradicting sources the strictest counts

flags = st.lists(st.sampled_from(("0", "1", "true", "FALSE")), max_size=3)
amounts = st.lists(st.sampled_from(("0", "0.01", "5", "100")), max_size=3)


def is_set(values: list[str]) -> set[bool]:
    return {value.lower() in ("1", "true") for value in values}


@given(flags, flags, flags, amounts, amounts, st.builds(ConditionFields), st.data())
def test_the_strictest_of_all_that_is_said_counts(
    private: list[str],
    strict: list[str],
    keep: list[str],
    budget: list[str],
    deadline: list[str],
    said: ConditionFields,
    data: st.DataObject,
) -> None:
    said = ConditionFields(
        data.draw(st.none() | st.sampled_from(("0", "2"))),
        data.draw(st.none() | st.sampled_from((1.0, 30.0))),
        *(data.draw(st.booleans()) for _ in range(3)),
    )
    store = data.draw(st.none() | st.booleans())
    deadline = [value for value in deadline if value != "0"]
    named = {
        "x-baton-private": private,
        "x-baton-strict": strict,
        "x-baton-keep": keep,
        "x-baton-budget": budget,
        "x-baton-deadline": deadline,
    }
    headers = {name: ", ".join(values) for name, values in named.items() if values}
    found = read_conditions(headers, said, store)
    assert found.is_private == (said.private or True in is_set(private))
    assert found.is_strict == (said.strict or True in is_set(strict))
    assert found.is_kept == (said.keep and store is not False and False not in is_set(keep))
    budgets = [float(value) for value in [*budget, *([said.budget] if said.budget else [])]]
    assert found.budget == (min(budgets) * NANO if budgets else None)
    seconds = [float(value) for value in deadline] + ([said.deadline] if said.deadline else [])
    assert found.deadline == (min(seconds) if seconds else None)


# Nothing that a request says makes Baton spend, or send, more than it may


def paid(request: Request) -> Iterable[Chunk]:
    yield RequestSent("api.openai.com", 500)
    yield Text("From far away.")
    yield Usage(450, 50, Finish.STOP)


def near(request: Request) -> Iterable[Chunk]:
    yield RequestSent("10.0.0.5", 500)
    yield Text("From the lab.")
    yield Usage(450, 50, Finish.STOP)


class Rules:
    """One server under drawn settings, and what its settings let a request do."""

    def __init__(self, dice: Random) -> None:
        amounts = (None, None, 0, LARGE, LARGE)
        drawn = {scope: dice.choice(amounts) for scope in (Scope.SESSION, Scope.DAY, Scope.MONTH)}
        self.ceilings = {scope: amount for scope, amount in drawn.items() if amount is not None}
        self.budget = dice.choice((None, None, 0, LARGE, CALL_COST * 3))
        self.is_private = dice.random() < 0.15
        self.mode = dice.choice(("auto", "auto", "auto", "local"))
        self.policy = dice.choice((Policy.ASK, Policy.BUDGET, Policy.NEVER))

    def may_spend(self, grant: Grant, is_private: bool, budget: float | None) -> bool:
        """Whether any paid call is allowed at all."""
        opening = [self.ceilings.get(Scope.DAY), self.ceilings.get(Scope.MONTH), self.budget]
        every = [*self.ceilings.values(), self.budget]
        return (
            grant is Grant.SPEND
            and not (is_private or self.is_private)
            and self.mode != "local"
            and self.policy is not Policy.NEVER
            and any(opening)
            and 0 not in every
            and budget != 0
        )


async def check_rules(home: Path, seed: int, requests: int) -> int:
    """Send drawn requests under drawn settings; return how many paid calls were made."""
    dice = Random(seed)
    rules = Rules(dice)
    small, gpt, lab = (
        ScriptedWorker(cut_answer, SMALL),
        ScriptedWorker(paid, GPT),
        ScriptedWorker(near, LAN),
    )
    allowed = ServingLimits(rules.budget, rules.is_private)
    async with served_baton(home, [small, gpt, lab], ceilings=rules.ceilings, allowed=allowed) as s:
        s.baton.orchestra.change_terms(mode=rules.mode, policy=rules.policy)
        for number in range(requests):
            await check_request(s, rules, dice, number, gpt, lab)
    assert rules.budget is None or len(gpt.requests) * CALL_COST <= rules.budget
    return len(gpt.requests)


async def check_request(
    served: Served, rules: Rules, dice: Random, number: int, gpt: Any, lab: Any
) -> None:
    grant = dice.choice(list(Grant))
    headers = [("authorization", f"Bearer {served.tokens[grant]}")]
    body: dict[str, Any] = {
        "model": dice.choice(("baton/auto", "baton/ultra", "gpt", "gpt", "lab"))
    }
    said = f"Request {number}: tell me of the sea."
    path = dice.choice(("/chat/completions", "/responses", "/messages"))
    body |= (
        {"input": said}
        if path == "/responses"
        else {"messages": [{"role": "user", "content": said}]}
    )
    body |= {"max_tokens": 60} if path == "/messages" else {}
    field: dict[str, Any] = {}
    budgets: list[float] = []
    is_private = False
    for _ in range(dice.randint(0, 3)):
        match dice.choice(("budget", "budget field", "private", "open", "private field", "fields")):
            case "budget":
                budgets.append(dice.choice((0.0, 5.0, 1e5)))
                headers.append(("x-baton-budget", f"{budgets[-1]:f}"))
            case "budget field" if "budget" not in field:
                field["budget"] = dice.choice(("0", "7"))
                budgets.append(float(field["budget"]))
            case "private":
                headers.append(("x-baton-private", "1"))
                is_private = True
            case "open":
                headers.append(("x-baton-private", "0"))
            case "private field":
                field["private"] = is_private = True
            case "fields":
                body |= {"metadata": {"budget": "5", "private": "false"}}
    body |= {"baton": field} if field else {}
    before, near_before = len(gpt.requests), len(lab.requests)
    async with httpx.AsyncClient(base_url=served.url, headers=headers) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code in (200, 400, 402, 403), answer.text
    count = len(gpt.requests) - before
    may = rules.may_spend(grant, is_private, min(budgets, default=None))
    assert not count or may, (grant, headers, body, rules.__dict__)
    is_near_allowed = not (is_private or rules.is_private or grant is Grant.PRIVATE)
    assert len(lab.requests) == near_before or (is_near_allowed and rules.mode != "local")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(1_000))
async def test_no_request_gets_more_than_the_settings_allow(tmp_path: Path, seed: int) -> None:
    await check_rules(tmp_path, seed, 10)


async def test_a_token_spends_its_ceiling_and_no_more_over_restarts_and_texts(
    tmp_path: Path,
) -> None:
    ceiling, made, calls = NANO // 10, itertools.count(), []
    for _ in range(2):
        small, gpt = ScriptedWorker(cut_answer, SMALL), ScriptedWorker(paid, GPT)
        allowed = ServingLimits(ceiling)
        async with (
            served_baton(tmp_path, [small, gpt], allowed=allowed) as served,
            served.client(Grant.SPEND) as client,
        ):
            status = 200
            while status == 200:
                said = [
                    {"role": "system", "content": f"The time is 10:{next(made)}."},
                    {"role": "user", "content": f"Go on, {next(made)}."},
                ]
                body = {"model": "gpt", "messages": said, "max_tokens": 256}
                answer = await client.post("/chat/completions", json=body)
                status = answer.status_code
            assert (status, "baton serve --budget" in answer.text) == (402, True)
        calls.append(len(gpt.requests))
    assert calls[0] > 5
    assert calls[1] == 0
    assert sum(calls) * CALL_COST <= ceiling
