"""A stronger remote worker: when it is offered, who decides, what it costs, what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from baton.core import events as ev
from baton.core.errors import StoreError, WorkerUnavailable
from baton.core.events import Decision
from baton.core.labels import Label
from baton.core.ledger_types import Hold, HoldRequest, NoLedger, Policy, Scope
from baton.core.messages import (
    Card,
    Chunk,
    Declined,
    Finish,
    Prompt,
    Request,
    RequestSent,
    Text,
    Usage,
    max_input_tokens,
)
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import ANYTHING, PromptLimits, RunTerms
from baton.core.ports import NEW, ConversationPosition, Question, Redactor
from baton.core.run.metered_worker import CallUsage, MeteredWorker, RunBudget
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.stream_filters import HiddenText, RedactedTexts
from baton.core.view import RunView
from baton.history import Store
from baton.money import Ledger
from baton.workers.scripted_worker import ScriptedWorker

LOCAL = Card("small", "local", "Small", context=4096)
PRICE = Price(Rates(NANO, 2 * NANO, NANO, NANO))  # $1 and $2 per million tokens
CLOUD = Card(
    "gpt",
    "cloud",
    "gpt-5-mini",
    privacy=Label.CLOUD,
    price=PRICE,
    provider="openai",
    model="openai/gpt-5-mini",
    remote=True,
)
Script = Callable[[Request], Iterable[Chunk | BaseException | float]]


def local_script(text: str, finish: Finish = Finish.STOP) -> Script:
    """A local worker's script."""
    return lambda request: [Text(text), Usage(10, 5, finish)]


def cloud_script(text: str, tokens_in: int = 100, tokens_out: int = 50) -> Script:
    """A cloud worker's script."""

    def script(request: Request) -> Iterable[Chunk]:
        yield RequestSent("api.openai.com", 1834)
        yield Text(text)
        yield Usage(tokens_in, tokens_out, Finish.STOP)

    return script


EMPTY = local_script("")
REMOTE_ANSWER = cloud_script("From far away.")


@dataclass
class Person:
    """Answers every question alike, and remembers them."""

    choice: str = "keep"
    asked: list[Question] = field(default_factory=list)

    async def __call__(self, question: Question) -> str:
        self.asked.append(question)
        return self.choice


@dataclass
class OrchestraSession:
    """An orchestra of one local and one cloud worker, with what keeps its money."""

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    cloud: ScriptedWorker
    person: Person

    async def execute(
        self,
        text: str = "Hi",
        limits: PromptLimits = ANYTHING,
        place: ConversationPosition = NEW,
        worker: str | None = None,
    ) -> RunView:
        view = RunView()
        run = self.orchestra.run(Prompt(text), place, limits, self.person, worker=worker)
        async with run:
            async for event in run:
                view = view.apply(event)
        return view

    async def spent(self) -> tuple[int, int, int]:
        standing = await self.ledger.standing(self.orchestra.terms.ceilings)
        day = next(room for room in standing.rooms if room.scope is Scope.DAY)
        return day.settled, day.held, day.unconfirmed


@asynccontextmanager
async def open_orchestra(
    local: Script = EMPTY,
    cloud: Script = REMOTE_ANSWER,
    *,
    choice: str = "once",
    card: Card = CLOUD,
    redactor: Redactor | None = None,
    **terms: object,
) -> AsyncIterator[OrchestraSession]:
    store, ledger = Store(None), Ledger(None)
    far = ScriptedWorker(cloud, card)
    given: dict[str, object] = {"ceilings": {Scope.DAY: NANO}, **terms}
    orchestra = Orchestra(
        Services(
            {"small": ScriptedWorker(local, LOCAL), card.id: far},
            store,
            ledger=ledger,
            redactor=redactor,
        ),
        "small",
        RunTerms(**given),  # type: ignore[arg-type]
    )
    try:
        yield OrchestraSession(orchestra, store, ledger, far, Person(choice))
    finally:
        await orchestra.aclose()
        await ledger.aclose()
        await store.aclose()


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("", Finish.STOP),
        (" \n", Finish.STOP),
        ("It goes on and", Finish.LENGTH),
        ("I'm sorry, but I can't help with that.", Finish.STOP),
        ("I\u2019m sorry, I cannot do this.", Finish.STOP),
        ("As an AI language model, I don't have access to the internet.", Finish.STOP),
        ("Unfortunately, I am unable to answer.", Finish.STOP),
    ],
)
async def test_help_is_offered_where_a_local_answer_will_not_do(text: str, finish: Finish) -> None:
    async with open_orchestra(local_script(text, finish)) as session:
        view = await session.execute()
        assert view.answer == "From far away."
        assert not view.is_cut
        assert [offer.decision for offer in view.offers] == [Decision.SENT]
        assert len(session.person.asked) == 1
        assert (await session.store.thread(_conversation(view)))[-1].text == "From far away."
        assert (await session.store.thread(_conversation(view)))[-1].worker == "gpt"


