"""How settled screens look. After a wanted change, look at what `--snapshot-update` made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.pilot import Pilot

from baton.core.errors import ContextTooLong, WorkerUnavailable
from baton.core.ledger_types import HoldRequest, Policy, Scope
from baton.core.messages import (
    Chunk,
    Finish,
    Prompt,
    Purpose,
    Reading,
    Request,
    RequestSent,
    Text,
    Usage,
    Writing,
)
from baton.core.money import FREE, NANO, BilledTokens, Price, Rates
from baton.core.permissions import RunTerms
from baton.core.plan_types import Need, Plan, Step
from baton.core.stream_filters import HiddenText, RedactedTexts
from baton.tui.prompt_queue import QueuedPrompt
from baton.workers.scripted_worker import ScriptedWorker
from support.app_session import CARD, GPT, STRONG, settled, sorry
from support.screen_looks import (
    LARGE,
    MIDDLE,
    NOW,
    SMALL,
    Execution,
    Look,
    app_of,
    each_look,
    freeze_runs,
    look,
)

__all__ = ["look"]

ANSWER = """Three **quiet** days, with `tram 28` once.

## Day 1

- Walk to the castle early; it is quiet before ten
- Eat *pastéis* by the river

| Dia | Manhã | Tarde |
|---|---|---|
| 1 | Castelo | Elétrico 28 |
| 2 | Oceanário | Parque |

```python
def days(count: int) -> list[str]:
    return [f"Day {n}" for n in range(count)]  # from 0
```
"""


def script(request: Request) -> Iterable[Chunk | BaseException | float]:
    last = request.messages[-1].text
    if "too long" in last:
        raise ContextTooLong(9000, 4096)
    if "fail" in last:
        yield Text("Here is the beginning of")
        raise WorkerUnavailable("The worker small died.", "What there is was kept; send it again.")
    if "slow" in last:
        yield from (Reading(1, 1), Text(ANSWER[:180]), Writing(31.0))
        yield 60.0
    yield Text(ANSWER)


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let every run take 1.2 s, every day be the same, and work in a folder with four files."""
    folder = tmp_path / "work" / "app" / "baton"
    folder.mkdir(parents=True)
    for name in ("orchestra.py", "prompt_history.py", "../../ORDERS.md", "../../notes.txt"):
        (folder / name).touch()
    monkeypatch.chdir(tmp_path / "work")
    freeze_runs(monkeypatch)
    monkeypatch.setattr("baton.history.changes.time", SimpleNamespace(time=lambda: NOW))
    monkeypatch.setattr("baton.tui.screens.money_screen._month_start", lambda: 0.0)
    monkeypatch.setattr("baton.tui.screens.money_screen._today", lambda: date.fromtimestamp(NOW))
    monkeypatch.setenv("TZ", "UTC")


async def ask(pilot: Pilot[None], text: str) -> None:
    app = app_of(pilot)
    before = len(app.chat.transcript.turns)
    app.chat.composer.prompt.insert(text)
    await pilot.press("enter")
    await settled(
        pilot, lambda: len(app.chat.transcript.turns) > before and not app.chat.queue.is_busy
    )


async def over(pilot: Pilot[None], key: str, name: str, *typed: str) -> None:
    app = app_of(pilot)
    await pilot.press(key)
    await settled(pilot, lambda: type(app.screen).__name__ == name)
    await pilot.press(*typed)
    await settled(pilot)
    for field in app.screen.query("Input"):
        field.cursor_blink = False  # type: ignore[attr-defined]


async def first(pilot: Pilot[None]) -> None:
    app_of(pilot)
    await settled(pilot)


def after_start(act: Execution) -> Execution:
    async def execute(pilot: Pilot[None]) -> None:
        await first(pilot)
        await act(pilot)

    return execute


async def answer(pilot: Pilot[None]) -> None:
    await ask(pilot, "Plan three days in Lisbon with two kids.")


