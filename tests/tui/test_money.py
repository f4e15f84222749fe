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
from baton.core.plan_types import Plan, Step
from baton.history import Store
from baton.platform.settings import load_settings
from baton.presentation import words as money_words
from baton.tui import slash_commands
from baton.tui.screens.models_screen import ModelsScreen
from support.app_session import GPT, AppSession, execute, open_app, remote_script, sorry, until

Script = Iterable[Chunk | BaseException | float]
BUDGET = {"policy": Policy.BUDGET}
OVERCHARGE = "gpt-5-mini charged $0.1001 for a call that was to cost at most $0.00"


def header(session: AppSession) -> str:
    return session.screen_text().splitlines()[0]


def broken(request: Request) -> Script:
    yield RequestSent("api.openai.com", 900)
    yield Text("half ")
    raise WorkerUnavailable("OpenAI closed the connection.", "Try again.")


async def send_body(session: AppSession, body: bytes, run: str = "run") -> None:
    """Let a call leave, as the gateway would record it."""
    assert GPT.price is not None
    bill = HoldRequest(
        run, "chat", "gpt", "openai", "openai/gpt-5-mini", Purpose.ANSWER, GPT.price, 500, 1000,
        session.services.orchestra.terms.ceilings,
    )  # fmt: skip
    hold = await session.services.ledger.hold(bill)
    await session.services.ledger.sent(hold.call, "api.openai.com", body)
    await session.services.ledger.settle(hold.call, BilledTokens(400, 800))