@pytest.mark.parametrize(
    "text",
    [
        "Paris.",
        "I can help: do this.",
        " ".join(f"I cannot overstate how good part {n} is." for n in range(20)),
    ],
)
async def test_an_answer_that_will_do_stays_here(text: str) -> None:
    async with open_orchestra(local_script(text)) as session:
        view = await session.execute()
        assert (view.answer, view.offers, session.cloud.requests) == (text, (), [])


async def test_a_cap_that_was_typed_cuts_as_the_user_wished() -> None:
    async with open_orchestra(local_script("It goes on and", Finish.LENGTH)) as session:
        assert (await session.execute(limits=PromptLimits(max_tokens=5))).offers == ()


async def test_the_user_sees_exactly_what_leaves_and_what_it_can_cost() -> None:
    async with open_orchestra() as session:
        await session.execute("Secret plans")
        (question,) = session.person.asked
        offer = question.offer
        assert offer is not None
        assert question.default == "keep"
        (request,) = session.cloud.requests
        shown = f"{offer.instructions}\n\n{offer.text}"
        assert all(message.text in shown for message in request.messages)
        assert offer.text == "You: Secret plans", "Baton's own instructions stand apart"
        assert offer.expected is not None
        assert 0 < offer.expected < offer.most
        assert offer.left == NANO
        assert offer.scope == "day"
        assert 0 < offer.most <= NANO
        assert request.max_tokens == request.expected_tokens
        bound = max_input_tokens(request.messages)
        assert CLOUD.price is not None
        assert offer.most == CLOUD.price.max_cost(bound, request.max_tokens or 0)


async def test_what_was_charged_is_what_the_provider_counted() -> None:
    async with open_orchestra() as session:
        view = await session.execute()
        call = view.calls[-1]
        assert (call.cost, call.confirmed) == (100 * 1000 + 50 * 2000, True)
        assert call.held > call.cost
        assert await session.spent() == (200_000, 0, 0)
        assert view.sent[0].size == 1834


async def test_declined_help_leaves_the_local_answer_and_sends_nothing() -> None:
    async with open_orchestra(local_script("cut", Finish.LENGTH), choice="keep") as session:
        view = await session.execute()
        assert (view.answer, view.status) == ("cut", "finished")
        assert [offer.decision for offer in view.offers] == [Decision.KEPT]
        assert session.cloud.requests == []
        assert await session.spent() == (0, 0, 0)


async def test_a_ceiling_that_is_reached_ends_here_and_says_what_it_would_have_cost() -> None:
    async with open_orchestra(
        local_script("cut", Finish.LENGTH), ceilings={Scope.DAY: 1000}
    ) as session:
        view = await session.execute()
        assert (view.answer, view.status) == ("cut", "finished")
        (offer,) = view.offers
        assert offer.decision is Decision.CEILING
        assert offer.most > 1000
        assert offer.message
        assert (session.person.asked, session.cloud.requests) == ([], [])


async def test_a_fresh_baton_can_not_spend() -> None:
    async with open_orchestra(local_script("cut", Finish.LENGTH), ceilings={}) as session:
        view = await session.execute()
        assert view.offers[0].decision is Decision.CEILING
        assert session.cloud.requests == []
        direct = await session.execute(worker="gpt")
        assert direct.failure is not None
        assert direct.failure.error == "BudgetExceeded"
        assert session.cloud.requests == []