async def failed(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await ask(pilot, "now fail")


async def search(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await over(pilot, "ctrl+s", "ConversationsScreen", *"castle")


async def selected(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press("tab", "k")


async def streaming(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.chat.composer.prompt.insert("slow please")
    await pilot.press("enter")
    await settled(pilot, lambda: "writing" in app.chat.footer.status)
    app.chat.composer.prompt.insert("and then this")
    await pilot.press("enter")
    await settled(pilot, lambda: app.chat.queue.waiting)


async def question(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    await ask(pilot, "hello")
    app.chat.composer.prompt.insert("too long")
    await pilot.press("enter")
    await settled(pilot, lambda: app.chat.question)
    await pilot.press("tab")
    await settled(pilot)


async def commands(pilot: Pilot[None]) -> None:
    await first(pilot)
    await pilot.press("/")


async def everything(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press("ctrl+p")
    app_of(pilot).chat.context.menu.line.cursor_blink = False
    await settled(pilot, lambda: app_of(pilot).chat.context.menu.is_open)


async def filtered(pilot: Pilot[None]) -> None:
    await everything(pilot)
    await pilot.press(*"ver")
    await settled(pilot)


async def files(pilot: Pilot[None]) -> None:
    await first(pilot)
    await pilot.press(*"see @or")
    await settled(pilot, lambda: app_of(pilot).chat.context.menu.is_open)


async def colours(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press(*"/theme nord")
    await settled(pilot, lambda: app_of(pilot).theme == "nord")


async def keys_here(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await over(pilot, "?", "HelpScreen")


async def models(pilot: Pilot[None]) -> None:
    await over(pilot, "ctrl+l", "ModelsScreen")


async def keys(pilot: Pilot[None]) -> None:
    await over(pilot, "f1", "HelpScreen")


async def why(pilot: Pilot[None]) -> None:
    await answer(pilot)
    await pilot.press("escape")
    await over(pilot, "w", "WorkflowScreen")


CASES = [
    *((act, size, theme) for act in (first, answer, failed, search)
      for size in (SMALL, LARGE) for theme in ("dark", "light")),
    (answer, SMALL, "high-contrast"),
    (selected, SMALL, "light"),
    (streaming, SMALL, "dark"),
    (question, SMALL, "dark"),
    (commands, SMALL, "dark"),
    *((everything, size, theme) for size in (SMALL, MIDDLE, LARGE) for theme in ("dark", "light")),
    (filtered, SMALL, "dark"),
    (files, SMALL, "light"),
    (colours, MIDDLE, "dark"),
    (keys_here, SMALL, "dark"),
    (models, SMALL, "dark"),
    (keys, LARGE, "light"),
    (why, LARGE, "dark"),
    (why, SMALL, "light"),
]  # fmt: skip


@pytest.mark.sampled(4)
@each_look(CASES)
def test_look(look: Look, act: Execution, size: tuple[int, int], theme: str) -> None:
    workers = {"small": ScriptedWorker(script, CARD), "large": ScriptedWorker(script, STRONG)}
    assert look.is_unchanged(workers, after_start(act), size, theme)


class StubRedactor:
    """Hides one address and one number, as a redactor would."""

    def redact(self, texts: Sequence[str]) -> RedactedTexts:
        things = (
            HiddenText("[mail address 1]", "ana@example.org", "mail address"),
            HiddenText("[phone number 1]", "+351 21 342 0001", "phone number"),
        )
        for thing in things:
            texts = [text.replace(thing.original, thing.placeholder) for text in texts]
        return RedactedTexts(tuple(texts), things)


async def offer(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    app.chat.composer.prompt.insert(
        "Put this into Portuguese: please write to ana@example.org or call +351 21 342 0001 to "
        "have the rooms confirmed for the three of us."
    )
    await pilot.press("enter")
    await settled(pilot, lambda: app.screen.query("OfferCard"))
    await settled(pilot)  # the picture of the run is drawn once more


async def replaced(pilot: Pilot[None]) -> None:
    await offer(pilot)
    app = app_of(pilot)
    await pilot.press("tab", "right", "enter")
    await settled(pilot, lambda: not app.chat.queue.is_busy)


async def declined(pilot: Pilot[None]) -> None:
    await offer(pilot)
    app = app_of(pilot)
    await pilot.press("escape")
    await settled(pilot, lambda: not app.chat.queue.is_busy)


async def why_remote(pilot: Pilot[None]) -> None:
    await replaced(pilot)
    await pilot.press("escape")
    await over(pilot, "w", "WorkflowScreen")


async def typed(pilot: Pilot[None], command: str, name: str) -> None:
    app = app_of(pilot)
    app.chat.composer.put(command)
    await over(pilot, "enter", name)
    await settled(pilot)


async def money(pilot: Pilot[None]) -> None:
    await replaced(pilot)
    app = app_of(pilot)
    app.chat.composer.prompt.insert("now break")
    await pilot.press("enter")
    await settled(pilot, lambda: app.screen.query("OfferCard"))
    await pilot.press("tab", "right", "enter")
    await settled(pilot, lambda: not app.screen.query("OfferCard"))
    await settled(pilot, lambda: app.screen.query("OfferCard"))  # it is asked about once more
    await pilot.press("escape")
    await settled(pilot, lambda: not app.chat.queue.is_busy)
    await typed(pilot, "/budget", "MoneyScreen")


async def egress(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    ledger = app.chat.context.services.ledger
    for number, body in enumerate((b'{"model": "gpt-5-mini"}' * 30, b"{}", None)):
        bill = HoldRequest(
            f"run{number}", "chat", "gpt", "openai", "openai/gpt-5-mini", Purpose.ANSWER,
            FAR.price or FREE, 500, 1000, {Scope.DAY: 2 * NANO}, keep=body is not None,
        )  # fmt: skip
        hold = await ledger.hold(bill)
        await ledger.sent(hold.call, "api.openai.com", body or b"not kept")
        if number:
            await ledger.settle(hold.call, BilledTokens(400, 800 * number))
    await typed(pilot, "/egress", "EgressScreen")


async def sent(pilot: Pilot[None]) -> None:
    await egress(pilot)
    await pilot.press("down", "down")
    await over(pilot, "enter", "SentScreen")


def far(request: Request) -> Iterable[Chunk | BaseException | float]:
    yield RequestSent("api.openai.com", 1834)
    if "break" in request.messages[-1].text:
        raise WorkerUnavailable("OpenAI closed the connection.", "Try again.")
    yield Text(ANSWER)
    yield Usage(400, 800, Finish.STOP)


FAR = replace(GPT, price=Price(Rates(0, 2 * NANO, 0, 0)))
"""With any bound on a prompt's tokens the pictures are the same."""

MONEY_CASES = [
    *((act, size, theme) for act in (offer, replaced, money, egress)
      for size, theme in ((SMALL, "dark"), (SMALL, "light"), (LARGE, "dark"))),
    (declined, SMALL, "dark"),
    (sent, SMALL, "dark"),
    (why_remote, SMALL, "light"),
    (offer, SMALL, "high-contrast"),
]  # fmt: skip


@pytest.mark.sampled(2)
@each_look(MONEY_CASES)
def test_look_of_money(look: Look, act: Execution, size: tuple[int, int], theme: str) -> None:
    assert look.is_unchanged(
        {"small": ScriptedWorker(sorry, CARD), "gpt": ScriptedWorker(far, FAR)},
        after_start(act),
        size,
        theme,
        terms=RunTerms({Scope.SESSION: NANO // 2, Scope.DAY: 2 * NANO}),
        redactor=StubRedactor(),
    )


WORKFLOW = Plan(
    (
        Step("small", "Draft three quiet days in Lisbon with two kids.", ("prompt", "history")),
        Step(
            "large", "Check distances and opening hours.", ("1",), Need("knowledge", 3), check=True
        ),
        Step("gpt", "Put the days into a table in Portuguese.", ("prompt", "1", "2")),
    ),
    (1, 3),
)


def quiet(request: Request) -> Iterable[Chunk | BaseException | float]:
    if "Look" in request.messages[-1].text:
        yield from (Text("The castle opens at nine;\nit is quiet until ele"), Writing(31.0))
        yield 60.0
    if "Check" in request.messages[-1].text:
        yield Text("The castle opens at nine; tram 28 is full from eleven on.")
    else:
        yield Text("Three **quiet** days: the castle early, the river late, pastéis between.")


def table(request: Request) -> Iterable[Chunk | BaseException | float]:
    yield RequestSent("api.openai.com", 1834)
    yield Text("| Dia | Manhã | Tarde |\n|---|---|---|\n| 1 | Castelo | Elétrico 28 |")
    yield Usage(400, 391, Finish.STOP)


async def planned(pilot: Pilot[None], *, preview: bool = False) -> None:
    app = app_of(pilot)
    prompt = Prompt("Plan three days in Lisbon with two kids, then put it into a table.")
    conversation = app.chat.context.chat
    app.chat.queue.send(QueuedPrompt(conversation, prompt, plan=WORKFLOW, preview=preview))
    if preview:
        await settled(pilot, lambda: app.screen.query("PlanCard"))
    else:
        await settled(
            pilot, lambda: len(app.chat.transcript.turns) > 1 and not app.chat.queue.is_busy
        )


async def live(pilot: Pilot[None]) -> None:
    app = app_of(pilot)
    looked = replace(WORKFLOW.steps[1], subtask="Look up distances and opening hours.")
    plan = replace(WORKFLOW, steps=(WORKFLOW.steps[0], looked, WORKFLOW.steps[2]), answer=(3,))
    app.chat.queue.send(QueuedPrompt(app.chat.context.chat, Prompt("Plan it"), plan=plan))
    await settled(
        pilot, lambda: app.screen.query("WorkflowView") and "writing" in app.chat.footer.status
    )
    await settled(pilot)


async def parts(pilot: Pilot[None]) -> None:
    await planned(pilot)


async def workflow(pilot: Pilot[None]) -> None:
    await planned(pilot)
    app_of(pilot).chat.transcript.focus()
    await over(pilot, "w", "WorkflowScreen")


async def card(pilot: Pilot[None]) -> None:
    await planned(pilot, preview=True)


async def interrupted(pilot: Pilot[None]) -> None:
    await card(pilot)
    await pilot.press("escape")
    await settled(pilot, lambda: not app_of(pilot).chat.queue.is_busy)


async def timeline(pilot: Pilot[None]) -> None:
    await planned(pilot)
    app_of(pilot).chat.transcript.focus()
    await pilot.press("t")


async def compared(pilot: Pilot[None]) -> None:
    await workflow(pilot)
    await pilot.press("right")
    await settled(pilot)


async def reworded(pilot: Pilot[None]) -> None:
    await card(pilot)
    await pilot.press("tab", "down", "w")
    await settled(pilot, lambda: app_of(pilot).screen.query("WorkerMenu"))


MIDDLE = (100, 30)
WORKFLOW_CASES = [
    *((act, size, theme) for act in (workflow, card, live)
      for size in (SMALL, MIDDLE, LARGE) for theme in ("dark", "light")),
    (timeline, SMALL, "dark"),
    (timeline, LARGE, "light"),
    (compared, SMALL, "dark"),
    (compared, LARGE, "light"),
    (reworded, MIDDLE, "dark"),
    (parts, SMALL, "dark"),
    (parts, SMALL, "light"),
    (interrupted, SMALL, "dark"),
]  # fmt: skip


@pytest.mark.sampled(2)
@each_look(WORKFLOW_CASES)
def test_look_of_workflows(look: Look, act: Execution, size: tuple[int, int], theme: str) -> None:
    workers = {
        "small": ScriptedWorker(quiet, CARD),
        "large": ScriptedWorker(quiet, STRONG),
        "gpt": ScriptedWorker(table, FAR),
    }
    terms = RunTerms({Scope.DAY: 2 * NANO}, Policy.BUDGET)
    assert look.is_unchanged(workers, after_start(act), size, theme, terms=terms)
