"""Money on the screen: the meter, ceilings and their alarms, offline, charges, what left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import ConfigError, WorkerUnavailable
from baton.core.ledger_types import (
    HoldRequest,
    Policy,
    Scope,
    ScopeBalance,
    SpendingStyle,
    Standing,
)
from baton.core.messages import Chunk, Purpose, Request, RequestSent, Text
from baton.core.money import FREE, NANO, BilledTokens
from baton.core.plan.plan import Plan, Step
from baton.history import Store
from baton.platform.settings import load_settings
from baton.presentation import charges
from baton.tui import slash_commands
from baton.tui.screens.models_screen import ModelsScreen
from support.app_session import GPT, Stage, play, remote_script, sorry, staged, until

Script = Iterable[Chunk | BaseException | float]
BUDGET = {"policy": Policy.BUDGET}
OVERCHARGE = "gpt-5-mini charged $0.1001 for a call that was to cost at most $0.00"


def header(stage: Stage) -> str:
    return stage.see().splitlines()[0]


def flat(stage: Stage) -> str:
    return " ".join(stage.see().split())


def broken(request: Request) -> Script:
    yield RequestSent("api.openai.com", 900)
    yield Text("half ")
    raise WorkerUnavailable("OpenAI closed the connection.", "Try again.")


async def send_body(stage: Stage, body: bytes, run: str = "run") -> None:
    """Let a call leave, as the gateway would record it."""
    assert GPT.price is not None
    bill = HoldRequest(
        run, "chat", "gpt", "openai", "openai/gpt-5-mini", Purpose.ANSWER, GPT.price, 500, 1000,
        stage.services.orchestra.terms.ceilings,
    )  # fmt: skip
    hold = await stage.services.ledger.hold(bill)
    await stage.services.ledger.sent(hold.call, "api.openai.com", body)
    await stage.services.ledger.settle(hold.call, BilledTokens(400, 800))


async def test_money_is_hidden_while_the_cloud_is_off_and_nothing_was_spent(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.ask("hello")
        assert "$" not in header(stage)
        await stage.send("/budget day 2")
        await stage.until(lambda: "$0.00 of $2.00" in header(stage))


async def test_the_meter_follows_the_conversation(tmp_path: Path) -> None:
    ceilings = {Scope.SESSION: NANO // 100, Scope.DAY: 2 * NANO}
    async with staged(
        tmp_path, sorry, cloud=remote_script(), terms=BUDGET, ceilings=ceilings
    ) as stage:
        await stage.ask("hello")
        await stage.until(lambda: "$0.002 of $0.01" in header(stage))
        await stage.press("ctrl+n")
        await stage.until(lambda: "$0.00 of $0.01" in header(stage) or "of $2.00" in header(stage))


async def test_what_is_held_and_unconfirmed_is_told(tmp_path: Path) -> None:
    def slow(request: Request) -> Script:
        yield RequestSent("api.openai.com", 900)
        yield 0.6
        yield from broken(request)

    async with staged(tmp_path, sorry, cloud=slow, terms=BUDGET, size=(100, 24)) as stage:
        await stage.send("hello")
        await stage.until(lambda: "$0.004 held" in header(stage))
        await stage.answered()
        await stage.until(lambda: "$0.004 unconfirmed" in header(stage))
        assert "held" not in header(stage)
        warning = "gpt-5-mini did not confirm what a call cost, so $0.004 is charged"
        assert warning in flat(stage)
        assert "does not show it, /budget release gives it back." in flat(stage)


def rooms(used: int, ceiling: int | None) -> Standing:
    return Standing((ScopeBalance(Scope.DAY, ceiling, used), ScopeBalance(Scope.MONTH, None, used)))


def test_the_meter_in_words() -> None:
    assert charges.spending_summary(Standing(())) == ""
    assert charges.spending_summary(rooms(0, None)) == ""
    assert charges.spending_summary(rooms(0, 2 * NANO)) == "$0.00 of $2.00"
    assert charges.spending_summary(rooms(14 * NANO // 100, NANO // 2)) == "$0.14 of $0.50"
    assert charges.spending_summary(rooms(NANO, None)) == "$1.00 spent · cloud off"
    assert charges.spending_summary(rooms(NANO, 0)) == "$1.00 spent · cloud off"
    assert charges.spending_summary(replace(rooms(0, NANO), frozen="Too much.")) == "cloud frozen"


def test_a_ceiling_is_told_of_once_at_80_percent_and_once_when_all_is_used() -> None:
    alarm = charges.CeilingAlarm()
    assert alarm.new_alarms(rooms(79, 100), "a", True) == []
    assert "80 % of the ceiling" in alarm.new_alarms(rooms(80 * NANO, 100 * NANO), "a", True)[0]
    assert alarm.new_alarms(rooms(90, 100), "a", True) == []
    assert "All of the ceiling" in alarm.new_alarms(rooms(100, 100), "a", True)[0]
    assert alarm.new_alarms(rooms(100, 100), "b", True) == []
    old = charges.CeilingAlarm()
    assert old.new_alarms(rooms(85, 100), None, False) == [], "the header shows what was so before"
    assert old.new_alarms(rooms(86, 100), None, True) == []
    sessions = charges.CeilingAlarm()
    full = Standing((ScopeBalance(Scope.SESSION, 100, 90),))
    assert (
        len(sessions.new_alarms(full, "a", True)) == len(sessions.new_alarms(full, "b", True)) == 1
    )


async def test_a_bell_and_a_line_when_a_ceiling_is_nearly_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings = {Scope.DAY: 36 * NANO // 10_000}
    rung: list[int] = []
    async with staged(
        tmp_path, sorry, cloud=remote_script(tokens=1450), terms=BUDGET, ceilings=ceilings
    ) as stage:
        monkeypatch.setattr(stage.app, "bell", lambda: rung.append(1))
        await stage.ask("hello")
        await stage.until(lambda: "% of the ceiling of $0.004 for today is used" in flat(stage))
        assert rung == [1]
        await stage.ask("again")
        assert "gpt-5-mini was not asked" in flat(stage)
        assert rung == [1]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("day 2", slash_commands.SetCeiling(Scope.DAY, 2 * NANO, "2")),
        ("session $0.50", slash_commands.SetCeiling(Scope.SESSION, NANO // 2, "0.50")),
        ("Month none", slash_commands.SetCeiling(Scope.MONTH, None, "")),
        ("day=0", slash_commands.SetCeiling(Scope.DAY, 0, "0")),
        ("policy once", slash_commands.SetPolicy(Policy.ONCE)),
        ("policy never here", slash_commands.SetPolicy(Policy.NEVER, True)),
        ("release", slash_commands.Release()),
    ],
)
def test_what_budget_understands(words: str, order: slash_commands.BudgetCommand) -> None:
    assert slash_commands.parse_budget(words) == order


@pytest.mark.parametrize("words", ["2", "day", "day two", "day -1", "year 2", "policy x", "run 1"])
def test_what_budget_refuses_is_a_sentence(words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        slash_commands.parse_budget(words)
    assert refused.value.message.endswith(".")
    assert refused.value.hint


async def test_a_ceiling_is_set_for_good_and_at_once(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("# mine\nmode = 'auto'\n")
    async with staged(tmp_path, sorry, cloud=remote_script(), ceilings={}) as stage:
        await stage.ask("hello")
        assert "the cloud is off" in flat(stage)
        await stage.send("/budget day 2")
        await stage.until(lambda: "At most $2.00 for today from now on." in flat(stage))
        assert "# mine" in config.read_text()
        assert load_settings(config, {}).budget.ceilings == {Scope.DAY: 2 * NANO}
        await stage.send("again")
        await stage.until(lambda: "Ask gpt-5-mini?" in stage.see())
        await stage.press("escape")
        await stage.answered()
        await stage.send("/budget day none")
        await stage.until(lambda: "so the cloud is off" in flat(stage))
        assert load_settings(config, {}).budget.ceilings == {}
        await stage.ask("once more")
        assert "Ask gpt-5-mini?" not in stage.see()


async def test_a_ceiling_of_the_environment_stays_whatever_is_set(tmp_path: Path) -> None:
    bounds = {Scope.DAY: (NANO // 100, "BATON_BUDGET__DAY")}
    async with staged(tmp_path, cloud=remote_script(), ceilings={}, bounds=bounds) as stage:
        await stage.send("/budget day 5")
        await stage.until(lambda: "BATON_BUDGET__DAY sets $0.01 where" in flat(stage))
        assert "At most $5.00" not in flat(stage)
        assert load_settings(tmp_path / "config.toml", {}).budget.ceilings == {Scope.DAY: 5 * NANO}
        [today, _] = (await stage.services.orchestra.standing()).rooms
        assert today.ceiling == NANO // 100


async def test_a_ceiling_counts_in_this_window_at_once(tmp_path: Path) -> None:
    async with staged(tmp_path, cloud=remote_script(), ceilings={}) as stage:
        await stage.send("/budget day 1")
        await stage.until(lambda: "At most $1.00 for today from now on." in flat(stage))
        assert stage.services.orchestra.terms.ceilings == {Scope.DAY: NANO}
        assert "so the cloud is off" not in flat(stage)
        assert "When to spend:" in flat(stage)


async def test_a_wrong_ceiling_changes_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path, cloud=remote_script()) as stage:
        await stage.send("/budget day lots")
        await stage.until(lambda: "'lots' is not an amount of US dollars." in flat(stage))
        assert not (tmp_path / "config.toml").exists()
        assert stage.services.orchestra.terms.ceilings == {Scope.DAY: 2 * NANO}


async def test_when_to_spend_can_be_set_everywhere_and_here(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await stage.send("/budget policy budget")
        await stage.until(lambda: "within the ceilings, without asking" in flat(stage))
        assert load_settings(tmp_path / "config.toml", {}).budget.policy is Policy.BUDGET
        await stage.ask("hello")
        assert "From far away." in stage.see()
        await stage.send("/budget policy never here")
        await stage.until(lambda: "in this conversation: never" in flat(stage))
        await stage.ask("again")
        assert "the policy is never to spend" in flat(stage)


async def test_offline_is_a_badge_that_can_be_switched(tmp_path: Path) -> None:
    heard: list[bool] = []
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        stage.services.orchestra._on_offline = heard.append
        await stage.send("/offline on")
        assert " offline " in header(stage)
        await stage.ask("hello")
        assert "Ask gpt-5-mini?" not in stage.see()
        await stage.send("/offline")
        assert "offline" not in header(stage)
        assert heard == [True, False]
        await stage.send("again")
        await stage.until(lambda: "Ask gpt-5-mini?" in stage.see())


async def money_screen(stage: Stage) -> None:
    await stage.send("/budget")
    await stage.until(lambda: type(stage.app.screen).__name__ == "MoneyScreen")
    await stage.until(lambda: "When to spend" in stage.see())


async def test_the_money_screen_tells_scopes_workers_and_purposes(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script(), terms=BUDGET) as stage:
        await stage.ask("hello")
        await money_screen(stage)
        seen = flat(stage)
        assert "This conversation" in seen
        assert "$0.002 of $2.00" in seen
        assert "charged $0.002" in seen
        assert "by worker, with tokens gpt 1 call $0.002 400 in, 800 out" in seen
        assert "By purpose answer 1 call" in seen
        assert "release" not in stage.see().splitlines()[-1], "there is nothing to release"
        await stage.press("escape")
        assert stage.app.screen is stage.chat


async def test_an_unconfirmed_charge_is_released_after_asking(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=broken, terms=BUDGET) as stage:
        await stage.ask("hello")
        await money_screen(stage)
        await stage.until(lambda: "1 unconfirmed charge, $0.004" in flat(stage))
        await stage.press("r")
        await stage.until(lambda: "Release what was not charged?" in stage.see())
        await stage.press("enter")  # the cursor is on leaving it
        await stage.until(lambda: type(stage.app.screen).__name__ == "MoneyScreen")
        assert len(await stage.services.ledger.unconfirmed()) == 1
        await stage.press("r")
        await stage.until(lambda: "Release what was not charged?" in stage.see())
        await stage.press("right", "enter")
        await stage.until(lambda: "released $0.004" in stage.see())
        assert await stage.services.ledger.unconfirmed() == []
        await stage.press("escape")
        await stage.until(lambda: "unconfirmed" not in header(stage))
        await stage.until(lambda: "did not confirm" not in flat(stage))
        await stage.press("tab", "w")
        await stage.shows("Held $0.005, charged $0.00.")
        assert "did not confirm" not in flat(stage)
        await stage.press("escape")
        stage.chat.composer.prompt.focus()
        await stage.send("/budget release")
        await stage.until(lambda: "No charge is unconfirmed" in flat(stage))


async def test_the_pace_is_typed_or_chosen_on_the_screen(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script(), size=(100, 30)) as stage:
        await stage.send("/budget pace best")
        await stage.until(lambda: "wherever help gains anything" in flat(stage))
        assert load_settings(stage.services.config, {}).budget.pace is SpendingStyle.BEST
        await money_screen(stage)
        assert "Pace: best, wherever" in flat(stage)
        await stage.press("p")
        await stage.until(lambda: "Pace: frugal, only where help gains much" in flat(stage))
        assert load_settings(stage.services.config, {}).budget.pace is SpendingStyle.FRUGAL
        assert stage.services.orchestra.services.pacer.thrift is SpendingStyle.FRUGAL
        await stage.press("escape")
        await stage.send("/budget pace fast")
        await stage.until(lambda: "There is no pace 'fast'" in flat(stage))
        await stage.send("/budget pace")
        await stage.until(lambda: "Which pace? There are: frugal" in flat(stage))


async def test_a_freeze_is_told_and_lifted(tmp_path: Path) -> None:
    def dear(request: Request) -> Script:
        return remote_script(tokens=50_000)(request)

    async with staged(tmp_path, sorry, cloud=dear, terms=BUDGET) as stage:
        await stage.ask("hello")
        await stage.until(lambda: "cloud frozen" in header(stage))
        assert OVERCHARGE in flat(stage)
        assert "That froze the cloud: compare your provider's bill" in flat(stage)
        await stage.chat.conversation.open(stage.chat.context.chat.id)
        await stage.shows(OVERCHARGE)
        await money_screen(stage)
        assert "The cloud is frozen" in flat(stage)
        await stage.press("t")
        await stage.until(lambda: "Lift the freeze?" in stage.see())
        await stage.press("right", "enter")
        await stage.until(lambda: "The cloud is frozen" not in flat(stage))
        await stage.press("escape")
        await stage.until(lambda: "cloud frozen" not in header(stage))


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["answer", "another conversation", "another screen"])
async def test_a_wrong_charge_is_shown_at_once_wherever_the_person_is(
    tmp_path: Path, place: str
) -> None:
    here, seen = asyncio.Event(), asyncio.Event()
    rung: list[int] = []

    def dear(request: Request) -> Script:
        yield from until(here.is_set)
        yield from remote_script(tokens=50_000)(request)

    def then(request: Request) -> Script:
        yield from until(seen.is_set)
        yield Text("Checked.")

    plan = Plan((Step("gpt", "Draft it."), Step("small", "Check it.", ("1",))), (2,))
    async with staged(tmp_path, then, cloud=dear, terms=BUDGET) as stage:
        stage.app.bell = lambda: rung.append(1)  # type: ignore[method-assign]
        await play(stage, plan, wait=False)
        await stage.until(lambda: "working" in stage.see())
        if place == "another conversation":
            await stage.press("ctrl+n")
            await stage.until(lambda: not stage.chat.transcript.turns)
        elif place == "another screen":
            await stage.press("ctrl+l")
            await stage.until(lambda: isinstance(stage.app.screen, ModelsScreen))
        here.set()
        await stage.shows("gpt-5-mini charged $0.1001 for a call that was to cost at most")
        assert stage.chat.queue.is_busy
        assert rung
        seen.set()
        await stage.answered()
        assert flat(stage).count("charged $0.1001") == 1


async def test_what_left_is_shown_byte_for_byte(tmp_path: Path) -> None:
    body = '{"input": "Olá \\u001b[2J ' + "x" * 300 + ' end"}\x1b[2J\u202e'
    async with staged(tmp_path, cloud=remote_script()) as stage:
        await send_body(stage, body.encode())
        await stage.send("/egress")
        await stage.until(lambda: "1 request" in stage.see())
        assert "api.openai.com" in stage.see()
        assert f"gpt · {len(body.encode())} bytes · $0.002 charged" in stage.see()
        await stage.press("enter")
        await stage.until(lambda: "SHA-256" in stage.see())
        shown = "".join(line.strip() for line in stage.see().splitlines())
        assert '{"input": "Olá \\u001b[2J' in shown
        assert "x" * 300 in shown.replace(" ", "")
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        await stage.press("escape", "escape")
        assert stage.app.screen is stage.chat


async def test_why_leads_to_what_its_run_sent(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script(), terms=BUDGET) as stage:
        await stage.ask("hello")
        run = stage.chat.transcript.turns[-1].run
        assert run is not None
        await send_body(stage, b"another run's", "another")
        await send_body(stage, b"this run's", run)
        await stage.press("escape", "w")
        await stage.until(lambda: "Why this way" in stage.see())
        seen = flat(stage)
        assert "Held $0.005, charged $0.002. Sent to api.openai.com: 1,834 bytes (e shows" in seen
        assert "Offered: gpt-5-mini, at most $0.005 · sent" in seen
        await stage.press("k")
        await stage.until(lambda: "I'm sorry" in stage.see())
        assert "Its draft" in stage.see()
        await stage.press("e")
        await stage.until(lambda: "this run's" in stage.see())
        assert "another run's" not in stage.see()


async def test_models_tell_price_and_how_far_a_text_travels(tmp_path: Path) -> None:
    unknown = replace(GPT, price=None)
    for card, words in (
        (GPT, "$0.25 in, $2 out per million tokens"),
        (unknown, "price unknown: not asked until you enter one"),
        (replace(GPT, price=FREE), "costs nothing"),
    ):
        async with staged(tmp_path, cloud=remote_script(), card=card) as stage:
            await stage.press("ctrl+l")
            await stage.until(lambda: "gpt-5-mini" in stage.see() and "cloud" in stage.see())
            await stage.press("down")
            await stage.until(lambda words=words: words in " ".join(stage.see().split()))  # type: ignore[misc]


async def test_what_a_deleted_conversation_sent_is_forgotten_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.conversation.DELETED_SECONDS", 0)
    store = Store.open(None)
    async with staged(tmp_path, sorry, cloud=remote_script(), terms=BUDGET, store=store) as stage:
        for prompt in ("gone", "kept"):
            await stage.press("ctrl+n")
            await stage.until(lambda: not stage.chat.transcript.turns)
            await stage.ask(prompt)
            run = stage.chat.transcript.turns[-1].run
            assert run is not None
            await send_body(stage, prompt.encode(), run)
        gone = next(c.id for c in await store.conversations() if c.title == "gone")
        await store.hide(gone)
        await stage.chat.close()
        sent = await stage.services.ledger.egress()
        assert sorted(one.body or b"-" for one in sent) == [b"-", b"kept"]
        assert all(one.charged for one in sent), "what it cost stays"
        assert [c.title for c in await store.conversations()] == ["kept"]
    await store.aclose()
