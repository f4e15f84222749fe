"""A conversation that may cost money: the meter, the ceilings, offline, and what left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual import work

from baton.core.errors import BatonError, ConfigError
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope, ScopeBalance, SpendingStyle
from baton.core.messages import Card
from baton.core.money import FREE, show_usd
from baton.core.run.policy import check
from baton.presentation import money
from baton.tui.chat.prompt_input import WritingScreen
from baton.tui.screens.overlay import Overlay
from baton.tui.services import AppServices
from baton.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from baton.tui.slash_commands import SetCeiling

NONE_STRONGER = (
    "There is no stronger worker here. A cloud worker can be entered in config.toml "
    "(`baton config edit`) under [[workers]]."
)
CLOUD_OFF = (
    "{name} costs money, and the cloud is off, since no ceiling is set. "
    "/budget day 2 (for example) allows up to $2 a day."
)


class SpendingScreen(WritingScreen):
    """Shows what was spent, and lets the person say how much may be."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self._alarm = money.CeilingAlarm()
        self._spent = False

    def measure(self, spent: bool = False) -> None:
        """Show how money stands; after a call, tell of a ceiling that is nearly used."""
        self._spent = self._spent or spent  # however many looks are begun before one is over
        self._measure()

    @work(exclusive=True, group="measure")
    async def _measure(self) -> None:
        try:
            standing = await self.desk.orchestra.standing(self.chat.id)
        except BatonError as error:
            self.footer.say(str(error), 12)
            return
        spent, self._spent = self._spent, False
        self.header.money = money.spending_summary(standing)
        for line in self._alarm.new_alarms(standing, self.chat.id, spent):
            self.app.bell()
            await self.transcript.note(line)

    @work(group="warn")
    async def warn(self, warnings: Sequence[str], *, is_shown: bool) -> None:
        """Warn of charges: on the screen that is looked at, and here unless an answer shows it."""
        self.app.bell()
        for warning in warnings:
            if not is_shown:
                await self.transcript.note(warning, error=True)
            if isinstance(self.app.screen, Overlay):
                self.app.screen.footer.say(warning, 12)

    def keep_here(self) -> None:
        """Stop what could still leave this machine, after the person forbade that."""
        raise NotImplementedError

    @work(group="budget")
    async def action_budget(self, words: str = "") -> None:
        """Show the money, or change what may be spent."""
        if not words.strip():
            await self._show_money()
            return
        from baton.tui import slash_commands

        match slash_commands.parse_budget(words):
            case slash_commands.SetCeiling() as ceiling:
                await self._set_ceiling(ceiling)
            case slash_commands.SetPolicy(policy=policy, here=here):
                await self._set_policy(policy, here)
            case slash_commands.SetPace(thrift=thrift):
                await self._set_pace(thrift)
                await self.transcript.note(f"Pace of spending from now on: {thrift.description}.")
            case slash_commands.Release():
                await self._show_money(releasing=True)
        self.measure()

    async def _show_money(self, releasing: bool = False) -> None:
        from baton.tui.screens.ledger_screens import MoneyScreen

        policy = None
        if self.chat.id is not None:
            policy = (await self.desk.store.conversation(self.chat.id)).policy
        if releasing and not await self.desk.ledger.unconfirmed():
            await self.transcript.note("No charge is unconfirmed, so there is none to release.")
            return
        screen = MoneyScreen(
            self.desk.orchestra,
            self.desk.ledger,
            self.chat.id,
            self._set_pace,
            policy,
            releasing=releasing,
        )
        self.app.push_screen(screen, self._money_seen)

    def _money_seen(self, _: None) -> None:
        self.measure()
        self.transcript.post_message(Transcript.Changed())  # something may have been released

    async def _set_ceiling(self, order: SetCeiling) -> None:
        orchestra = self.desk.orchestra
        inverse = await self._write({"budget": {order.scope.value: order.text}})
        try:
            await self.desk.ledger.set_ceiling(order.scope, order.amount)
        except BatonError:
            await self._write(inverse)
            raise
        ceilings = dict(orchestra.terms.ceilings)
        ceilings.pop(order.scope, None)
        if order.amount is not None:
            ceilings[order.scope] = order.amount
        orchestra.terms = replace(orchestra.terms, ceilings=ceilings)
        rooms = (await self.desk.ledger.standing(ceilings, "")).rooms
        [room] = [room for room in rooms if room.scope is order.scope]
        await self.transcript.note(_kept(room) if room.variable else self._new_ceiling(order))
        if any(ceilings.values()):
            self.desk.warm_cloud()

    def _new_ceiling(self, order: SetCeiling) -> str:
        """Say what a changed ceiling comes to."""
        session = order.scope is Scope.SESSION
        whose = "each conversation" if session else order.scope.phrase
        said = f"There is no ceiling for {whose} any more."
        if order.amount is not None:
            said = f"At most {show_usd(order.amount)} for {whose} from now on."
        terms = self.desk.orchestra.terms
        if not any(terms.ceilings.values()):
            return f"{said} No ceiling is above $0, so the cloud is off."
        return f"{said} When to spend: {money.POLICY_NAMES[terms.policy]} (/budget policy)."

    async def _set_policy(self, policy: Policy, here: bool) -> None:
        orchestra, words = self.desk.orchestra, money.POLICY_NAMES[policy]
        if policy is Policy.NEVER:
            self.keep_here()  # a run goes on under the policy with which it began
        if here:
            if self.chat.id is None:
                raise ConfigError(
                    "There is no conversation yet.", "Send a prompt first, or leave out `here`."
                )
            await self.desk.store.allow(self.chat.id, policy)
            await self.transcript.note(f"When to spend in this conversation: {words}.")
            return
        await self._write({"budget": {"policy": policy.value}})
        orchestra.terms = replace(orchestra.terms, policy=policy)
        if self.chat.id is not None:
            await self.desk.store.allow(self.chat.id, None)
        await self.transcript.note(f"When to spend from now on: {words}.")

    async def _set_pace(self, thrift: SpendingStyle) -> None:
        await self._write({"budget": {"pace": thrift.value}})
        self.desk.orchestra.pacer.thrift = thrift

    async def _write(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change the settings' file; return what takes that back."""
        from baton.platform.settings import write_settings

        return await asyncio.to_thread(write_settings, self.desk.config, changes)

    async def action_offline(self, state: str = "") -> None:
        """Connect to nothing but this machine, or lift that again."""
        orchestra = self.desk.orchestra
        offline = not orchestra.terms.offline
        if state.strip():
            offline = state.strip().lower() not in ("off", "no")
        orchestra.go_offline(offline)
        if offline:
            self.keep_here()
        self.describe()
        await self.transcript.note(
            "Baton is offline: it connects to nothing but this machine, until /offline off."
            if offline
            else "Baton may connect again. What leaves is still asked about, as you set it."
        )

    async def action_private(self, state: str = "on") -> None:
        """Keep the conversation on this machine, or lift that again."""
        await super().action_private(state)
        if self.chat.label is Label.LOCAL:
            self.keep_here()

    def action_egress(self) -> None:
        """Show everything that left this machine."""
        from baton.tui.screens.ledger_screens import EgressScreen

        self.app.push_screen(EgressScreen(self.desk.ledger))

    # A stronger worker

    async def stronger(self, worker: str) -> Card | str:
        """Return who could be asked after that worker, or the sentence that says why nobody."""
        orchestra = self.desk.orchestra
        if worker not in self.roster:
            return NONE_STRONGER
        mine = orchestra.worker(worker).card
        label = Label.LOCAL if Label.LOCAL in self._labels() else self.chat.label
        if (card := orchestra.stronger(worker, label)) is not None:
            free = not card.uses_gateway or (card.price or FREE).is_free
            if free or (await orchestra.standing(self.chat.id)).is_cloud_on:
                return card
            return CLOUD_OFF.format(name=card.name)
        if mine.uses_gateway:
            return f"{mine.name} is not on this machine; Baton knows of no stronger worker."
        afar = [card for card in orchestra.roster if card.uses_gateway]
        return self._refusal(afar[0]) if afar else NONE_STRONGER

    def _labels(self) -> tuple[Label, Label]:
        return self.chat.label, self.desk.limits.label

    def _refusal(self, card: Card) -> str:
        """Say why a worker elsewhere may not be asked, and what would change that."""
        if self.desk.limits.label is Label.LOCAL:
            return f"Baton was opened with --private, so {card.name} is not asked."
        if not self.chat.label.allows(card.privacy):
            return (
                f"This conversation is private, so {card.name} is not asked. /private off lifts it."
            )
        if self.desk.orchestra.terms.offline and card.remote:
            return f"Baton is offline, so {card.name} is not asked. /offline off lifts that."
        try:
            check(card, self.chat.label, self.desk.orchestra.terms)
        except BatonError as error:
            return str(error)
        return NONE_STRONGER


def _kept(room: ScopeBalance) -> str:
    """Say that the environment's ceiling is in force, not the settings'."""
    return (
        f"It is in your settings, but {room.variable} sets {show_usd(room.ceiling or 0)} where this"
        " Baton was started, and that stays."
    )
