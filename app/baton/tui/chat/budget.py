"""Money and privacy on the chat screen: the meter, ceilings, offline, private, what was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from baton.core.errors import BatonError, ConfigError
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.permissions import check
from baton.presentation.chat_texts import is_on, offline_text, private_text
from baton.presentation.words import POLICY_NAMES, CeilingAlarm
from baton.tui import slash_commands
from baton.tui.chat.context import ChatContext
from baton.tui.chat.downloads import DownloadController
from baton.tui.chat.questions import QuestionController
from baton.tui.widgets.transcript import Transcript

NONE_STRONGER = "There is no stronger worker here. /connect sets a cloud provider up, or a server."
CLOUD_OFF = (
    "{name} costs money, and the cloud is off, since no ceiling is set. "
    "/budget day 2 (for example) allows up to $2 a day."
)


class BudgetController:
    """Shows what was spent, and changes what may be spent and what may leave this machine."""

    def __init__(
        self, context: ChatContext, questions: QuestionController, downloads: DownloadController
    ) -> None:
        self._context = context
        self._services = context.services
        self._questions = questions
        self._downloads = downloads
        self._alarm = CeilingAlarm()
        self._has_spent = False

    # The meter

    def measure(self, has_spent: bool = False) -> None:
        """Show the money in the header; after a call, warn of a ceiling that is nearly used."""
        # Kept, since the next measurement may cancel this one before it ends.
        self._has_spent = self._has_spent or has_spent
        self._context.start(self._measure, "measure", exclusive=True)

    async def _measure(self) -> None:
        context = self._context
        try:
            standing = await self._services.orchestra.standing(context.chat.id)
        except BatonError as error:
            context.footer.say(str(error), 12)
            return
        has_spent, self._has_spent = self._has_spent, False
        context.show_money(standing)
        for line in self._alarm.new_alarms(standing, context.chat.id, has_spent):
            context.screen.app.bell()
            await context.transcript.note(line)

    def warn(self, warnings: Sequence[str], *, is_shown: bool) -> None:
        """Warn of charges on the screen above, and here unless an answer shows it."""
        self._context.start(partial(self._warn, warnings, is_shown), "warn")

    async def _warn(self, warnings: Sequence[str], is_shown: bool) -> None:
        self._context.screen.app.bell()
        for warning in warnings:
            if not is_shown:
                await self._context.transcript.note(warning, error=True)
            self._context.say_above(warning, 12)

    # What may be spent

    async def run_command(self, words: str = "") -> None:
        """Show the money, or change what may be spent."""
        if not words.strip():
            await self._show_money()
            return
        match slash_commands.parse_budget(words):
            case slash_commands.SetCeiling() as ceiling:
                await self._note(await self._set_ceiling(ceiling))
            case slash_commands.SetPolicy(policy=policy, here=here):
                await self._set_policy(policy, here)
            case slash_commands.SetPace(thrift=thrift):
                await self._set_pace(thrift)
                await self._note(f"Pace of spending from now on: {thrift.description}.")
            case slash_commands.Release():
                await self._show_money(releasing=True)
        self.measure()

    async def connect(self, target: str = "") -> None:
        """Set up a provider, its key, and a ceiling if the user names one."""
        from baton.tui.screens.connect_screen import ConnectScreen

        services = self._services
        ceiling = services.orchestra.terms.ceilings.get(Scope.DAY)
        screen = ConnectScreen(services.connect, ceiling, target)
        done = await self._context.screen.app.push_screen_wait(screen)
        if done is None:
            return
        await self._note(done.line)
        if done.ceiling:
            await self.run_command(f"day {done.ceiling}")
        else:
            self.measure()

    async def _note(self, text: str) -> None:
        await self._context.transcript.note(text)

    async def _show_money(self, releasing: bool = False) -> None:
        from baton.tui.screens.money_screen import MoneyScreen

        services, conversation, policy = self._services, self._context.chat.id, None
        if conversation is not None:
            policy = (await services.store.conversation(conversation)).policy
        if releasing and not await services.ledger.unconfirmed():
            await self._note("No charge is unconfirmed, so there is none to release.")
            return
        screen = MoneyScreen(
            services.orchestra,
            services.ledger,
            conversation,
            policy,
            set_ceiling=self._set_ceiling,
            set_pace=self._set_pace,
            graded=services.store.feedback.outcomes,
            releasing=releasing,
        )
        self._context.screen.app.push_screen(screen, self._refresh)

    def _refresh(self, to_choose: str | None) -> None:
        self.measure()
        if to_choose:
            screen = self._context.screen
            screen.call_later(screen.run_action, f"budget({to_choose!r})")
        # A charge may have been released, which the answers show.
        self._context.transcript.post_message(Transcript.Changed())

    async def _set_ceiling(self, command: slash_commands.SetCeiling) -> str:
        """Set a ceiling, and return the sentence that says what it means."""
        orchestra, ledger = self._services.orchestra, self._services.ledger
        inverse = await self._write({"budget": {command.scope.value: command.text}})
        try:
            await ledger.set_ceiling(command.scope, command.amount)
        except BatonError:
            await self._write(inverse)
            raise
        ceilings = dict(orchestra.terms.ceilings)
        ceilings.pop(command.scope, None)
        if command.amount is not None:
            ceilings[command.scope] = command.amount
        orchestra.change_terms(ceilings=ceilings)
        rooms = (await ledger.standing(ceilings, "")).rooms
        [room] = [room for room in rooms if room.scope is command.scope]
        if any(ceilings.values()):
            self._services.warm_cloud()
        if room.variable:
            return (
                f"It is in your settings, but {room.variable} sets {show_usd(room.ceiling or 0)}"
                " where this Baton was started, and that stays."
            )
        return self._describe_ceiling(command)

    def _describe_ceiling(self, command: slash_commands.SetCeiling) -> str:
        """Say what a changed ceiling means."""
        session = command.scope is Scope.SESSION
        whose = "each conversation" if session else command.scope.phrase
        sentence = f"There is no ceiling for {whose} any more."
        if command.amount is not None:
            sentence = f"At most {show_usd(command.amount)} for {whose} from now on."
        terms = self._services.orchestra.terms
        if not any(terms.ceilings.values()):
            return f"{sentence} No ceiling is above $0, so the cloud is off."
        return f"{sentence} When to spend: {POLICY_NAMES[terms.policy]} (/budget policy)."

    async def _set_policy(self, policy: Policy, here: bool) -> None:
        orchestra, store = self._services.orchestra, self._services.store
        conversation, words = self._context.chat.id, POLICY_NAMES[policy]
        if policy is Policy.NEVER:
            self.keep_local()  # a run continues under the policy with which it began
        if here:
            if conversation is None:
                raise ConfigError(
                    "There is no conversation yet.", "Send a prompt first, or leave out `here`."
                )
            await store.allow(conversation, policy)
            await self._note(f"When to spend in this conversation: {words}.")
            return
        await self._write({"budget": {"policy": policy.value}})
        orchestra.change_terms(policy=policy)
        if conversation is not None:
            await store.allow(conversation, None)
        await self._note(f"When to spend from now on: {words}.")

    async def _set_pace(self, thrift: SpendingStyle) -> None:
        await self._write({"budget": {"pace": thrift.value}})
        self._services.orchestra.services.pacer.thrift = thrift

    async def _write(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change the settings file, and return the changes that undo it."""
        from baton.platform.settings import write_settings

        return await asyncio.to_thread(write_settings, self._services.config, changes)

    # What may leave this machine

    async def set_offline(self, state: str = "") -> None:
        """Connect to nothing but this machine, or lift that; "" changes what is set."""
        orchestra = self._services.orchestra
        before = orchestra.terms.offline
        offline = is_on(state) if state.strip() else not before
        orchestra.go_offline(offline)
        if offline:
            self.keep_local()
        self._context.show_header()
        await self._note(offline_text(offline, orchestra.terms.policy))
        if offline and not before:
            await self._downloads.queue.stop()
        elif before and not offline:
            self._downloads.resume()

    async def set_private(self, state: str = "on") -> None:
        """Keep the conversation on this machine, or lift that again."""
        chat, private = self._context.chat, is_on(state)
        label = Label.LOCAL if private else Label.CLOUD
        if chat.id is not None:
            await self._services.store.relabel(chat.id, label)
        chat.label = label
        self._context.show_header()
        await self._note(private_text(private))
        if private:
            self.keep_local()

    def keep_local(self) -> None:
        """Stop what could still leave this machine, after the user forbade that."""
        queue = self._context.queue
        if self._questions.decline_offer() or queue.current is None:
            return
        run = queue.current.view
        if run.routed is None or run.draft or run.planning or run.routed.where != "local":
            queue.stop()  # something of it could still leave this machine

    def show_egress(self) -> None:
        """Show everything that left this machine."""
        from baton.tui.screens.traffic_screens import EgressScreen

        self._context.screen.app.push_screen(EgressScreen(self._services.ledger))

    # A stronger worker

    async def stronger_worker(self, worker: str) -> Card | str:
        """Return the worker to ask after that one, or the sentence that says why there is none."""
        orchestra, chat = self._services.orchestra, self._context.chat
        if worker not in self._context.roster:
            return NONE_STRONGER
        weaker = orchestra.worker(worker).card
        is_private = Label.LOCAL in (chat.label, self._services.limits.label)
        card = orchestra.stronger(worker, Label.LOCAL if is_private else chat.label)
        if card is not None:
            is_free = card.is_free
            if is_free or (await orchestra.standing(chat.id)).is_cloud_on:
                return card
            return CLOUD_OFF.format(name=card.name)
        if not weaker.is_local:
            return f"{weaker.name} is not on this machine; Baton knows of no stronger worker."
        remote = [card for card in orchestra.roster if not (card.is_local or card.is_tool)]
        return self._refusal(remote[0]) if remote else NONE_STRONGER

    def _refusal(self, card: Card) -> str:
        """Say why a remote worker may not be asked, and what would change that."""
        label, terms = self._context.chat.label, self._services.orchestra.terms
        if self._services.limits.label is Label.LOCAL:
            return f"Baton was opened with --private, so {card.name} is not asked."
        if not label.allows(card.privacy):
            return (
                f"This conversation is private, so {card.name} is not asked. /private off lifts it."
            )
        if terms.offline and card.needs_network:
            return f"Baton is offline, so {card.name} is not asked. /offline off lifts that."
        try:
            check(card, label, terms)
        except BatonError as error:
            return str(error)
        return NONE_STRONGER
