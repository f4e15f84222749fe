"""Attacks of clients: on the money, on the runs of others, on what is private."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from baton.core.labels import Label
from baton.core.ledger_types import Scope
from baton.core.messages import Card, Chunk, Finish, Prompt, Request, RequestSent, Text, Usage
from baton.core.money import FREE, NANO, Price, Rates
from baton.core.permissions import PromptLimits
from baton.server import ServingLimits
from baton.server.access import Grant
from baton.workers.cloud.redaction import Redaction
from baton.workers.scripted_worker import ScriptedWorker
from support.served_baton import Served, served_baton, wait_until

Turns = Sequence[tuple[str, str]]

PATHS = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
MANNERS = ["baton/auto", "baton/mini", "baton/local", "baton/ultra"]
UNABLE = "I cannot answer that."
"""What the local worker says: so baton/auto asks the cloud, wherever it may."""

NANOS_PER_TOKEN, CALL_TOKENS = 10_000, (40, 160)
PRICE = Price(Rates(NANOS_PER_TOKEN * 10**6, NANOS_PER_TOKEN * 10**6, 0, 0), source="test")
DAY = {Scope.DAY: NANO}


def local_worker(answer: str = UNABLE, pause: float = 0.0) -> ScriptedWorker:
    def script(request: Request) -> Iterable[Chunk | float]:
        yield pause
        yield Text(answer)
        yield Usage(10, 4, Finish.STOP)

    return ScriptedWorker(script, Card("small", "local", "Small", context=8192, slots=64))


def remote_worker(
    price: Price = PRICE, id: str = "gpt", privacy: Label = Label.CLOUD
) -> ScriptedWorker:
    def script(request: Request) -> Iterable[Chunk]:
        yield RequestSent("api.openai.com", 500)
        yield Text("From far away.")
        yield Usage(*CALL_TOKENS, Finish.STOP)

    kind = "cloud" if privacy is Label.CLOUD else "server"
    card = Card(id, kind, id, privacy, 100_000, price=price, provider="openai", remote=True)
    return ScriptedWorker(script, card)


@asynccontextmanager
async def serve(
    home: Path, *workers: ScriptedWorker, grant: Grant = Grant.SPEND, **more: Any
) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    """Serve with a ceiling for the day; yield it, and a client with a token."""
    async with (
        served_baton(home, workers, **{"ceilings": DAY, **more}) as served,
        served.client(grant) as client,
    ):
        yield served, client


def request_body(
    protocol: str, model: str, turns: Turns | str, system: str, more: dict[str, Any]
) -> dict[str, Any]:
    said = [("user", turns)] if isinstance(turns, str) else [*turns]
    field = "input" if protocol == "responses" else "messages"
    if protocol == "messages":
        more = {"max_tokens": 300, **more, **({"system": system} if system else {})}
    elif system:
        said.insert(0, ("system", system))
    return {"model": model, field: [{"role": r, "content": text} for r, text in said], **more}


async def post(
    client: httpx.AsyncClient,
    protocol: str,
    model: str,
    turns: Turns | str = "Hello",
    headers: Any = None,
    system: str = "",
    **more: Any,
) -> httpx.Response:
    body = request_body(protocol, model, turns, system, more)
    return await client.post(PATHS[protocol], json=body, headers=headers)


def answer_text(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    found = answer.json()
    if "choices" in found:
        return str(found["choices"][0]["message"]["content"])
    return str((found.get("content") or found["output"][0]["content"])[0]["text"])


async def stored_labels(served: Served) -> dict[str, tuple[Label, int]]:
    """Return how each conversation is labelled, and how many turns it has."""
    store = served.baton.store
    found = await store.conversations()
    return {one.id: (one.label, len(await store.thread(one.id))) for one in found}


# A request can only narrow


@pytest.mark.parametrize(
    ("ceilings", "grant"),
    [
        ({}, Grant.SPEND),
        ({Scope.DAY: 0}, Grant.SPEND),
        ({Scope.SESSION: NANO}, Grant.SPEND),
        ({Scope.RUN: NANO, Scope.MONTH: 0}, Grant.SPEND),
        ({}, Grant.FREE),
        ({}, Grant.PRIVATE),
    ],
)
async def test_no_request_spends_where_no_ceiling_allows_it(
    tmp_path: Path, ceilings: dict[Scope, int], grant: Grant
) -> None:
    away, budget = remote_worker(), ("x-baton-budget", "5")
    field = {"budget": "5", "private": False}
    ways: list[Any] = [([], {}), ([budget], {}), ([], field), ([budget, budget], field)]
    async with serve(tmp_path, local_worker(), away, grant=grant, ceilings=ceilings) as (_, client):
        for model in ("gpt", *MANNERS):
            chosen = itertools.product(PATHS, ways if model == "gpt" else ways[-1:])
            asking = (post(client, p, model, headers=h, baton=more) for p, (h, more) in chosen)
            for answer in await asyncio.gather(*asking):
                refused = 402 if grant is Grant.SPEND else 403
                assert answer.status_code == (refused if model == "gpt" else 200)
                if answer.status_code == 402:
                    said = answer.json()["error"]["message"]
                    assert "`baton budget set day 2`" in said
                    assert "`baton serve --budget 1`" in said
                    assert "for one prompt with" not in said
    assert away.requests == []


CONTRADICTIONS: list[tuple[str, dict[str, Any], int, str]] = [
    ("", {}, 200, "From far away."),
    ("budget: 0.5; private: 0", {"private": False, "budget": "5"}, 200, "From far away."),
    ("private: 1", {"private": False}, 400, UNABLE),
    ("private: 0", {"private": True}, 400, UNABLE),
    ("private: 1; private: 0", {}, 400, UNABLE),
    ("private: 0; private: 1", {}, 400, UNABLE),
    ("private: 0, true", {"private": False}, 400, UNABLE),
    ("budget: 0.5", {"budget": "0.0000001"}, 402, UNABLE),
    ("budget: 0.0000001", {"budget": "0.5"}, 402, UNABLE),
    ("budget: 0.5; budget: 0", {}, 402, UNABLE),
    ("budget: 0; budget: 0.5", {"budget": 1}, 402, UNABLE),
    ("strict: 0; budget: 0", {"strict": True}, 402, "insufficient_quota billing_error"),
    ("strict: 1; strict: 0; budget: 0", {}, 402, "insufficient_quota billing_error"),
]
"""Headers and fields, the status for a named cloud worker, and what baton/auto then says."""


@pytest.mark.parametrize("protocol", PATHS)
async def test_of_contradicting_conditions_the_strictest_counts(
    tmp_path: Path, protocol: str
) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker(), away) as (_, client):
        for headers, field, status, said in CONTRADICTIONS:
            lines = [line.split(": ") for line in headers.split("; ") if line]
            shown = [(f"x-baton-{name}", value) for name, value in lines]
            more: dict[str, Any] = {"headers": shown, "baton": field}
            away.requests.clear()
            named = await post(client, protocol, "gpt", **more)
            assert named.status_code == status, (headers, field, named.text)
            auto = await post(client, protocol, "baton/auto", **more)
            got = auto.json()["error"]["type"] if auto.is_error else answer_text(auto)
            assert got in said, (headers, field, auto.text)
            assert len(away.requests) == (2 if status == 200 else 0)


@pytest.mark.parametrize("protocol", PATHS)
async def test_what_any_source_says_not_to_store_is_not_stored(
    tmp_path: Path, protocol: str
) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [("1", {"baton": {"keep": False}}), ("1, 0", {})]
    ways.append(("0", {"baton": {"keep": True}}))
    if protocol != "messages":
        ways += [("1", {"store": False, "baton": {"keep": True}}), ("0", {"store": True})]
    async with serve(tmp_path, local_worker()) as (served, client):
        for kept, fields in ways:
            headers = [("x-baton-keep", value) for value in kept.split(", ")]
            answer_text(await post(client, protocol, "baton/auto", headers=headers, **fields))
            assert await stored_labels(served) == {}, (kept, fields)


@pytest.mark.parametrize(("times", "field"), [(["0.1", "30"], 30), (["30", "20"], 0.1)])
async def test_the_shortest_deadline_counts(tmp_path: Path, times: list[str], field: float) -> None:
    headers = [("x-baton-deadline", time) for time in times]
    async with serve(tmp_path, local_worker(pause=15.0)) as (_, client):
        answer = await post(client, "chat", "baton/auto", "Hi", headers, baton={"deadline": field})
    assert "after 0.1 seconds" in answer.text


DOUBLES = [
    '"baton": {"private": true}, "baton": {"private": false}',
    '"baton": {"private": true}, "b\\u0061ton": {"private": false}',
    '"baton": {"private": true, "private": false}',
    '"baton": {"budget": 0, "budget": 1}',
    '"store": false, "st\\u006fre": true',
]


@pytest.mark.parametrize(("protocol", "path"), PATHS.items())
async def test_a_condition_that_stands_twice_in_a_body_is_refused(
    tmp_path: Path, protocol: str, path: str
) -> None:
    away = remote_worker()
    body = json.dumps(request_body(protocol, "gpt", "Hello", "", {"x": 0}))
    async with serve(tmp_path, local_worker(), away) as (_, client):
        for doubles in DOUBLES:
            answer = await client.post(path, content=body.replace('"x": 0', doubles))
            assert answer.status_code == 400
            assert "twice" in answer.text, doubles
    assert away.requests == []


@pytest.mark.parametrize("strict", [Grant.FREE, Grant.PRIVATE])
async def test_of_two_tokens_the_strictest_counts(tmp_path: Path, strict: Grant) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker(), away) as (served, _):
        lax, tight = served.tokens[Grant.SPEND], served.tokens[strict]
        shown = [
            [("authorization", f"Bearer {lax}"), ("x-api-key", tight)],
            [("authorization", f"Bearer {tight}"), ("x-api-key", lax)],
            [("authorization", f"Bearer {lax}"), ("authorization", f"Bearer {tight}")],
            [("x-api-key", tight), ("x-api-key", lax)],
            [("x-api-key", f"{lax}, {tight}")],
        ]
        async with httpx.AsyncClient(base_url=served.url) as client:
            for headers, protocol in zip(shown, itertools.cycle(PATHS), strict=False):
                named = await post(client, protocol, "gpt", headers=headers)
                assert named.status_code == 403
                auto = await post(client, protocol, "baton/auto", headers=headers)
                assert answer_text(auto) == UNABLE
    assert away.requests == []


async def test_a_tokens_ceiling_holds_over_restarts_whatever_the_texts_are(tmp_path: Path) -> None:
    """It allows spending by itself; each request begins a conversation, with other texts."""
    away, budget, headers = remote_worker(), NANO // 40, {"x-baton-budget": "100"}
    more: dict[str, Any] = {"ceilings": {}, "allowed": ServingLimits(budget=budget)}
    statuses = []
    for number in range(4):
        async with serve(tmp_path, local_worker(), away, **more) as (_, client):
            for protocol in PATHS:
                turns = [("user", f"No. {number}"), ("assistant", protocol), ("user", "Go on")]
                answer = await post(client, protocol, "gpt", turns, headers, f"It is 10:{number}.")
                statuses.append(answer.status_code)
    assert "`baton serve --budget" in answer.text
    assert statuses == sorted(statuses)
    assert {*statuses} == {200, 402}
    assert 3 < len(away.requests) <= budget // (sum(CALL_TOKENS) * NANOS_PER_TOKEN)


@pytest.mark.parametrize(("day", "token"), [(1_000, NANO), (NANO, 1_000), (0, NANO), (NANO, 0)])
async def test_ceilings_of_the_token_and_of_the_day_narrow_each_other(
    tmp_path: Path, day: int, token: int
) -> None:
    away, allowed = remote_worker(), ServingLimits(budget=token)
    more: dict[str, Any] = {"ceilings": {Scope.DAY: day}, "allowed": allowed}
    async with serve(tmp_path, local_worker(), away, **more) as (_, client):
        assert (await post(client, "chat", "gpt")).status_code == 402
    assert away.requests == []


@pytest.mark.parametrize("grant", [Grant.FREE, Grant.PRIVATE])
async def test_a_cloud_worker_that_costs_nothing_is_not_for_a_token_that_may_not_spend(
    tmp_path: Path, grant: Grant
) -> None:
    away = remote_worker(FREE)
    async with serve(tmp_path, local_worker(), away, grant=grant) as (_, client):
        for protocol in PATHS:
            assert (await post(client, protocol, "gpt")).status_code == 403
            for model in MANNERS:
                assert answer_text(await post(client, protocol, model))
    assert away.requests == []


# Runs belong to the token that asked for them


def wrong_ids(id: str) -> dict[str, list[str]]:
    """Return ids that are nearly one, by what is wrong with them."""
    run = id.removeprefix("resp_")
    beginnings = [f"resp_{run[:length]}" for length in range(1, len(run))]
    return {
        "beginnings": [*beginnings, *(f"resp_{digit}" for digit in "0123456789abcdef")],
        "no beginning": ["resp_"],
        "other prefixes": [run, run[:3], f"msg_{run}", id.upper(), f" {id}"],
        "other cases": [f"resp_{run.upper()}x", f"resp_{run.title()}x"],
        "spaces": [f"{id} ", f"resp_ {run}", f"{id}\n", f"{id}\0", f"{id}\0x"],
        "wildcards": [f"{id}%", f"resp_{run[:3]}%", f"resp_{run[:11]}_", f"resp_{run[:3]}*"],
        "more": [f"{id}0", f"{id}{run}", f"resp_{id}", "resp_" + "f" * 12],
    }


async def check_unknown(served: Served, client: httpx.AsyncClient, ids: Sequence[str]) -> None:
    """Check that each id looks as one does that never was, and that nothing is changed."""
    before, count = await stored_labels(served), len(served.runner.served)

    async def ask(id: str) -> list[tuple[int, bytes]]:
        path = "/responses/" + "".join(f"%{byte:02x}" for byte in id.encode())
        fields: dict[str, Any] = {"previous_response_id": id, "baton": {"private": True}}
        answers = (
            await client.get(path),
            await client.post(f"{path}/cancel"),
            await post(client, "responses", "baton/local", "Go on", **fields),
        )
        return [(answer.status_code, answer.content) for answer in answers]

    unknown = await ask("resp_000000000000")
    assert [status for status, _ in unknown] == [404, 404, 404]
    for id, found in zip(ids, await asyncio.gather(*map(ask, ids)), strict=True):
        assert found == unknown, id
    assert await stored_labels(served) == before
    assert all(run.view.started is None for run in served.runner.served[count:])


@pytest.mark.parametrize("kind", wrong_ids(""))
async def test_a_response_is_found_by_its_exact_id_only(tmp_path: Path, kind: str) -> None:
    async with serve(tmp_path, local_worker()) as (served, client):
        id = (await post(client, "responses", "baton/local")).json()["id"]
        assert (await client.get(f"/responses/{id}")).status_code == 200
        await check_unknown(served, client, wrong_ids(id)[kind])


@pytest.mark.parametrize("is_background", [True, False])
async def test_another_tokens_response_does_not_exist(tmp_path: Path, is_background: bool) -> None:
    here = local_worker(pause=0.5 if is_background else 0)
    async with serve(tmp_path, here) as (served, owner):
        asked = await post(owner, "responses", "baton/local", background=is_background)
        id = asked.json()["id"]
        for _ in ("while it runs", "afterwards"):
            for grant in (Grant.FREE, Grant.PRIVATE):
                async with served.client(grant) as other:
                    await check_unknown(served, other, [id])
            await wait_until(lambda: served.runner.served[0].is_over)
        assert (await owner.get(f"/responses/{id}")).json()["status"] == "completed"


@pytest.mark.parametrize("label", [Label.LOCAL, Label.CLOUD])
async def test_the_users_own_runs_do_not_exist_for_programs(tmp_path: Path, label: Label) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker("Noted."), away) as (served, _):
        await ask_as_user(served, "My boss is called Zork-99.", PromptLimits(label))
        record = await served.baton.store.runs.last()
        assert record is not None
        id = f"resp_{record.id}"
        for grant in Grant:
            async with served.client(grant) as client:
                await check_unknown(served, client, [id, *wrong_ids(id)["beginnings"][:12]])
    assert away.requests == []


async def ask_as_user(served: Served, text: str, limits: PromptLimits) -> None:
    """Ask a prompt as the user, not as a program."""
    async with served.baton.orchestra.run(Prompt(text), limits=limits) as run:
        async for _ in run:
            pass


@pytest.mark.parametrize("how", ["purge", "hide"])
async def test_a_deleted_chat_is_gone_and_continues_as_a_new_one(tmp_path: Path, how: str) -> None:
    here = local_worker("Noted.")
    async with serve(tmp_path, here) as (served, client):
        for protocol in PATHS:
            await post(client, protocol, "baton/local", f"My cat is called {protocol}.")
        await post(client, "responses", "baton/local", background=True)
        await wait_until(lambda: all(run.is_over for run in served.runner.served))
        deleted = await stored_labels(served)
        for conversation in deleted:
            await getattr(served.baton.store, how)(conversation)
        for run in served.runner.served:
            id, path = f"resp_{run.id}", f"/responses/resp_{run.id}"
            assert (await client.get(path)).status_code == 404
            assert (await client.post(f"{path}/cancel")).status_code == 404
            continued = await post(client, "responses", "baton/local", previous_response_id=id)
            assert continued.status_code == 404
        for protocol in PATHS:
            said = [f"My cat is called {protocol}.", "Noted.", "What is it called?"]
            turns = list(zip(("user", "assistant", "user"), said, strict=True))
            assert answer_text(await post(client, protocol, "baton/local", turns)) == "Noted."
            assert [message.text for message in here.requests[-1].messages][-3:] == said
        now = await stored_labels(served)
        assert (len(now), now.keys() & deleted.keys()) == (3, set())


@pytest.mark.parametrize("store", [True, False])
async def test_a_response_in_progress_cannot_be_continued_yet(tmp_path: Path, store: bool) -> None:
    here = local_worker(pause=20.0)
    async with serve(tmp_path, here) as (_, client):
        id = (await post(client, "responses", "baton/local", background=True)).json()["id"]
        fields = {"previous_response_id": id, "store": store}
        answer = await post(client, "responses", "baton/local", "And?", **fields)
        assert answer.status_code == 409
        assert "in progress" in answer.json()["error"]["message"]
        await client.post(f"/responses/{id}/cancel")


async def test_a_response_that_was_not_stored_cannot_be_continued(tmp_path: Path) -> None:
    async with serve(tmp_path, local_worker()) as (_, client):
        id = (await post(client, "responses", "baton/local", store=False)).json()["id"]
        answer = await post(client, "responses", "baton/local", "And?", previous_response_id=id)
        assert answer.status_code == 404
        assert "wasn't stored" in answer.json()["error"]["message"]


@pytest.mark.parametrize("store", [True, False])
async def test_all_input_beside_an_earlier_response_is_shown_in_order(
    tmp_path: Path, store: bool
) -> None:
    here = local_worker("Noted.")
    async with serve(tmp_path, here) as (served, client):
        first = await post(client, "responses", "baton/local", "The first fact")
        fields = {"previous_response_id": first.json()["id"], "store": store}
        turns = [("user", "AAA-fact"), ("assistant", "BBB-noted"), ("user", "CCC-question")]
        before = await stored_labels(served)
        answer_text(await post(client, "responses", "baton/local", turns, **fields))
        assert (await stored_labels(served) == before) is not store
    shown = " ".join(message.text for message in here.requests[-1].messages[1:])
    wanted = "The first fact Noted. AAA-fact BBB-noted CCC-question"
    assert " ".join(shown.split()) == wanted


# What was private stays private, by all who bring it back


Change = Callable[[list[tuple[str, str]]], list[tuple[str, str]]]
CHANGES: list[Change] = [
    lambda turns: [(role, f"  {text} ".replace(" ", " \n ")) for role, text in turns],
    lambda turns: [(role, text.swapcase()) for role, text in turns],
    lambda turns: [("user", "Hi"), ("assistant", "Hello."), *turns[:-1], *turns[-2:], *turns[-2:]],
]
"""How a history is changed: spaces, case, and what is said before and after it."""

SUBSETS = [subset for n in range(4) for subset in itertools.combinations(CHANGES, n)]
FORMS = list(itertools.product(SUBSETS, ["", "It is 10:42."]))
FATES = ["kept", "unstored", "purge", "hide"]


async def say_privately(served: Served, speaker: Grant | None, protocol: str, fate: str) -> str:
    """Have a question asked privately, by a token or by the user; return it."""
    before, question = await stored_labels(served), f"{fate} {protocol}: I have asthma-77."
    if speaker is None:
        await ask_as_user(served, question, PromptLimits(Label.LOCAL))
    else:
        fields: dict[str, Any] = {} if fate != "unstored" else {"store": False}
        if protocol == "messages":
            fields = {"baton": {"keep": fate != "unstored"}}
        async with served.client(speaker) as client:
            headers = {"x-baton-private": "1"}
            answer_text(await post(client, protocol, "baton/local", question, headers, **fields))
    for conversation in (await stored_labels(served)).keys() - before.keys():
        if fate in ("purge", "hide"):
            await getattr(served.baton.store, fate)(conversation)
    return question


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("speaker", [Grant.SPEND, Grant.FREE, None])
async def test_a_private_turn_never_reaches_the_cloud(
    tmp_path: Path, speaker: Grant | None, is_restarted: bool
) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker(), away) as (served, client):
        ways = list(itertools.product(FATES, PATHS))
        said = {way: await say_privately(served, speaker, way[1], way[0]) for way in ways}
        if not is_restarted:
            await bring_back(client, said)
    if is_restarted:
        async with serve(tmp_path, local_worker(), away) as (_, client):
            await bring_back(client, said)
    assert away.requests == []


async def bring_back(client: httpx.AsyncClient, said: dict[tuple[str, str], str]) -> None:
    """Bring private turns back in each form, to the cloud by name and to baton/auto."""
    for fate in FATES:
        pairs = itertools.cycle(itertools.product(PATHS, PATHS))
        asked = []
        for (first, second), (changes, system) in zip(pairs, FORMS, strict=False):
            question = said[fate, first]
            turns = [("user", question), ("assistant", UNABLE), ("user", "What follows?")]
            for change in changes:
                turns = change(turns)
            asked.append((second, turns, system))
        for model, status, sent in (("gpt", 400, asked), ("baton/auto", 200, asked[::3])):
            asking = (post(client, second, model, turns, None, top) for second, turns, top in sent)
            for answer, form in zip(await asyncio.gather(*asking), sent, strict=True):
                assert answer.status_code == status, (form, answer.text)
                assert ("privately" in answer.text) is (status == 400)


@pytest.mark.parametrize(
    "opening",
    [
        pytest.param([("user", "I have {}-77."), ("user", "Reply OK.")], id="two messages"),
        pytest.param([("assistant", "You have {}-77."), ("user", "Yes?")], id="assistant"),
        pytest.param([("user", "Hi"), ("assistant", "It is {}."), ("user", "OK")], id="history"),
    ],
)
async def test_a_private_history_is_known_after_a_restart_as_it_came(
    tmp_path: Path, opening: Turns
) -> None:
    away, more = remote_worker(), [("assistant", "OK."), ("user", "And now?")]
    for model, private, status in (("baton/local", "1", 200), ("gpt", "0", 400)):
        async with serve(tmp_path, local_worker("OK."), away) as (_, client):
            for protocol in PATHS:
                turns = [(role, text.format(protocol)) for role, text in opening]
                turns += more if model == "gpt" else []
                answer = await post(client, protocol, model, turns, {"x-baton-private": private})
                assert answer.status_code == status, protocol
    assert away.requests == []


EVERYDAY: list[tuple[list[Grant], list[Grant], int]] = [
    ([], [Grant.SPEND], 200),
    ([Grant.FREE], [Grant.SPEND], 200),
    ([Grant.PRIVATE], [Grant.SPEND], 200),
    ([Grant.FREE], [], 400),
    ([Grant.SPEND], [Grant.FREE], 400),
    ([Grant.SPEND], [Grant.SPEND], 400),
    ([Grant.SPEND, Grant.FREE], [Grant.SPEND, Grant.FREE], 400),
]
"""Who says a pair privately and who openly, and what the token that may spend then gets."""


@pytest.mark.parametrize("is_open_first", [True, False])
async def test_an_everyday_pair_is_as_private_as_who_brings_it_back_said_it(
    tmp_path: Path, is_open_first: bool
) -> None:
    away = remote_worker()
    async with serve(tmp_path, local_worker("4"), away) as (served, client):
        for number, (private_ones, open_ones, status) in enumerate(EVERYDAY):
            ask = f"What is {number}+2?"
            said = [*itertools.product(private_ones, "1"), *itertools.product(open_ones, "0")]
            for grant, private in reversed(said) if is_open_first else said:
                async with served.client(grant) as other:
                    await post(other, "chat", "baton/local", ask, {"x-baton-private": private})
            turns = [("user", ask), ("assistant", "4"), ("user", f"Sure of {number}?")]
            calls = len(away.requests)
            for protocol in PATHS:
                answer = await post(client, protocol, "gpt", turns)
                assert answer.status_code == status, (private_ones, open_ones)
            assert len(away.requests) - calls == (3 if status == 200 else 0)
            async with served.client(Grant.FREE) as other:
                answer_text(await post(other, "chat", "baton/auto", turns))
            is_own = Grant.FREE in open_ones and Grant.FREE not in private_ones
            label = served.runner.served[-1].label
            assert label is (Label.CLOUD if is_own or not private_ones else Label.LOCAL), (
                private_ones,
                open_ones,
            )


@pytest.mark.parametrize("grant", [Grant.PRIVATE, Grant.SPEND])
async def test_what_is_to_stay_here_reaches_no_other_machine(tmp_path: Path, grant: Grant) -> None:
    """By its token, or since the user allows no more."""
    away, near = remote_worker(), remote_worker(FREE, "lan", Label.LAN)
    allowed = ServingLimits(budget=NANO, is_private=grant is Grant.SPEND)
    headers = {"x-baton-private": "0", "x-baton-budget": "1"}
    workers = (local_worker(), near, away)
    turns = [("user", "Hi"), ("assistant", "Hello."), ("user", "Go on")]
    async with serve(tmp_path, *workers, grant=grant, allowed=allowed) as (served, client):
        for model, protocol in itertools.product(["gpt", "lan", *MANNERS], PATHS):
            answer = await post(client, protocol, model, turns, headers, baton={"private": False})
            assert answer.status_code in ((200,) if "/" in model else (400, 403)), answer.text
        assert {label for label, _ in (await stored_labels(served)).values()} == {Label.LOCAL}
    assert away.requests == near.requests == []


@pytest.mark.parametrize("how", ["token", "server", "header", "continued"])
async def test_what_is_private_goes_to_no_other_machine_that_is_configured_as_local(
    tmp_path: Path, how: str
) -> None:
    near = remote_worker(FREE, "near", Label.LOCAL)
    grant = Grant.PRIVATE if how == "token" else Grant.SPEND
    more: dict[str, Any] = {"grant": grant, "allowed": ServingLimits(is_private=how == "server")}
    privately = {"x-baton-private": "1"}
    headers, fields = privately if how == "header" else {}, dict[str, Any]()
    async with serve(tmp_path, local_worker(), near, **more) as (_, client):
        if how == "continued":
            first = await post(client, "responses", "baton/local", "Hello", privately)
            fields = {"previous_response_id": first.json()["id"]}
        for model, protocol in itertools.product(["near", *MANNERS], PATHS):
            if protocol == "responses" or not fields:
                answer = await post(client, protocol, model, "And?", headers, **fields)
                assert answer.status_code == (200 if "/" in model else 400), answer.text
        assert near.requests == []
        if how in ("header", "continued"):
            assert answer_text(await post(client, "chat", "near", "Openly")) == "From far away."


SAID_PRIVATELY = "My diagnosis is asthma, and the doctor said so on Monday. Tell it to no one."


@pytest.mark.parametrize("protocol", ["chat", "messages"])
async def test_a_private_text_does_not_leave_as_a_stop_text(tmp_path: Path, protocol: str) -> None:
    away, field = remote_worker(), "stop" if protocol == "chat" else "stop_sequences"
    async with serve(tmp_path, local_worker(), away) as (_, client):
        await post(client, "chat", "small", SAID_PRIVATELY, {"x-baton-private": "1"})
        for model, status in (("gpt", 400), ("baton/auto", 200)):
            stops: dict[str, Any] = {field: ["END", SAID_PRIVATELY]}
            answer = await post(client, protocol, model, "Hello", **stops)
            assert answer.status_code == status
        assert away.requests == []
        stops = {field: ["END"]}
        assert (await post(client, protocol, "gpt", "Hello", **stops)).is_success
    assert [request.stop for request in away.requests] == [("END",)]


KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6hIj9k"


@pytest.mark.parametrize("where", ["response_format", "tools", "stop"])
async def test_a_key_is_hidden_wherever_it_stands(tmp_path: Path, where: str) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [KEY]}}, "description": "Of\nmine"}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    ways: dict[str, dict[str, Any]] = {
        "response_format": {"response_format": form},
        "tools": {"tools": [tool], "tool_choice": "required"},
        "stop": {"stop": [KEY, "END"]},
    }
    away = remote_worker()
    async with serve(tmp_path, local_worker(), away) as (served, client):
        served.baton.orchestra.configure(redactor=Redaction([]))
        await post(client, "chat", "gpt", "Hello", **ways[where])
    [request] = away.requests
    assert KEY not in repr(request)
    assert "[secret key 1]" in repr(request)