async def test_money_is_hidden_while_the_cloud_is_off_and_nothing_was_spent(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        await session.ask("hello")
        assert "$" not in header(session)
        await session.send("/budget day 2")
        await session.wait_until(lambda: "$0.00 of $2.00" in header(session))


async def test_the_meter_follows_the_conversation(tmp_path: Path) -> None:
    ceilings = {Scope.SESSION: NANO // 100, Scope.DAY: 2 * NANO}
    async with open_app(
        tmp_path, sorry, cloud=remote_script(), terms=BUDGET, ceilings=ceilings
    ) as session:
        await session.ask("hello")
        await session.wait_until(lambda: "$0.002 of $0.01" in header(session))
        await session.press("ctrl+n")
        await session.wait_until(
            lambda: "$0.00 of $0.01" in header(session) or "of $2.00" in header(session)
        )


async def test_what_is_held_and_unconfirmed_is_shown(tmp_path: Path) -> None:
    def slow(request: Request) -> Script:
        yield RequestSent("api.openai.com", 900)
        yield 0.6
        yield from broken(request)

    async with open_app(tmp_path, sorry, cloud=slow, terms=BUDGET, size=(100, 24)) as session:
        await session.send("hello")
        await session.wait_until(lambda: "$0.004 held" in header(session))
        await session.wait_for_answer()
        await session.wait_until(lambda: "$0.004 unconfirmed" in header(session))
        assert "held" not in header(session)
        warning = "gpt-5-mini did not confirm what a call cost, so $0.004 is charged"
        assert warning in session.screen_line()
        assert "does not show it, /budget release gives it back." in session.screen_line()


def rooms(used: int, ceiling: int | None) -> Standing:
    return Standing((ScopeBalance(Scope.DAY, ceiling, used), ScopeBalance(Scope.MONTH, None, used)))


def test_the_meter_in_words() -> None:
    assert money_words.spending_summary(Standing(())) == ""
    assert money_words.spending_summary(rooms(0, None)) == ""
    assert money_words.spending_summary(rooms(0, 2 * NANO)) == "$0.00 of $2.00"
    assert money_words.spending_summary(rooms(14 * NANO // 100, NANO // 2)) == "$0.14 of $0.50"
    assert money_words.spending_summary(rooms(NANO, None)) == "$1.00 spent · cloud off"
    assert money_words.spending_wordings(rooms(NANO, 2 * NANO)) == ("$1.00 of $2.00", "$1.00/2.00")
    assert money_words.spending_wordings(rooms(NANO, None)) == (
        "$1.00 spent · cloud off",
        "$1.00 spent",
    )
    assert money_words.spending_summary(rooms(NANO, 0)) == "$1.00 spent · cloud off"
    assert (
        money_words.spending_summary(replace(rooms(0, NANO), frozen="Too much.")) == "cloud frozen"
    )


def test_a_ceiling_is_reported_once_at_80_percent_and_once_when_all_is_used() -> None:
    alarm = money_words.CeilingAlarm()
    assert alarm.new_alarms(rooms(79, 100), "a", True) == []
    assert "80 % of the ceiling" in alarm.new_alarms(rooms(80 * NANO, 100 * NANO), "a", True)[0]
    assert alarm.new_alarms(rooms(90, 100), "a", True) == []
    assert "All of the ceiling" in alarm.new_alarms(rooms(100, 100), "a", True)[0]
    assert alarm.new_alarms(rooms(100, 100), "b", True) == []
    old = money_words.CeilingAlarm()
    assert old.new_alarms(rooms(85, 100), None, False) == [], "the header shows what was so before"
    assert old.new_alarms(rooms(86, 100), None, True) == []
    sessions = money_words.CeilingAlarm()
    full = Standing((ScopeBalance(Scope.SESSION, 100, 90),))
    assert (
        len(sessions.new_alarms(full, "a", True)) == len(sessions.new_alarms(full, "b", True)) == 1
    )


async def test_a_bell_and_a_line_when_a_ceiling_is_nearly_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceilings = {Scope.DAY: 36 * NANO // 10_000}
    rung: list[int] = []
    async with open_app(
        tmp_path, sorry, cloud=remote_script(tokens=1450), terms=BUDGET, ceilings=ceilings
    ) as session:
        monkeypatch.setattr(session.app, "bell", lambda: rung.append(1))
        await session.ask("hello")
        await session.wait_until(
            lambda: "% of the ceiling of $0.004 for today is used" in session.screen_line()
        )
        assert rung == [1]
        await session.ask("again")
        assert "gpt-5-mini was not asked" in session.screen_line()
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
    async with open_app(tmp_path, sorry, cloud=remote_script(), ceilings={}) as session:
        await session.ask("hello")
        assert "the cloud is off" in session.screen_line()
        await session.send("/budget day 2")
        await session.wait_until(
            lambda: "At most $2.00 for today from now on." in session.screen_line()
        )
        assert "# mine" in config.read_text()
        assert load_settings(config, {}).budget.ceilings == {Scope.DAY: 2 * NANO}
        await session.send("again")
        await session.wait_until(lambda: "Ask gpt-5-mini?" in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        await session.send("/budget day none")
        await session.wait_until(lambda: "so the cloud is off" in session.screen_line())
        assert load_settings(config, {}).budget.ceilings == {}
        await session.ask("once more")
        assert "Ask gpt-5-mini?" not in session.screen_text()


async def test_a_ceiling_of_the_environment_overrides_what_is_set(tmp_path: Path) -> None:
    bounds = {Scope.DAY: (NANO // 100, "BATON_BUDGET__DAY")}
    async with open_app(tmp_path, cloud=remote_script(), ceilings={}, bounds=bounds) as session:
        await session.send("/budget day 5")
        await session.wait_until(
            lambda: "BATON_BUDGET__DAY sets $0.01 where" in session.screen_line()
        )
        assert "At most $5.00" not in session.screen_line()
        assert load_settings(tmp_path / "config.toml", {}).budget.ceilings == {Scope.DAY: 5 * NANO}
        [today, _] = (await session.services.orchestra.standing()).rooms
        assert today.ceiling == NANO // 100


async def test_a_ceiling_counts_in_this_window_at_once(tmp_path: Path) -> None:
    async with open_app(tmp_path, cloud=remote_script(), ceilings={}) as session:
        await session.send("/budget day 1")
        await session.wait_until(
            lambda: "At most $1.00 for today from now on." in session.screen_line()
        )
        assert session.services.orchestra.terms.ceilings == {Scope.DAY: NANO}
        assert "so the cloud is off" not in session.screen_line()
        assert "When to spend:" in session.screen_line()


async def test_a_wrong_ceiling_changes_nothing(tmp_path: Path) -> None:
    async with open_app(tmp_path, cloud=remote_script()) as session:
        await session.send("/budget day lots")
        await session.wait_until(
            lambda: "'lots' is not an amount of US dollars." in session.screen_line()
        )
        assert not (tmp_path / "config.toml").exists()
        assert session.services.orchestra.terms.ceilings == {Scope.DAY: 2 * NANO}


async def test_when_to_spend_can_be_set_everywhere_and_here(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await session.send("/budget policy budget")
        await session.wait_until(
            lambda: "within the ceilings, without asking" in session.screen_line()
        )
        assert load_settings(tmp_path / "config.toml", {}).budget.policy is Policy.BUDGET
        await session.ask("hello")
        assert "From far away." in session.screen_text()
        await session.send("/budget policy never here")
        await session.wait_until(lambda: "in this conversation: never" in session.screen_line())
        await session.ask("again")
        assert "the policy is never to spend" in session.screen_line()


async def test_offline_is_a_badge_that_can_be_switched(tmp_path: Path) -> None:
    heard: list[bool] = []
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        session.services.orchestra._on_offline = heard.append
        await session.send("/offline on")
        assert " offline " in header(session)
        await session.ask("hello")
        assert "Ask gpt-5-mini?" not in session.screen_text()
        await session.send("/offline")
        assert "offline" not in header(session)
        assert heard == [True, False]
        await session.send("again")
        await session.wait_until(lambda: "Ask gpt-5-mini?" in session.screen_text())


async def money_screen(session: AppSession) -> None:
    await session.send("/budget")
    await session.wait_until(lambda: session.screen_name == "MoneyScreen")
    await session.wait_until(lambda: "When to spend" in session.screen_text())


async def test_the_money_screen_shows_scopes_workers_and_purposes(tmp_path: Path) -> None:
    cloud = remote_script()
    async with open_app(tmp_path, sorry, cloud=cloud, terms=BUDGET, size=(80, 44)) as session:
        await session.ask("hello")
        await money_screen(session)
        seen = session.screen_line()
        assert "This conversation" in seen
        assert "$0.002 of $2.00" in seen
        assert "charged $0.002" in seen
        assert "by worker, with tokens gpt 1 call $0.002 400 in, 800 out" in seen
        assert "By purpose answer 1 call" in seen
        assert "The last 30 days" in seen
        assert "█ gpt-5-mini $0.002" in seen
        assert "release" not in session.screen_text().splitlines()[-1], (
            "there is nothing to release"
        )
        await session.press("escape")
        assert session.app.screen is session.chat


async def test_an_unconfirmed_charge_is_released_after_asking(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=broken, terms=BUDGET) as session:
        await session.ask("hello")
        await money_screen(session)
        await session.wait_until(lambda: "1 unconfirmed charge, $0.004" in session.screen_line())
        await session.press("r")
        await session.wait_until(lambda: "back to the budget?" in session.screen_text())
        await session.press("enter")  # the cursor is on leaving it
        await session.wait_until(lambda: session.screen_name == "MoneyScreen")
        assert len(await session.services.ledger.unconfirmed()) == 1
        await session.press("r")
        await session.wait_until(lambda: "back to the budget?" in session.screen_text())
        await session.press("right", "enter")
        await session.wait_until(lambda: "released $0.004" in session.screen_text())
        assert await session.services.ledger.unconfirmed() == []
        await session.press("escape")
        await session.wait_until(lambda: "unconfirmed" not in header(session))
        await session.wait_until(lambda: "did not confirm" not in session.screen_line())
        await session.press("tab", "w")
        await session.wait_for_text("Held $0.005, charged $0.00.")
        assert "did not confirm" not in session.screen_line()
        await session.press("escape")
        session.chat.composer.prompt.focus()
        await session.send("/budget release")
        await session.wait_until(lambda: "No charge is unconfirmed" in session.screen_line())


async def test_the_pace_is_typed_or_chosen_on_the_screen(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), size=(100, 30)) as session:
        await session.send("/budget pace best")
        await session.wait_until(lambda: "wherever it helps at all" in session.screen_line())
        assert load_settings(session.services.config, {}).budget.pace is SpendingStyle.BEST
        await money_screen(session)
        assert "Pace: best, wherever" in session.screen_line()
        await session.press("p")
        await session.wait_until(
            lambda: "Pace: frugal, only where help gains much" in session.screen_line()
        )
        assert load_settings(session.services.config, {}).budget.pace is SpendingStyle.FRUGAL
        assert session.services.orchestra.services.pacer.thrift is SpendingStyle.FRUGAL
        await session.press("escape")
        await session.send("/budget pace fast")
        await session.wait_until(lambda: "There is no pace 'fast'" in session.screen_line())


@pytest.mark.parametrize(
    ("words", "now", "keys", "chosen"),
    [
        ("policy", "> ask", ("down",), "budget.policy = once"),
        ("policy", "> ask", ("up",), "budget.policy = never"),
        ("pace", "> balanced", ("down",), "budget.pace = best"),
        ("pace", "> balanced", ("f", "r", "u"), "budget.pace = frugal"),
    ],
)
async def test_what_budget_can_be_set_to_is_chosen_in_the_menu(
    tmp_path: Path, words: str, now: str, keys: tuple[str, ...], chosen: str
) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), size=(100, 30)) as session:
        await session.send(f"/budget {words}")
        await session.wait_until(lambda: now in session.screen_text())
        await session.press(*keys, "enter")
        await session.wait_until(lambda: session.services.config.exists())
        budget = load_settings(session.services.config, {}).budget
        assert chosen in (f"budget.policy = {budget.policy}", f"budget.pace = {budget.pace}")


async def test_letters_and_enter_alone_never_allow_to_spend_unasked(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), size=(100, 30)) as session:
        await session.send("/budget policy")
        await session.wait_until(lambda: "> ask" in session.screen_text())
        await session.press(*"budget", "enter")
        await session.wait_until(lambda: "> budget" in session.screen_text())
        assert session.services.orchestra.terms.policy is Policy.ASK


async def test_the_ceiling_for_a_day_is_set_on_the_money_screen(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), ceilings={}) as session:
        config, terms = session.services.config, session.services.orchestra
        await money_screen(session)
        assert "The cloud is off: no ceiling is set. c sets one for a day." in session.screen_line()
        await session.press("c", *"two", "enter")
        await session.wait_for_text("'two' is not an amount")
        assert not config.exists()
        await session.press(*["backspace"] * 3, *"1.5", "enter")
        await session.wait_for_text("At most $1.50 for today from now on.")
        assert "of $1.50" in session.screen_line()
        assert terms.terms.ceilings == {Scope.DAY: 3 * NANO // 2}
        assert load_settings(config, {}).budget.ceilings == terms.terms.ceilings
        await session.press("c")
        await session.wait_for_text("Enter set it")
        assert "1.5" in session.screen_text(), "the one in force can be changed"
        await session.press(*["backspace"] * 4, *"none", "enter")
        await session.wait_until(lambda: "c sets one for a day." in session.screen_line())
        assert terms.terms.ceilings == {}


async def test_the_money_screen_leads_to_when_money_is_spent(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await money_screen(session)
        await session.press("w")
        await session.wait_for_text("When to spend", "> ask")
        assert session.app.screen is session.chat


async def test_a_freeze_is_reported_and_lifted(tmp_path: Path) -> None:
    def dear(request: Request) -> Script:
        return remote_script(tokens=50_000)(request)

    async with open_app(tmp_path, sorry, cloud=dear, terms=BUDGET) as session:
        await session.ask("hello")
        await session.wait_until(lambda: "cloud frozen" in header(session))
        assert OVERCHARGE in session.screen_line()
        assert "That froze the cloud: compare your provider's bill" in session.screen_line()
        await session.chat.conversation.open(session.chat.context.chat.id)
        await session.wait_for_text(OVERCHARGE)
        await money_screen(session)
        assert "The cloud is frozen" in session.screen_line()
        await session.press("t")
        await session.wait_until(lambda: "Lift the freeze?" in session.screen_text())
        await session.press("right", "enter")
        await session.wait_until(lambda: "The cloud is frozen" not in session.screen_line())
        await session.press("escape")
        await session.wait_until(lambda: "cloud frozen" not in header(session))


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["answer", "another conversation", "another screen"])
async def test_a_wrong_charge_is_shown_at_once_wherever_the_user_is(
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
    async with open_app(tmp_path, then, cloud=dear, terms=BUDGET) as session:
        session.app.bell = lambda: rung.append(1)  # type: ignore[method-assign]
        await execute(session, plan, wait=False)
        await session.wait_until(lambda: "░ asking" in session.screen_text())
        if place == "another conversation":
            await session.press("ctrl+n")
            await session.wait_until(lambda: not session.chat.transcript.turns)
        elif place == "another screen":
            await session.press("ctrl+l")
            await session.wait_until(lambda: isinstance(session.app.screen, ModelsScreen))
        here.set()
        await session.wait_for_text(
            "gpt-5-mini charged $0.1001 for a call that was to cost at most"
        )
        assert session.chat.queue.is_busy
        assert rung
        seen.set()
        await session.wait_for_answer()
        assert session.screen_line().count("charged $0.1001") == 1


async def test_what_left_is_shown_byte_for_byte(tmp_path: Path) -> None:
    body = '{"input": "Olá \\u001b[2J ' + "x" * 300 + ' end"}\x1b[2J\u202e'
    async with open_app(tmp_path, cloud=remote_script()) as session:
        await send_body(session, body.encode())
        await session.send("/egress")
        await session.wait_until(lambda: "1 request" in session.screen_text())
        assert "api.openai.com" in session.screen_text()
        assert f"gpt · {len(body.encode())} bytes · $0.002 charged" in session.screen_text()
        await session.press("enter")
        await session.wait_until(lambda: "SHA-256" in session.screen_text())
        shown = "".join(line.strip() for line in session.screen_text().splitlines())
        assert '{"input": "Olá \\u001b[2J' in shown
        assert "x" * 300 in shown.replace(" ", "")
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        await session.press("escape", "escape")
        assert session.app.screen is session.chat


async def test_why_leads_to_what_its_run_sent(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), terms=BUDGET) as session:
        await session.ask("hello")
        run = session.chat.transcript.turns[-1].run
        assert run is not None
        await send_body(session, b"another run's", "another")
        await send_body(session, b"this run's", run)
        await session.press("escape", "w")
        await session.wait_for_text("[Steps]", "Held $0.005, charged $0.002.")
        assert "gpt-5-mini was approved for at most $0.005." in session.screen_line()
        await session.press("right", "right")
        await session.wait_for_text("1,834 bytes left this machine in all (e shows them).")
        await session.press("right", "right", "k")
        await session.wait_until(lambda: "I'm sorry" in session.screen_text())
        assert "Its draft" in session.screen_text()
        await session.press("e")
        await session.wait_until(lambda: "this run's" in session.screen_text())
        assert "another run's" not in session.screen_text()


async def test_models_show_price_and_how_far_a_text_travels(tmp_path: Path) -> None:
    unknown = replace(GPT, price=None)
    for card, words in (
        (GPT, "$0.25 in, $2 out per million tokens"),
        (unknown, "price unknown: not asked until you enter one"),
        (replace(GPT, price=FREE), "costs nothing"),
    ):
        async with open_app(tmp_path, cloud=remote_script(), card=card) as session:
            await session.press("ctrl+l")
            await session.wait_until(
                lambda: "gpt-5-mini" in session.screen_text() and "cloud" in session.screen_text()
            )
            await session.press("down")
            await session.wait_until(
                lambda words=words: words in session.screen_line()  # type: ignore[misc]
            )


async def test_what_a_deleted_conversation_sent_is_forgotten_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton.tui.chat.conversation.DELETED_SECONDS", 0)
    store = Store(None)
    async with open_app(
        tmp_path, sorry, cloud=remote_script(), terms=BUDGET, store=store
    ) as session:
        for prompt in ("gone", "kept"):
            await session.press("ctrl+n")
            await session.wait_until(lambda: not session.chat.transcript.turns)
            await session.ask(prompt)
            run = session.chat.transcript.turns[-1].run
            assert run is not None
            await send_body(session, prompt.encode(), run)
        gone = next(c.id for c in await store.conversations() if c.title == "gone")
        await store.hide(gone)
        await session.chat.close()
        sent = await session.services.ledger.egress()
        assert sorted(one.body or b"-" for one in sent) == [b"-", b"kept"]
        assert all(one.charged for one in sent), "what it cost stays"
        assert [c.title for c in await store.conversations()] == ["kept"]
    await store.aclose()
