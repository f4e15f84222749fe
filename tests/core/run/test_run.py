"""A run ends in exactly one way, and all that was written is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence

import pytest
import pytest_asyncio
from hypothesis import given, settings, strategies as st

from baton.core import events as ev
from baton.core.errors import ConfigError, ContextTooLong, StoreError, WorkerUnavailable
from baton.core.labels import Label
from baton.core.messages import Card, Chunk, Finish, Prompt, Request, Role, Text, TurnStatus, Usage
from baton.core.permissions import PromptLimits
from baton.core.ports import ConversationPosition, Question, take_default
from baton.core.run.orchestra import Orchestra
from baton.core.run.run import Run
from baton.core.run.run_context import Services
from baton.core.view import RunView
from baton.history import Store
from baton.workers.scripted_worker import Script, ScriptedWorker


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


def orchestra(store: Store, script: Script, card: Card | None = None) -> Orchestra:
    worker = ScriptedWorker(script, card)
    return Orchestra(Services({worker.card.id: worker}, store), worker.card.id)


def says(*items: Chunk | BaseException | float | str) -> Script:
    chunks = [Text(item) if isinstance(item, str) else item for item in items]
    return lambda request: list(chunks)


async def execute(run: Run) -> list[ev.Event]:
    async with run:
        return [event async for event in run]


def view_of(events: Iterable[ev.Event]) -> RunView:
    view = RunView()
    for event in events:
        view = view.apply(event)
    return view


async def answer(store: Store, view: RunView) -> tuple[str, TurnStatus]:
    assert view.started is not None
    *_, last = await store.thread(view.started.conversation, view.started.answer)
    return last.text, last.status


async def test_an_answer_is_streamed_stored_and_explained(store: Store) -> None:
    conductor = orchestra(store, says("Par", "is", Usage(12, 2, Finish.STOP, 3, 4096)))
    events = await execute(conductor.run(Prompt("Capital of France?")))
    view = view_of(events)
    assert view.status == "finished"
    assert view.answer == "Paris"
    assert [type(e) for e in events] == [
        ev.Started,
        ev.Routed,
        ev.Planned,
        ev.StepStarted,
        ev.StepText,
        ev.StepText,
        ev.Called,
        ev.StepFinished,
        ev.Finished,
    ]
    assert await answer(store, view) == ("Paris", TurnStatus.DONE)
    assert view.calls[0].tokens_in == 12
    assert view.calls[0].confirmed
    assert view.started is not None
    record = await store.runs.get(view.started.run)
    kept = [e for e in events if not isinstance(e, ev.TRANSIENT)]
    assert list(record.events) == kept


async def test_the_prompt_is_on_disk_before_the_worker_is_called(store: Store) -> None:
    seen: list[str] = []

    class StoreReadingWorker(ScriptedWorker):
        async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
            latest = await store.latest()
            assert latest is not None
            seen.extend(turn.text for turn in await store.thread(latest))
            async for chunk in super().stream(request):
                yield chunk

    nosy = StoreReadingWorker(says("ok"))
    await execute(
        Orchestra(Services({"scripted": nosy}, store), "scripted").run(Prompt("remember me"))
    )
    assert seen == ["remember me", ""]


async def test_a_second_prompt_sees_the_first_and_its_answer(store: Store) -> None:
    worker = ScriptedWorker()
    conductor = Orchestra(Services({"scripted": worker}, store), "scripted")
    view = view_of(await execute(conductor.run(Prompt("one", system="Be brief."))))
    assert view.started is not None
    await execute(conductor.run(Prompt("two"), ConversationPosition(view.started.conversation)))
    roles = [(m.role, m.text) for m in worker.requests[1].messages]
    assert roles == [
        (Role.SYSTEM, "Be brief."),
        (Role.USER, "one"),
        (Role.ASSISTANT, "one "),
        (Role.USER, "two"),
    ]


async def test_an_answer_at_its_cap_is_marked_as_cut(store: Store) -> None:
    conductor = orchestra(store, says("half", Usage(1, 1, Finish.LENGTH)))
    view = view_of(await execute(conductor.run(Prompt("x"))))
    assert view.is_cut
    assert await answer(store, view) == ("half", TurnStatus.CUT)


async def test_a_failure_keeps_the_partial_text_and_the_next_prompt_works(store: Store) -> None:
    script = iter([says("so far", WorkerUnavailable("It died.", "Try again.")), says("fine")])
    conductor = orchestra(store, lambda request: next(script)(request))
    view = view_of(await execute(conductor.run(Prompt("x"))))
    assert view.failure is not None
    assert view.failure.error == "WorkerUnavailable"
    assert view.failure.message == "It died."
    assert await answer(store, view) == ("so far", TurnStatus.FAILED)
    assert not view.calls[0].confirmed
    assert view.started is not None
    again = await execute(
        conductor.run(Prompt("y"), ConversationPosition(view.started.conversation))
    )
    assert view_of(again).answer == "fine"


async def test_cancelling_keeps_the_partial_text(store: Store) -> None:
    conductor = orchestra(store, says("kept", 60.0, "never"))
    events: list[ev.Event] = []
    async with conductor.run(Prompt("x")) as run:
        async for event in run:
            events.append(event)
            if isinstance(event, ev.StepText):
                run.cancel()
    view = view_of(events)
    assert view.status == "cancelled"
    assert await answer(store, view) == ("kept", TurnStatus.CANCELLED)


async def wait_until_saved(store: Store, events: Sequence[ev.Event], text: str) -> None:
    """Wait until a text is stored, while it is being written."""
    async with asyncio.timeout(60):
        while await answer(store, view_of(events)) != (text, TurnStatus.STREAMING):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_streamed_text_is_saved_while_the_worker_still_thinks(store: Store) -> None:
    conductor = orchestra(store, says("saved early", 60.0))
    async with conductor.run(Prompt("x")) as run:
        events: list[ev.Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ev.StepText):
                break
        await wait_until_saved(store, events, "saved early")


async def test_a_consumer_that_leaves_stops_the_run(store: Store) -> None:
    conductor = orchestra(store, says("a", 60.0))
    async with conductor.run(Prompt("x")) as run:
        async for event in run:
            if isinstance(event, ev.StepText):
                break
    latest = await store.latest()
    assert latest is not None
    *_, last = await store.thread(latest)
    assert (last.text, last.status) == ("a", TurnStatus.CANCELLED)
    assert len(asyncio.all_tasks()) == 1


async def test_a_cancelled_consumer_hears_of_nothing_but_its_cancellation(store: Store) -> None:
    conductor = orchestra(store, says("a", 60.0))
    consumer = asyncio.create_task(execute(conductor.run(Prompt("x"))))
    while await store.latest() is None:  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.01)
    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer
    for _ in range(100):
        if len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(0.01)
    latest = await store.latest()
    assert latest is not None
    assert (await store.thread(latest))[-1].status is TurnStatus.CANCELLED


async def test_a_bug_reaches_the_consumer_unwrapped(store: Store) -> None:
    conductor = orchestra(store, says("a", ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError):
        await execute(conductor.run(Prompt("x")))
    latest = await store.latest()
    assert latest is not None
    *_, last = await store.thread(latest)
    assert (last.text, last.status) == ("a", TurnStatus.FAILED)


async def test_an_unknown_conversation_fails_the_run_with_a_sentence(store: Store) -> None:
    events = await execute(
        orchestra(store, says("a")).run(Prompt("x"), ConversationPosition("nowhere"))
    )
    assert isinstance(events[-1], ev.Failed)
    assert events[-1].error == "ConfigError"


def test_an_unknown_worker_is_refused_by_name() -> None:
    worker = ScriptedWorker()
    with pytest.raises(ConfigError, match="no worker 'smal'"):
        Orchestra(Services({"small": worker}, Store(None)), "small").worker("smal")


async def test_private_text_never_reaches_a_worker_that_is_not_local(store: Store) -> None:
    cloud = ScriptedWorker(says("a"), Card("far", "cloud", "Far", privacy=Label.CLOUD))
    conductor = Orchestra(Services({"far": cloud}, store), "far")
    events = await execute(conductor.run(Prompt("secret"), limits=PromptLimits(label=Label.LOCAL)))
    assert isinstance(events[-1], ev.Failed)
    assert cloud.requests == []


class SmallContextWorker(ScriptedWorker):
    """Holds at most `limit` characters, to have a context that overflows."""

    limit = 60

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        size = sum(len(m.text) for m in request.messages)
        if size > self.limit:
            raise ContextTooLong(size, self.limit)
        async for chunk in super().stream(request):
            yield chunk


async def overflow(store: Store, ask: object) -> tuple[SmallContextWorker, list[ev.Event]]:
    worker = SmallContextWorker(says("ok"))
    conductor = Orchestra(Services({"scripted": worker}, store), "scripted")
    first = view_of(await execute(conductor.run(Prompt("first", system="s"))))
    assert first.started is not None
    place = ConversationPosition(first.started.conversation)
    for text in ("second prompt, quite long", "third", "fourth, quite long as well"):
        events = await execute(conductor.run(Prompt(text), place, ask=ask))  # type: ignore[arg-type]
    return worker, events


async def test_a_full_context_is_reported_and_nothing_is_dropped_silently(store: Store) -> None:
    worker, events = await overflow(store, take_default)
    assert isinstance(events[-1], ev.Failed)
    assert events[-1].error == "ContextTooLong"
    assert len(worker.requests) == 3


async def test_the_user_may_leave_out_the_oldest_turns(store: Store) -> None:
    asked: list[Question] = []

    async def trim(question: Question) -> str:
        asked.append(question)
        return "trim"

    worker, events = await overflow(store, trim)
    view = view_of(events)
    assert view.status == "finished"
    assert len(asked) == 1
    assert any(isinstance(event, ev.Trimmed) for event in events)
    shown = [m.text for m in worker.requests[-1].messages]
    assert shown[0] == "s"
    assert shown[-1] == "fourth, quite long as well"
    assert "first" not in shown
    assert view.started is not None
    assert len(await store.thread(view.started.conversation)) == 8  # all of it is still there


async def test_one_prompt_that_is_too_long_is_not_asked_about(store: Store) -> None:
    worker = SmallContextWorker(says("ok"))
    events = await execute(
        Orchestra(Services({"scripted": worker}, store), "scripted").run(Prompt("x" * 200))
    )
    assert isinstance(events[-1], ev.Failed)
    assert events[-1].hint == "Shorten the prompt, or attach less."


class FullDisk:
    """A store whose disk fills up after some writes."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._left = writes

    def __getattr__(self, name: str) -> object:
        if name in {"append", "write", "begin"}:
            self._left -= 1
            if self._left < 0:
                raise StoreError("The disk is full.", "Free some space.")
        return getattr(self._store, name)


