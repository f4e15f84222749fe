"""A conversation that is conducted: how answers are come to, and plans before they are played."""

from __future__ import annotations

import asyncio
import difflib
from typing import TYPE_CHECKING

from textual import work

from baton.core.errors import BatonError
from baton.core.messages import Prompt as Asked
from baton.core.messages import Role
from baton.core.ports import Choice, Question
from baton.core.sanitiser import one_line
from baton.tui.chat.budget_controls import SpendingScreen
from baton.tui.chat.prompt_input import read_mentions
from baton.tui.prompt_queue import ConversationState, QueuedPrompt
from baton.tui.services import AppServices

if TYPE_CHECKING:
    from baton.core.plan.plan import Plan

MODES = {
    "auto": "local first, with help and plans where they are needed",
    "local": "nothing leaves this machine",
    "mini": "never waits for a plan",
    "ultra": "plans, has another worker verify, and repairs once",
}
_SHOWN_MODES = ("mini", "ultra")
"""The modes that say how; how far texts may travel is in the header already."""


class ConductingScreen(SpendingScreen):
    """Lets the person choose the way to an answer, look at a plan first, and go on with one."""

    def __init__(self, desk: AppServices) -> None:
        super().__init__(desk)
        self.strategy = desk.limits.strategy
        self.previewing = False

    def told_way(self) -> tuple[str, ...]:
        """Return what the header says of how answers are come to, where that isn't as usual."""
        mode = self.desk.orchestra.terms.mode
        way = self.strategy or (mode if mode in _SHOWN_MODES else "")
        return one_line(way, 30), "plan first" if self.previewing else ""

    def take_preview(self) -> bool:
        """Tell whether the prompt that is sent now is the one whose plan is to be seen first."""
        if not self.previewing:
            return False
        self.previewing = False
        self.describe()
        return True

    def play_first(self, pending: QueuedPrompt) -> None:
        """Have this played before whatever waits."""
        raise NotImplementedError

    async def ask(self, question: Question, chat: ConversationState | None = None) -> str:
        """Put a question to the person; `chat` is the conversation that it comes from."""
        raise NotImplementedError

    # The way to an answer

    async def action_mode(self, name: str = "") -> None:
        """Choose the mode from here on, or list what there is."""
        orchestra = self.desk.orchestra
        wanted = name.strip().lower()
        if wanted not in MODES:
            known = "; ".join(f"{mode}: {words}" for mode, words in MODES.items())
            said = f"There is no mode {one_line(name, 30)!r}." if wanted else ""
            now = f"The mode is {orchestra.terms.mode}. There are {known}."
            await self.transcript.note(f"{said} {now}".strip(), error=bool(wanted))
            return
        orchestra.change_terms(mode=wanted)
        self.strategy = ""
        if wanted == "local":
            self.keep_here()
        self.describe()
        await self.transcript.note(f"The mode is {wanted} from now on: {MODES[wanted]}.")

    async def action_strategy(self, name: str = "") -> None:
        """Choose the strategy from here on, or list what there is."""
        from baton.core.strategies import STRATEGIES

        workflows = await asyncio.to_thread(
            lambda: sorted(self.desk.orchestra.services.templates())
        )
        wanted = name.strip()
        if wanted == "auto":
            self.strategy = ""
        elif wanted in STRATEGIES or wanted in workflows:
            self.strategy = wanted
        elif wanted:
            near = difflib.get_close_matches(wanted, [*STRATEGIES, *workflows], n=1)
            meant = f"Did you mean {near[0]}?" if near else "/strategy alone lists them."
            said = f"There is no strategy {one_line(wanted, 30)!r}. {meant}"
            await self.transcript.note(said, error=True)
            return
        else:
            known = [f"{key}: {entry.help}" for key, entry in STRATEGIES.items()]
            more = f"\nWorkflows: {', '.join(workflows)}." if workflows else ""
            listed = "\n".join(["auto: As the mode says.", *known])
            now = f"The strategy is {self.strategy or 'auto'}. There are:"
            await self.transcript.note(f"{now}\n{listed}{more}")
            return
        self.describe()
        told = f"{self.strategy}, until /strategy auto" if self.strategy else "as the mode says"
        await self.transcript.note(f"How answers are come to from now on: {told}.")

    @work(group="why")
    async def action_route(self) -> None:
        """Say in a sentence why the selected answer, or the newest, came about as it did."""
        from baton.tui.workflow_text import route_text

        view = self.transcript.selected
        if view is None or view.turn.role is not Role.ASSISTANT:
            answers = [v for v in self.transcript.views if v.turn.role is Role.ASSISTANT]
            view = answers[-1] if answers else None
        run = (await self.story_of(view)) if view is not None else None
        if run is None:
            await self.transcript.note("There is no answer here yet.")
        else:
            await self.transcript.note(route_text(run(), self.roster))

    # Plans

    async def action_plan(self, text: str = "") -> None:
        """Have a prompt's plan shown before anything of it is done: this one's, or the next's."""
        if text.strip():
            files = await asyncio.to_thread(read_mentions, text)
            asked = Asked(text, (*self.composer.pasted, *files))
            self.composer.clear_sent()
            self.previewing = False
            self.describe()
            self.play(asked, preview=True)
            return
        self.previewing = not self.previewing
        self.describe()
        self.footer.say(
            "the next prompt's plan is shown first"
            if self.previewing
            else "the next prompt is played at once"
        )

    async def edit_plan(self, plan: Plan) -> Plan | None:
        """Return a plan changed in the person's own editor, or None where it stays as it was."""
        from baton.core.plan import templates

        text: str | None = templates.format_plan(plan)
        while text is not None and (text := await self.edited(text, "plan.toml")) is not None:
            try:
                return templates.parse_plan(text)
            except BatonError as error:
                if await self.ask(_mistake(error)) != "edit":
                    break
        return None

    def action_go_on(self) -> None:
        """Go on with the selected answer; there is a key for it only where that can be done."""
        self.action_resume()

    @work(group="go_on")
    async def action_resume(self) -> None:
        """Go on with the selected answer, or the newest, after the steps that were done."""
        view = self.transcript.selected
        if view is None or view.turn.run is None or not view.can_go_on:
            self.footer.say("this answer was not interrupted")
            return
        if not view.summary.interruption:  # it was cut at its cap
            self.play_first(QueuedPrompt(self.chat, Asked("Go on."), after=view.turn.id))
            return
        record = await self.desk.store.run(view.turn.run)
        self.play_first(QueuedPrompt(self.chat, Asked(""), again=record.prompt, record=record))


def _mistake(error: BatonError) -> Question:
    """Return the question that tells of a mistake in an edited plan."""
    choices = (Choice("leave", "Leave it"), Choice("edit", "Go on editing"))
    return Question(f"This plan can't be played. {error}", choices, "leave")
