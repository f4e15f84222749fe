"""A prompt run for the command line: what is printed where, and the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import pytest_asyncio
from hypothesis import given, strategies as st

from baton.cli.output import Output
from baton.cli.prompt_run import OutputOptions, TerminalAsker, TextRenderer, offer_text, show_run
from baton.core import events as ev
from baton.core.errors import ContextTooLong, ModelFileError, WorkerUnavailable
from baton.core.messages import Card, Chunk, Finish, Prompt, Request, Text, TurnStatus, Usage
from baton.core.permissions import PromptLimits
from baton.core.plan_types import Plan, Step
from baton.core.ports import CallOffer, Choice, ConversationPosition, Question
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.view import RunView
from baton.history import Store
from baton.platform.paths import find_paths
from baton.workers.scripted_worker import Script, ScriptedWorker
from support.command_line import Call
from support.fake_cloud import Cloud

PLAINLY = OutputOptions()
NEW_CONVERSATION = ConversationPosition()


@pytest_asyncio.fixture
async def store() -> AsyncIterator[Store]:
    opened = Store(None)
    yield opened
    await opened.aclose()


Said = Chunk | BaseException | float | str


LONG = " ".join(map(str, range(35_000)))


def says(*items: Said) -> Script:
    chunks = [Text(item) if isinstance(item, str) else item for item in items]
    return lambda request: list(chunks)


async def run_prompt(
    store: Store,
    script: Script,
    manner: OutputOptions = PLAINLY,
    place: ConversationPosition = NEW_CONVERSATION,
) -> int:
    worker = ScriptedWorker(script)
    orchestra = Orchestra(Services({"scripted": worker}, store), "scripted")
    begin = partial(orchestra.run, Prompt("Hello?"), place, PromptLimits())
    return await show_run(begin, manner)


async def stored_answer(store: Store) -> tuple[str, TurnStatus]:
    latest = await store.latest()
    assert latest is not None
    last = (await store.thread(latest))[-1]
    return last.text, last.status


@contextmanager
def stdout_is(descriptor: int) -> Iterator[None]:
    """Let this process's descriptor 1 be another one for a while."""
    saved = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


@pytest.mark.parametrize("form", ["text", "whole"])
async def test_stdout_gets_the_answer_and_nothing_else(
    store: Store, capfd: pytest.CaptureFixture[str], form: str
) -> None:
    assert await run_prompt(store, says("Par", "is\x1b[31m"), OutputOptions(form)) == 0
    assert capfd.readouterr() == ("Paris\x1b[31m\n", "")  # a pipe gets the data as it is