@pytest.mark.parametrize("writes", range(10))
async def test_a_full_disk_ends_the_run_with_a_sentence(store: Store, writes: int) -> None:
    worker = ScriptedWorker(says("shown"))
    full = FullDisk(store, writes)
    services = Services({"scripted": worker}, full)  # type: ignore[arg-type]
    events = await execute(Orchestra(services, "scripted").run(Prompt("x")))
    assert isinstance(events[-1], ev.Failed | ev.Finished)
    assert sum(isinstance(event, ev.TERMINAL) for event in events) == 1


@pytest.mark.parametrize("writes", range(10))
async def test_what_a_call_cost_is_reported_though_the_disk_is_full(
    store: Store, writes: int
) -> None:
    worker = ScriptedWorker(says("shown"))
    full = FullDisk(store, writes)
    services = Services({"scripted": worker}, full)  # type: ignore[arg-type]
    events = await execute(Orchestra(services, "scripted").run(Prompt("x")))
    assert sum(isinstance(event, ev.Called) for event in events) == len(worker.requests)


ITEMS = st.lists(
    st.one_of(
        st.text(max_size=5),
        st.sampled_from([0.0, 0.001]),
        st.just(WorkerUnavailable("It died.")),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(items=ITEMS, patience=st.integers(0, 40))
def test_however_it_goes_a_run_ends_once_and_keeps_its_text(
    items: list[str | float | BaseException], patience: int
) -> None:
    async def scenario() -> None:
        store = Store(None)
        async with orchestra(store, says(*items)).run(Prompt("x")) as run:
            stopper = asyncio.create_task(_cancel_later(run, patience))
            events = [event async for event in run]
            await stopper
        assert [isinstance(event, ev.TERMINAL) for event in events].count(True) == 1
        assert isinstance(events[-1], ev.TERMINAL)
        latest = await store.latest()
        assert latest is not None
        last = (await store.thread(latest))[-1]
        shown = "".join(event.text for event in events if isinstance(event, ev.StepText))
        assert last.text == shown
        assert last.status is not TurnStatus.STREAMING
        await store.aclose()

    asyncio.run(scenario())


async def _cancel_later(run: Run, ticks: int) -> None:
    for _ in range(ticks):
        await asyncio.sleep(0.0005)
    run.cancel()


async def test_a_disk_that_is_full_for_a_moment_costs_nothing(store: Store) -> None:
    class FailingStore:
        """A store whose first saves while streaming fail."""

        failures = 2

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def save_progress(self, texts: Mapping[str, str]) -> None:
            if self.failures:
                self.failures -= 1
                raise StoreError("The disk is full.", "Free some space.")
            await store.save_progress(texts)

    worker = ScriptedWorker(says("saved in the end", 60.0))
    services = Services({"scripted": worker}, FailingStore())  # type: ignore[arg-type]
    async with Orchestra(services, "scripted").run(Prompt("x")) as run:
        events: list[ev.Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ev.StepText):
                break
        await wait_until_saved(store, events, "saved in the end")


def test_an_unknown_default_worker_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no worker 'foo'.*setting `worker`"):
        Orchestra(Services({"small": ScriptedWorker()}, Store(None)), "foo").worker()