async def test_a_typed_budget_allows_and_limits() -> None:
    async with open_orchestra(local_script("cut", Finish.LENGTH), ceilings={}) as session:
        view = await session.execute(limits=PromptLimits(budget=NANO // 10, attended=False))
        assert view.answer == "From far away."
        assert session.person.asked == []
        tight = await session.execute(limits=PromptLimits(budget=1000, attended=False))
        assert tight.offers[0].decision is Decision.CEILING
        assert len(session.cloud.requests) == 1


async def test_without_a_user_the_answer_is_no() -> None:
    async with open_orchestra(local_script("cut", Finish.LENGTH)) as session:
        view = await session.execute(limits=PromptLimits(attended=False))
        assert view.offers[0].decision is Decision.NEVER
        assert "you couldn't be asked" in view.notice
        direct = await session.execute(limits=PromptLimits(attended=False), worker="gpt")
        assert direct.failure is not None
        assert direct.failure.error == "BudgetExceeded"
        assert (session.person.asked, session.cloud.requests) == ([], [])


async def test_policies() -> None:
    async with open_orchestra(policy=Policy.BUDGET) as session:
        assert (await session.execute()).answer == "From far away."
        assert session.person.asked == []
    async with open_orchestra(policy=Policy.NEVER) as session:
        assert (await session.execute()).answer == ""
        assert session.cloud.requests == []
    async with open_orchestra(policy=Policy.ONCE) as session:
        first = await session.execute()
        place = ConversationPosition(_conversation(first))
        assert (await session.execute(place=place)).answer == "From far away."
        assert len(session.person.asked) == 1
        await session.execute()  # another conversation is asked about again
        assert len(session.person.asked) == 2


async def test_leave_given_for_a_conversation_lasts_there_only() -> None:
    async with open_orchestra(choice="conversation") as session:
        first = await session.execute()
        await session.execute(place=ConversationPosition(_conversation(first)))
        assert len(session.person.asked) == 1
        await session.execute()
        assert len(session.person.asked) == 2


async def test_never_is_stronger_than_leave_that_a_conversation_once_got() -> None:
    async with open_orchestra(choice="conversation") as session:
        place = ConversationPosition(_conversation(await session.execute()))
        session.orchestra.change_terms(policy=Policy.NEVER)
        view = await session.execute(place=place)
        assert (view.offers[0].decision, len(session.cloud.requests)) == (Decision.NEVER, 1)
        assert (await session.execute(place=place, worker="gpt")).failure is not None
        assert len(session.cloud.requests) == 1


async def test_a_call_costs_no_more_than_the_user_saw_even_if_more_is_left_by_then() -> None:
    async with open_orchestra(ceilings={Scope.DAY: NANO // 500}) as session:

        async def ask(question: Question) -> str:
            await session.ledger.set_ceiling(
                Scope.DAY, NANO
            )  # in another process, while the user thinks
            return "once"

        session.person = ask  # type: ignore[assignment]
        view = await session.execute()
        assert view.offers[0].decision is Decision.SENT
        assert 0 < view.calls[-1].held <= view.offers[0].most <= NANO // 500


async def test_a_stop_while_money_is_refused_is_a_stop() -> None:
    class SlowLedger(Ledger):
        holding, go = asyncio.Event(), asyncio.Event()

        async def hold(self, bill: HoldRequest) -> Hold:
            self.holding.set()
            await self.go.wait()
            return await super().hold(bill)

    async with open_orchestra(policy=Policy.BUDGET) as session:
        ledger = SlowLedger(None)
        purse = RunBudget(ledger, None, RunTerms(), PromptLimits())
        metered = MeteredWorker(session.cloud, purse, _forgets)
        calling = asyncio.create_task(anext(metered.stream(Request((), label=Label.CLOUD))))
        await ledger.holding.wait()
        calling.cancel()
        ledger.go.set()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await ledger.aclose()


async def _forgets(_: CallUsage) -> None:
    """What a call used doesn't matter here."""


async def test_a_worker_named_by_the_user_is_asked_about_before_the_spend() -> None:
    async with open_orchestra() as session:
        view = await session.execute(worker="gpt")
        assert (view.answer, len(session.person.asked)) == ("From far away.", 1)
        session.person.choice = "keep"
        refused = await session.execute(worker="gpt")
        assert (refused.status, refused.answer, len(session.cloud.requests)) == ("cancelled", "", 1)


async def test_a_broken_ledger_leaves_the_local_answer() -> None:
    class BrokenLedger(NoLedger):
        async def quote(self, bill: HoldRequest) -> Hold:
            raise StoreError("The disk is full.")

    async with open_orchestra() as session:
        orchestra = Orchestra(
            Services(
                {
                    "small": ScriptedWorker(local_script("cut", Finish.LENGTH), LOCAL),
                    "gpt": session.cloud,
                },
                session.store,
                ledger=BrokenLedger(),
            ),
            "small",
        )
        view = await replace(session, orchestra=orchestra).execute()
        assert (view.answer, view.status, view.notice) == ("cut", "finished", "The disk is full.")
        assert session.cloud.requests == []


async def test_a_call_that_cannot_be_settled_is_reported_at_all_that_stays_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its money stays held until this process is gone, and is charged then."""

    async def fail(*_: object) -> int:
        raise StoreError("The disk is full.")

    async with open_orchestra(policy=Policy.BUDGET) as session:
        monkeypatch.setattr(session.ledger, "settle", fail)
        view = await session.execute(worker="gpt")
        assert view.failure is not None
        assert view.failure.message == "The disk is full."
        [call] = view.calls
        assert (call.worker, call.cost, call.confirmed) == ("gpt", call.held, False)
        assert call.cost == sum(await session.spent()) > 0


async def test_a_failing_helper_leaves_the_local_answer() -> None:
    def fails(request: Request) -> Iterable[Chunk | BaseException]:
        yield RequestSent("api.openai.com", 9)
        yield Declined()
        yield WorkerUnavailable("gpt is busy.", "Wait.")

    async with open_orchestra(local_script("cut", Finish.LENGTH), fails) as session:
        view = await session.execute()
        assert (view.answer, view.status) == ("cut", "finished")
        assert "gpt is busy." in view.notice
        turn = (await session.store.thread(_conversation(view)))[-1]
        assert (turn.text, turn.worker, turn.status) == ("cut", "small", "cut")
        assert await session.spent() == (0, 0, 0)


async def test_a_cut_stream_stays_charged_and_keeps_its_text_and_the_draft() -> None:
    def cut(request: Request) -> Iterable[Chunk | BaseException]:
        yield RequestSent("api.openai.com", 9)
        yield Text("Half of")
        yield WorkerUnavailable("The connection was cut.", "")

    async with open_orchestra(local_script("draft", Finish.LENGTH), cut) as session:
        view = await session.execute()
        assert (view.answer, view.status) == ("Half of", "failed")
        call = view.calls[-1]
        assert call.cost == call.held > 0
        assert not call.confirmed
        assert await session.spent() == (0, 0, call.held)
        record = await session.store.runs.last()
        assert record is not None
        drafts = [e.text for e in record.events if isinstance(e, ev.StepFinished)]
        assert drafts == ["draft"]


async def test_more_than_was_held_is_charged_and_freezes_the_cloud() -> None:
    async with open_orchestra(
        cloud=cloud_script("Dear!", 10, 1_000_000), policy=Policy.BUDGET
    ) as session:
        view = await session.execute()
        assert [call.cost > call.held for call in view.overcharged_calls] == [True]
        again = await session.execute()
        assert again.offers[0].decision is Decision.CEILING
        assert len(session.cloud.requests) == 1


async def test_an_unknown_price_is_not_a_price() -> None:
    async with open_orchestra(
        local_script("cut", Finish.LENGTH), card=replace(CLOUD, price=None)
    ) as session:
        assert (await session.execute()).offers == ()
        direct = await session.execute(worker="gpt")
        assert direct.failure is not None
        assert direct.failure.error == "BudgetExceeded"
        assert "price = {" in direct.failure.hint
        assert session.cloud.requests == []


@pytest.mark.parametrize("worker", [None, "gpt"])
async def test_offline_private_and_the_local_mode_ask_no_question(worker: str | None) -> None:
    for terms, limits in (
        ({"offline": True}, PromptLimits(budget=NANO)),
        ({"mode": "local"}, PromptLimits(budget=NANO)),
        ({}, PromptLimits(Label.LOCAL, budget=NANO)),
    ):
        async with open_orchestra(policy=Policy.BUDGET, **terms) as session:
            view = await session.execute(limits=limits, worker=worker)
            assert session.cloud.requests == []
            assert view.offers == ()
            assert view.status == ("finished" if worker is None else "failed")


async def test_a_free_worker_on_this_machine_needs_no_ceiling_and_no_leave() -> None:
    lab = replace(CLOUD, id="lab", kind="server", privacy=Label.LOCAL, remote=False)
    lab = replace(lab, price=Price(Rates(0, 0, 0, 0)))
    async with open_orchestra(card=lab, ceilings={}, choice="keep") as session:
        assert (await session.execute(worker="lab")).answer == "From far away."
        assert session.person.asked == []


@pytest.mark.parametrize(
    ("ceilings", "attended", "asked", "decision"),
    [
        ({Scope.DAY: NANO}, True, 0, Decision.SENT),
        ({Scope.DAY: NANO}, False, 0, Decision.SENT),
        ({}, True, 1, Decision.SENT),
        ({Scope.DAY: 0}, True, 1, Decision.SENT),
        ({}, False, 0, Decision.NEVER),
    ],
)
async def test_a_free_cloud_model_gets_nothing_unasked_while_the_cloud_is_off(
    ceilings: dict[Scope, int], attended: bool, asked: int, decision: Decision
) -> None:
    """Also with the policy that asks no one within the ceilings: there are none."""
    free = replace(CLOUD, price=Price(Rates(0, 0, 0, 0)))
    async with open_orchestra(card=free, ceilings=ceilings, policy=Policy.BUDGET) as session:
        view = await session.execute(limits=PromptLimits(attended=attended))
        assert [offer.decision for offer in view.offers] == [decision]
        assert len(session.person.asked) == asked
        assert bool(session.cloud.requests) is (decision is Decision.SENT)
        named = await session.execute(worker="gpt", limits=PromptLimits(attended=attended))
        assert named.answer == "From far away.", "the person named it, and it can't cost anything"


async def test_a_free_cloud_model_that_a_conversation_allows_is_asked_about_once() -> None:
    free = replace(CLOUD, price=Price(Rates(0, 0, 0, 0)))
    async with open_orchestra(card=free, ceilings={}, choice="conversation") as session:
        first = await session.execute()
        await session.execute(place=ConversationPosition(_conversation(first)))
        assert len(session.person.asked) == 1
        assert len(session.cloud.requests) == 2


async def test_what_is_hidden_comes_back_into_the_answer() -> None:
    class StubRedactor:
        def redact(self, texts: Sequence[str]) -> RedactedTexts:
            hidden = HiddenText("[mail address 1]", "ann@example.org", "mail address")
            return RedactedTexts(
                tuple(text.replace(hidden.original, hidden.placeholder) for text in texts),
                (hidden,),
            )

    def cloud(request: Request) -> Iterable[Chunk]:
        assert "ann@example.org" not in "".join(message.text for message in request.messages)
        yield RequestSent("api.openai.com", 9)
        yield Text("Write to [mail addr")
        yield Text("ess 1].")
        yield Usage(10, 5, Finish.STOP)

    async with open_orchestra(cloud=cloud, redactor=StubRedactor()) as session:
        view = await session.execute("Mail ann@example.org")
        assert view.answer == "Write to ann@example.org."
        offer = session.person.asked[0].offer
        assert offer is not None
        assert offer.hidden == "1 mail address"
        assert "ann@example.org" not in offer.text


def _conversation(view: RunView) -> str:
    assert view.started is not None
    return view.started.conversation
