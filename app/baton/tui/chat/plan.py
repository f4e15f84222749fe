"""How answers are made: mode and strategy, plans before they are played, interrupted runs."""

from __future__ import annotations

import asyncio

from baton.core.messages import Prompt, Role
from baton.presentation.chat_texts import find_mode, find_strategy, mode_text, strategy_text
from baton.tui.chat.budget import BudgetController
from baton.tui.chat.context import ChatContext
from baton.tui.chat.conversation import ConversationController
from baton.tui.chat.input import read_mentions
from baton.tui.chat.runs import RunController
from baton.tui.prompt_queue import QueuedPrompt


class PlanController:
    """Lets the person choose how answers are made, see a plan first, and resume a run."""

    def __init__(
        self,
        context: ChatContext,
        *,
        budget: BudgetController,
        conversation: ConversationController,
        runs: RunController,
    ) -> None:
        self._context = context
        self._services = context.services
        self._budget = budget
        self._conversation = conversation
        self._runs = runs

    async def set_mode(self, name: str) -> None:
        """Choose the mode from now on."""
        mode = find_mode(name)
        self._services.orchestra.change_terms(mode=mode)
        if mode == "local":
            self._budget.keep_local()
        self._context.choose_strategy("")
        await self._context.transcript.note(mode_text(mode))

    async def set_strategy(self, name: str) -> None:
        """Choose the strategy from now on."""
        from baton.core.strategies import STRATEGIES

        templates = self._services.orchestra.services.templates
        workflows = await asyncio.to_thread(lambda: sorted(templates()))
        strategy = find_strategy(name, [*STRATEGIES, *workflows])
        self._context.choose_strategy(strategy)
        await self._context.transcript.note(strategy_text(strategy))

    async def explain_route(self) -> None:
        """Say why the selected answer, or the newest, was made as it was."""
        from baton.presentation.run_story import run_story

        context, transcript = self._context, self._context.transcript
        view = transcript.selected
        if view is None or view.turn.role is not Role.ASSISTANT:
            answers = [v for v in transcript.views if v.turn.role is Role.ASSISTANT]
            view = answers[-1] if answers else None
        if view is None:
            await transcript.note("There is no answer here yet.")
        else:
            run = await self._conversation.run_of(view)
            story = run_story(run(), "", context.roster)
            await transcript.note("\n".join(line.text for line in story))

    async def preview(self, text: str = "") -> None:
        """Show the plan of `text`, or of the next prompt, before anything is done."""
        context = self._context
        if text.strip():
            files, missing = await asyncio.to_thread(read_mentions, text)
            prompt = Prompt(text, (*context.composer.pasted, *files))
            context.composer.clear_sent()
            context.set_previewing(False)
            self._runs.play(prompt, preview=True)
            if missing:
                context.footer.say(missing[0].rstrip("."), 12)
            return
        context.set_previewing(not context.is_previewing)
        context.footer.say(
            "the next prompt's plan is shown first"
            if context.is_previewing
            else "the next prompt is answered at once"
        )

    async def resume(self) -> None:
        """Go on with the selected answer, or the newest, after the steps that were done."""
        context, view = self._context, self._context.transcript.selected
        if view is None or view.turn.run is None or not view.can_go_on:
            context.footer.say("this answer was not interrupted")
            return
        if view.summary.interruption:
            record = await self._services.store.runs.get(view.turn.run)
            pending = QueuedPrompt(context.chat, Prompt(""), again=record.prompt, record=record)
        elif view.turn.text.strip():  # it was cut at its cap, or lost
            pending = QueuedPrompt(context.chat, Prompt("Go on."), after=view.turn.id)
        else:
            asked = self._conversation.selected_prompt()
            assert asked is not None
            again = Prompt(asked.text, asked.files)
            pending = QueuedPrompt(context.chat, again, again=asked.id)
        self._runs.play_first(pending)