async def test_json_is_one_object(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    assert await run_prompt(store, says("Paris\n"), OutputOptions("json")) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert json.loads(out)["answer"] == "Paris\n"


async def test_events_are_lines_from_started_to_finished(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await run_prompt(store, says("Par", "is"), OutputOptions("events")) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert (lines[0]["event"], lines[-1]["event"]) == ("Started", "Finished")
    assert [line["text"] for line in lines if line["event"] == "StepText"] == ["Par", "is"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelFileError("m.gguf is broken.", "Get it again."), 5),
        (WorkerUnavailable("scripted died.", "Try again."), 6),
        (ContextTooLong(9000, 4096), 6),
    ],
)
async def test_a_failure_is_a_sentence_and_a_code_and_keeps_the_text(
    store: Store, capfd: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    assert await run_prompt(store, says("Par", error)) == code
    out, err = capfd.readouterr()
    assert out == "Par\n"
    assert err.startswith("baton: ")
    assert err.count("\n") == 1
    assert await stored_answer(store) == ("Par", TurnStatus.FAILED)


async def test_a_failure_with_json_is_an_object_too(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    script = says("Par", WorkerUnavailable("scripted died."))
    assert await run_prompt(store, script, OutputOptions("json")) == 6
    shown = json.loads(capfd.readouterr().out)
    assert (shown["status"], shown["answer"]) == ("failed", "Par")


async def test_a_cut_answer_is_never_silent(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    assert await run_prompt(store, says("Once", Usage(9, 1, Finish.LENGTH))) == 0
    latest = await store.latest()
    assert latest is not None
    way = f'`baton ask --continue={latest} "Go on."` continues it.'
    assert f"The answer was cut at its length cap; {way}" in capfd.readouterr().err
    assert (
        await run_prompt(
            store, says("Once", Usage(9, 1, Finish.LENGTH)), OutputOptions(is_kept=False)
        )
        == 0
    )
    assert "cut at its length cap; ask for a shorter one" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "finish", "message"),
    [
        ("", Finish.STOP, "The answer is empty."),
        (" \n", Finish.LENGTH, "length cap went into thoughts, so there is no answer."),
        ("Once", Finish.FILTER, "The provider's content filter ended the answer"),
        ("", Finish.TOOL, "called a tool that it was not offered"),
        ("Once", Finish.STOP, ""),
    ],
)
async def test_an_answer_that_is_not_whole_is_never_silent(
    store: Store, capfd: pytest.CaptureFixture[str], text: str, finish: Finish, message: str
) -> None:
    script = says(text, Usage(9, 1, finish))
    assert await run_prompt(store, script) == 0
    said = capfd.readouterr().err
    assert message in said
    remedy = "Try `--max-tokens 4096`." if finish is Finish.LENGTH else "Ask another worker"
    assert (remedy in said) is bool(message)
    assert "Go on." not in said
    assert await run_prompt(store, script, OutputOptions("json")) == 0
    shown = capfd.readouterr()
    warnings = json.loads(shown.out)["warnings"]
    assert [warning["kind"] for warning in warnings] == (["incomplete"] if message else [])
    assert all(message in warning["message"] for warning in warnings)
    assert all(remedy in warning["hint"] for warning in warnings)
    assert await run_prompt(store, script, OutputOptions(quiet=True)) == 0
    assert remedy not in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_signal_ends_it_in_good_order(
    store: Store, capfd: pytest.CaptureFixture[str], number: signal.Signals, form: str
) -> None:
    def left_amid(_: Request) -> Iterator[Chunk | BaseException | float]:
        yield Text("Par")
        for pause in (0.1, 0.11):  # as `timeout` does it: to the process, then to its group
            asyncio.get_running_loop().call_later(pause, os.kill, os.getpid(), number)
        yield 30.0

    assert await run_prompt(store, left_amid, OutputOptions(form)) == 128 + number
    await asyncio.sleep(0.1)  # the second one may come after the end, and must do no harm
    out = capfd.readouterr().out
    assert (json.loads(out)["status"] == "cancelled") if form == "json" else (out == "Par\n")
    assert await stored_answer(store) == ("Par", TurnStatus.CANCELLED)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_that_was_to_be_ignored_ends_nothing(
    store: Store, capfd: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """`nohup baton ask ...` continues without its terminal, and one behind `&` at Ctrl+C."""

    def continues(_: Request) -> Iterator[Chunk]:
        yield Text("Par")
        os.kill(os.getpid(), number)
        yield Text("is")

    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert await run_prompt(store, continues) == 0
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert capfd.readouterr().out == "Paris\n"
    assert await stored_answer(store) == ("Paris", TurnStatus.DONE)


async def test_a_closed_pipe_stops_the_writing_and_is_not_a_failure(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    slowly: list[Said] = ["is ", 0.05]
    with stdout_is(writing):
        code = await run_prompt(store, says("Par", *slowly * 600))
    os.close(writing)
    assert code == 0
    assert capfd.readouterr().err == ""
    text, status = await stored_answer(store)
    assert text.startswith("Par")
    assert status is TurnStatus.CANCELLED


async def test_a_full_disk_behind_stdout_is_reported_and_the_answer_kept(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with stdout_is(full):
        code = await run_prompt(store, says("Paris"), OutputOptions("whole"))
    os.close(full)
    assert code == 1
    errors = capfd.readouterr().err
    assert "No space left on device" in errors
    assert "in your history" in errors
    assert await stored_answer(store) == ("Paris", TurnStatus.DONE)


async def test_a_reader_that_pauses_holds_up_neither_the_run_nor_the_way_out(
    store: Store,
) -> None:
    reading, writing = os.pipe()

    async def interrupt() -> None:
        while (  # noqa: ASYNC110
            await store.latest() is None or (await stored_answer(store))[1] is not TurnStatus.DONE
        ):
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = asyncio.create_task(interrupt())
    with stdout_is(writing):
        code = await asyncio.wait_for(run_prompt(store, says(LONG, 0.1, "y")), 60)
        await interrupting
        assert code == 128 + signal.SIGINT
        assert await stored_answer(store) == (LONG + "y", TurnStatus.DONE)
        os.close(reading)  # lets the thread that still writes go
        await asyncio.sleep(0.1)
    os.close(writing)


async def test_turns_that_no_longer_fit_are_left_out_only_when_requested(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    def forgetful(request: Request) -> list[Chunk | BaseException | float]:
        if len(request.messages) > 2:
            return [ContextTooLong(9000, 4096)]
        return [Text("word " * 2000)]

    assert await run_prompt(store, forgetful, OutputOptions("whole")) == 0
    place = ConversationPosition(await store.latest())
    assert await run_prompt(store, says("two"), place=place) == 0
    capfd.readouterr()
    assert await run_prompt(store, forgetful, place=place) == 6
    assert "--drop-oldest" in capfd.readouterr().err
    assert await run_prompt(store, forgetful, OutputOptions(drop_oldest=True), place) == 0
    assert len(await store.thread(str(place.conversation))) == 8


def test_an_offer_names_no_less_than_it_can_cost_and_no_more_than_is_left() -> None:
    card = Card("gpt", "cloud", "gpt-5-mini")
    offer = CallOffer(card, "Why not?", "You: Hi", "", 14_400_000, 15_600_000, "day")
    assert "at most $0.02 · $0.01 left today" in offer_text(offer)


def test_an_offer_names_the_address_and_the_proxy() -> None:
    card = Card("gpt", "cloud", "gpt", address="api.openai.com through proxy:3128")
    question = offer_text(CallOffer(card, "Why not?", "You: Hi", "1 key", 1, 1, "day"))
    assert "for api.openai.com through proxy:3128 (hidden: 1 key):" in question


async def test_an_offer_at_the_terminal_shows_baton_s_own_instructions_when_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = ["3", "2"]

    async def next_line() -> str:
        return typed.pop(0)

    monkeypatch.setattr("os.isatty", lambda _: True)
    monkeypatch.setattr("baton.cli.prompt_run.read_line", next_line)
    card, own = Card("gpt", "cloud", "gpt"), "Instructions: Plan well.\nWith care."
    offer = CallOffer(
        card, "Why.", "You: Hi", "", 9_000_000, 10**9, "day", instructions=own, expected=2_000_000
    )
    choices = (Choice("keep", "Keep"), Choice("once", "Send once"))
    output = Output()
    asker = TerminalAsker(output, drop_oldest=False)
    assert await asker(Question("Ask gpt?", choices, "keep", offer)) == "once"
    output.close()
    asked, shown, again = capfd.readouterr().err.partition("    With care.\n")
    assert "    You: Hi\nWith Baton's own instructions, 2 lines.\nAsk gpt?" in asked
    assert "about $0.002, at most $0.009 · $1.00 left today" in asked
    assert "  3  Show Baton's own instructions" in asked
    assert asked.endswith("    Instructions: Plan well.\n")
    assert shown
    assert "Show Baton's" not in again


# The forms, fed with events: what a pipe gets, and what a terminal


class Screen(Output):
    """Records what is put where instead of writing it."""

    def __init__(self, to_terminal: bool) -> None:
        super().__init__()
        self.to_terminal = self._may_talk = self._may_overwrite = to_terminal
        self.put: list[tuple[str, str]] = []

    def write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self.put.append(("out", text))

    def show_status(self, text: str) -> None:
        if text and self._may_overwrite:
            self.put.append(("status", text))

    def warn(self, text: str) -> None:
        self.put.append(("err", text))

    @property
    def out(self) -> str:
        return "".join(text for kind, text in self.put if kind == "out")


@contextmanager
def open_renderer(to_terminal: bool, whole: bool = False) -> Iterator[tuple[Screen, TextRenderer]]:
    screen = Screen(to_terminal)
    yield screen, TextRenderer(screen, whole)
    screen.close()


def feed(form: TextRenderer, *events: ev.Event, view: RunView | None = None) -> RunView:
    view = view or RunView()
    for event in events:
        view = view.apply(event)
        form.show_event(event, view)
    return view


TWO = Plan((Step("a", "One."), Step("b", "Two."), Step("c", "Three.")), (3, 1))


def started_events(*numbers: int) -> list[ev.Event]:
    return [ev.StepStarted(n, "x", at=0.1) for n in numbers]


def finished_event(step: int, text: str = "") -> ev.StepFinished:
    return ev.StepFinished(step, Finish.STOP, text, at=0.9)


@pytest.mark.parametrize("to_terminal", [False, True])
def test_parts_of_an_answer_stand_in_their_order_however_they_are_written(
    to_terminal: bool,
) -> None:
    with open_renderer(to_terminal) as (screen, form):
        view = feed(form, ev.Planned(TWO), *started_events(1, 2, 3), ev.StepText(1, "last", at=0.2))
        assert screen.out == ""
        view = feed(form, ev.StepText(3, "fir", at=0.2), ev.StepText(3, "st", at=0.2), view=view)
        assert screen.out == "first"
        view = feed(form, ev.StepText(2, "unseen", at=0.3), finished_event(3), view=view)
        assert screen.out == "first\n\nlast"
        view = feed(
            form,
            ev.StepText(1, "!", at=0.3),
            finished_event(1),
            finished_event(2),
            ev.Finished(at=1.0),
            view=view,
        )
        form.finish(view)
    assert screen.out == "first\n\nlast!\n" == view.answer + "\n"


def test_between_two_parts_a_terminal_says_what_is_done() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        view = feed(form, ev.Planned(TWO), *started_events(3), ev.StepText(3, "first", at=0.2))
        assert screen.put[-1] == ("out", "first")
        view = feed(form, finished_event(3), *started_events(1), view=view)
        assert screen.put[-1][0] == "status"
        form.finish(
            feed(
                form,
                ev.StepText(1, "last", at=0.4),
                finished_event(1),
                finished_event(2),
                view=view,
            )
        )
    assert screen.out == "first\n\nlast\n"


def test_an_empty_part_leaves_no_gap() -> None:
    with open_renderer(to_terminal=False) as (screen, form):
        failed = ev.StepFailed(3, "WorkerError", "No.", at=0.3)
        view = feed(
            form, ev.Planned(TWO), *started_events(1, 3), failed, ev.StepText(1, "all", at=0.4)
        )
        form.finish(feed(form, finished_event(1), ev.Finished(at=1.0), view=view))
    assert screen.out == "all\n"


DRAFT = Plan((Step("a", "Draft."),), (1,))
BETTER = Plan((*DRAFT.steps, Step("gpt", "Better.")), (2,))


def test_a_pipe_gets_no_draft() -> None:
    with open_renderer(to_terminal=False) as (screen, form):
        events = [
            ev.Planned(DRAFT, False),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        ]
        view = feed(form, *events, ev.Planned(BETTER, at=0.3), *started_events(2))
        assert screen.out == ""
        view = feed(form, ev.StepText(2, "Paris", at=0.4), view=view)
        assert screen.put == [("out", "Paris")]
        form.finish(feed(form, finished_event(2), ev.Finished(at=0.5), view=view))
    assert screen.out == "Paris\n"


def test_a_draft_that_stands_is_shown_once_it_does() -> None:
    with open_renderer(to_terminal=False) as (screen, form):
        events = [
            ev.Planned(DRAFT, False),
            *started_events(1),
            ev.StepText(1, "Paris", at=0.2),
            finished_event(1),
        ]
        view = feed(form, *events, ev.Planned(DRAFT, at=0.3))
        assert screen.out == "Paris"
        form.finish(feed(form, ev.Finished(at=0.5), view=view))
    assert screen.out == "Paris\n"


def test_a_terminal_shows_the_draft_and_who_answers_instead() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        events = [
            ev.Planned(DRAFT, False),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        ]
        view = feed(form, *events)
        assert screen.out == "Hm"
        view = feed(form, ev.Planned(BETTER, at=0.3), *started_events(2), view=view)
        kind, text = screen.put[-1]
        assert kind == "status"
        assert text.endswith("loading x")
        assert not [text for kind, text in screen.put if kind == "err"]  # it may still stay
        form.finish(
            feed(
                form,
                ev.StepText(2, "Paris", at=0.4),
                finished_event(2),
                ev.Finished(at=0.5),
                view=view,
            )
        )
    assert [text for kind, text in screen.put if kind == "err"] == [
        "baton: That was a draft; x answers."
    ]
    assert screen.out == "Hm\nParis\n"


def test_of_several_parts_the_one_that_is_done_again_names_who_does_it() -> None:
    parts = (Step("a", "One."), Step("b", "Two."))
    both, again = Plan(parts, (1, 2)), Plan((*parts, Step("x", "One.")), (3, 2))
    with open_renderer(to_terminal=True) as (screen, form):
        first = [*started_events(1), ev.StepText(1, "Hm", at=0.1), finished_event(1)]
        second = [*started_events(2), ev.StepText(2, "36", at=0.2), finished_event(2)]
        view = feed(form, ev.Planned(both, False), *first, *second)
        view = feed(form, ev.Planned(again, at=0.3), *started_events(3), view=view)
        form.finish(
            feed(
                form,
                ev.StepText(3, "Paris", at=0.4),
                finished_event(3),
                ev.Finished(at=0.5),
                view=view,
            )
        )
    assert [text for kind, text in screen.put if kind == "err"] == [
        "baton: That was a draft; x does a part of it again."
    ]
    assert screen.out == "Hm\n\n36\nParis\n\n36\n"


def test_a_draft_that_is_taken_back_in_the_end_is_shown_again() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        events = [
            ev.Planned(DRAFT, False),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        ]
        other = [
            ev.Planned(BETTER, False, at=0.3),
            *started_events(2),
            ev.StepText(2, "Pa", at=0.4),
            finished_event(2),
        ]
        back = ev.Planned(Plan(BETTER.steps, (1,)), at=0.5)
        form.finish(feed(form, *events, *other, back, ev.Finished(at=0.6)))
    assert screen.out == "Hm\nPa\nHm\n"


def test_a_draft_that_stays_after_all_is_not_a_draft() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        events = [
            ev.Planned(DRAFT, False),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        ]
        declined = ev.StepFailed(2, "BudgetExceeded", "gpt was not asked.", at=0.4)
        back = ev.Planned(Plan(BETTER.steps, (1,)), at=0.5)
        form.finish(feed(form, *events, ev.Planned(BETTER, False, at=0.3), declined, back))
    assert screen.out == "Hm\n"
    assert not [text for kind, text in screen.put if kind == "err"]


def test_parts_that_are_over_stand_above_one_that_is_rewritten() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        first: list[ev.Event] = [ev.Planned(TWO, False), *started_events(3, 1)]
        unseen: list[ev.Event] = [
            ev.StepText(1, "?", at=0.1),
            ev.StepRetried(1, "It died.", 0.0, at=0.1),
        ]
        first += [*unseen, ev.StepText(3, "one", at=0.2), finished_event(3)]
        again: list[ev.Event] = [
            ev.StepText(1, "tw", at=0.3),
            ev.StepRetried(1, "It died.", 0.0, at=0.4),
        ]
        form.finish(
            feed(
                form,
                *first,
                *again,
                ev.StepText(1, "two", at=0.5),
                finished_event(1),
                finished_event(2),
            )
        )
    assert screen.out == "one\n\ntw\none\n\ntwo\n"
    assert len([text for kind, text in screen.put if kind == "err"]) == 1


def test_an_answer_that_grows_is_not_a_draft() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        events = [
            ev.Planned(DRAFT),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        ]
        longer = ev.Planned(Plan(BETTER.steps, (1, 2)), at=0.3)
        form.finish(
            feed(
                form,
                *events,
                longer,
                *started_events(2),
                ev.StepText(2, "Pa", at=0.4),
                finished_event(2),
            )
        )
    assert screen.out == "Hm\n\nPa\n"
    assert not [text for kind, text in screen.put if kind == "err"]


def test_a_draft_whose_worker_crashes_begins_again() -> None:
    with open_renderer(to_terminal=True) as (screen, form):
        events = [ev.Planned(DRAFT, False), *started_events(1), ev.StepText(1, "Hmmm", at=0.2)]
        again = [
            ev.StepRetried(1, "a died.", 0.0, at=0.3),
            *started_events(1),
            ev.StepText(1, "Pa", at=0.4),
        ]
        form.finish(feed(form, *events, *again, finished_event(1), ev.Finished(at=0.5)))
    assert screen.out == "Hmmm\nPa\n"


def test_finished_steps_that_a_run_begins_with_are_shown() -> None:
    with open_renderer(to_terminal=False) as (screen, form):
        view = feed(form, ev.Planned(TWO), finished_event(3, "first"), finished_event(1, "last"))
        assert screen.out == "first\n\nlast"
        form.finish(view)


def test_whole_answers_come_at_the_end() -> None:
    with open_renderer(to_terminal=True, whole=True) as (screen, form):
        view = feed(
            form,
            ev.Planned(DRAFT),
            *started_events(1),
            ev.StepText(1, "Hm", at=0.2),
            finished_event(1),
        )
        assert screen.out == ""
        form.finish(view)
    assert screen.out == "Hm\n"


@given(st.data())
def test_a_pipe_has_at_any_time_exactly_what_stays(data: st.DataObject) -> None:
    """Random interleavings of the steps' pieces: stdout is `view.final`, and only ever grows."""
    count = data.draw(st.integers(1, 4))
    answer = data.draw(st.permutations(range(1, count + 1)))[: data.draw(st.integers(1, count))]
    plan = Plan(tuple(Step("x", "Do.") for _ in range(count)), tuple(answer))
    pieces = st.lists(st.sampled_from(["a", "", "\n", "bc"]), max_size=4)
    scripts = [[*data.draw(pieces), None] for _ in range(count)]
    with open_renderer(to_terminal=False) as (screen, form):
        view = feed(form, ev.Planned(plan, data.draw(st.booleans())), *started_events(1))
        while any(scripts):
            number = data.draw(st.sampled_from([n for n, s in enumerate(scripts, 1) if s]))
            piece = scripts[number - 1].pop(0)
            event = finished_event(number) if piece is None else ev.StepText(number, piece, at=0.2)
            view = feed(form, event, view=view)
            assert screen.out == view.stable_answer
        view = feed(form, ev.Planned(plan, at=0.3), view=view)
        assert screen.out == view.stable_answer
        view = feed(form, ev.Finished(at=0.4), view=view)
        form.finish(view)
    assert screen.out == view.answer + "\n" * (not view.answer.endswith("\n") and view.answer != "")


def test_a_long_answer_is_not_put_together_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0
    original = RunView.stable_answer

    def counted(view: RunView) -> str:
        nonlocal made
        made += 1
        return original.fget(view)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(RunView, "stable_answer", property(counted))
    with open_renderer(to_terminal=False) as (screen, form):
        pieces = [ev.StepText(1, "word ", at=0.2)] * 2000
        form.finish(
            feed(
                form,
                ev.Planned(DRAFT),
                *started_events(1),
                *pieces,
                finished_event(1),
                ev.Finished(at=1.0),
            )
        )
    assert screen.out == "word " * 2000 + "\n"
    assert made < 5


async def test_a_plan_is_only_shown_never_agreed_to_here() -> None:
    output = Screen(to_terminal=True)
    question = Question(
        "Run this plan?", (Choice("go", "Run it"), Choice("stop", "Stop")), "stop", plan=DRAFT
    )
    assert await TerminalAsker(output, drop_oldest=False)(question) == "stop"
    assert output.put == []
    output.close()


def wait_until_written(output: Output) -> None:
    """Wait until the thread has written all that it was given."""
    done = threading.Event()
    output.call_when_written(done.set)
    assert done.wait(10)


def test_what_is_written_beside_a_question_waits_for_its_answer(
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = Output()
    output.to_terminal = True
    output.warn("Number:")
    output.hold_output()
    output.write("Paris")
    output.warn("baton: Later.")
    wait_until_written(output)
    assert capfd.readouterr() == ("", "Number:\n")
    output.release_output()
    wait_until_written(output)
    output.close()
    assert capfd.readouterr() == ("Paris", "baton: Later.\n")


# Prompts through a pipe


def test_no_question_is_asked_where_the_prompt_is_piped(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal on stderr isn't enough: what could be typed there is the prompt."""
    file = find_paths().config_file
    file.parent.mkdir(parents=True)
    with Cloud() as cloud:
        file.write_text(
            f'[budget]\nday = "2"\n[[workers]]\nid = "far"\nkind = "server"\nmodel = "kit-1"\n'
            f'base_url = "{cloud.base("server")}"\nprivacy = "cloud"\n'
            'price = { input = "1", output = "1" }\n'
        )
        monkeypatch.setattr(os, "isatty", lambda fd: fd == 2)
        done = call("ask", "-m", "far", piped=b"Sum these notes up.")
        assert cloud.calls == []
    assert done.code == 4
    assert "you couldn't be asked" in done.err
    assert "--budget" in done.err
