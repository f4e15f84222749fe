"""What `baton --plain` works with: the conversation, and prompts run line by line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from baton.cli.output import Output
from baton.cli.plan_renderer import plan_text
from baton.cli.prompt_run import TerminalAsker, TextRenderer
from baton.core.errors import BatonError, ConfigError
from baton.core.history_types import RunRecord, Signal
from baton.core.labels import strictest
from baton.core.messages import MENTION_SIGNS, Prompt, Role, TurnStatus
from baton.core.money import show_usd
from baton.core.permissions import PromptLimits
from baton.core.ports import Ask, ConversationPosition, Question
from baton.core.run.run import Run
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.presentation.answers import AnswerSummary, summarise_answer
from baton.presentation.run_story import CardsById, answer_author, worker_place
from baton.presentation.words import CeilingAlarm, file_text, join_words

if TYPE_CHECKING:
    from baton.compose import Baton

ANSWER_MARK = "Baton: "
PROMPT_MARK = "You: "

NO_ANSWER = "There is no answer here yet."

LATE_SECONDS = 1.0
"""A Ctrl+C so soon after an answer's end was meant for the answer."""


class PlainSession:
    """A chat that only ever adds lines: its conversation, who answers, and the run of a prompt.

    `conversation` is None before its first prompt is stored; `worker` None is the default one.
    `remember` lets the user bring a text back that was not sent, and returns whether it can.
    `left` is done once they leave.
    """

    def __init__(
        self,
        baton: Baton,
        output: Output,
        limits: PromptLimits,
        *,
        worker: str | None,
        remember: Callable[[str], bool],
    ) -> None:
        self.baton = baton
        self.orchestra = baton.orchestra
        self.store = baton.store
        self.output = output
        self.limits = limits
        self.worker = worker
        self.conversation: str | None = None
        self.title = ""
        self.label = limits.label
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._remember = remember
        self._alarm = CeilingAlarm()
        self._has_draft = False
        self._run: Run | None = None
        self._is_program_running = False
        self._ended = -LATE_SECONDS

    def say(self, text: str) -> None:
        """Add a line, or several."""
        self.output.end_line()
        self.output.write(f"{text}\n")

    def complain(self, error: BatonError) -> None:
        """Say what went wrong, and what to do."""
        self.output.end_line()
        self.output.warn(f"Error: {error}")

    def leave(self) -> None:
        """End the chat once what runs is stopped; what was written is kept."""
        if not self.left.done():
            self.left.set_result(None)
        if self._run is not None:
            self._run.cancel()

    def interrupt(self) -> None:
        """Stop the answer that is being written; leave if there is none.

        A program at the terminal has heard the same Ctrl+C.
        """
        if self._run is not None:
            self._run.cancel()
        elif not self._is_program_running and time.monotonic() - self._ended > LATE_SECONDS:
            self.leave()

    async def wait_for_program(self, end: Awaitable[object]) -> None:
        """Leave the terminal to a program until it ends."""
        self._is_program_running = True
        try:
            await end
        finally:
            self._is_program_running = False

    @property
    def roster(self) -> CardsById:
        """The workers that can be asked, by their ids."""
        return {card.id: card for card in self.orchestra.roster}

    @property
    def answering_worker(self) -> str:
        """Who answers the next prompt."""
        return self.worker or self.orchestra.default

    # The conversation

    async def open(self, conversation: str | None) -> None:
        """Continue a conversation, and show its last turns; None begins a new one."""
        self.conversation, self.title, self.label = None, "", self.limits.label
        if conversation is not None:
            await self._show_last_turns(conversation)
        draft = (await self.store.draft(conversation or "")).strip()
        self._has_draft = bool(draft)
        if draft:
            way = ", the Up key brings it back" if self._remember(draft) else ""
            self.say(f"Not sent yet{way}: {draft}")

    async def _show_last_turns(self, conversation: str) -> None:
        await self._enter(conversation)
        turns = await self.store.thread(conversation)
        count = sum(turn.role is Role.USER for turn in turns)
        self.say(f"Continuing \u201c{self.title}\u201d, prompts so far: {count}. The last turns:")
        for turn in turns[-2:]:
            mark = PROMPT_MARK if turn.role is Role.USER else ANSWER_MARK
            self.say(f"{mark}{turn.text}")

    async def _enter(self, conversation: str) -> None:
        stored = await self.store.conversation(conversation)
        self.conversation, self.label = stored.id, stored.label
        self.title = one_line(stored.title, 60)

    async def last_run(self) -> RunRecord:
        """Return the newest run of this conversation. Raises ConfigError."""
        last = await self.store.runs.last(self.conversation) if self.conversation else None
        if last is None:
            raise ConfigError(NO_ANSWER)
        return last

    # Prompts

    async def answer(self, text: str, *, preview: bool = False) -> None:
        """Answer a prompt, or show its plan first; one that can't be stored stays as a draft."""
        begun, draft_of = False, self.conversation or ""
        try:
            prompt = await asyncio.to_thread(self._with_files, text)
            place = ConversationPosition(self.conversation)
            start = partial(self.orchestra.run, prompt, place, self._prompt_limits(preview))
            begun = await self.follow(lambda ask: start(ask, worker=self.worker))
        except BatonError as error:
            self.complain(error)
        if not begun:
            await self.keep_draft(text)
        elif self._has_draft:
            self._has_draft = False
            await self.store.save_draft(draft_of, "")

    async def answer_again(self) -> None:
        """Answer the newest prompt once more, as a new version. Raises ConfigError."""
        turns = await self.store.thread(self.conversation) if self.conversation else ()
        asked = next((turn for turn in reversed(turns) if turn.role is Role.USER), None)
        if asked is None:
            raise ConfigError(NO_ANSWER)
        prompt, limits = Prompt(asked.text, asked.files), self._prompt_limits()
        place = ConversationPosition(self.conversation, again=asked.id)
        if turns[-1].status is TurnStatus.DONE:
            await self.store.feedback.add_signal(turns[-1].id, Signal.AGAIN)
        await self.follow(
            lambda ask: self.orchestra.run(prompt, place, limits, ask, worker=self.worker)
        )

    async def keep_draft(self, text: str) -> None:
        """Keep what was not sent for when this conversation, or a new one, is opened again."""
        if text.strip():
            self._has_draft = True
            await self.store.save_draft(self.conversation or "", text)

    def _with_files(self, text: str) -> Prompt:
        """Return a prompt with the files that it names."""
        if not any(sign in text for sign in MENTION_SIGNS):
            return Prompt(text)
        from baton.workers import find_mentions, read_attachment

        mentions = find_mentions(text)
        files = tuple(map(read_attachment, mentions.files))
        for file in files:
            self.output.notify(f"With {file_text(file)}.")
        for sentence in mentions.missing:
            self.output.warn(sentence)
        return Prompt(text, files)

    def _prompt_limits(self, preview: bool = False) -> PromptLimits:
        label = strictest([self.limits.label, self.label])
        return replace(self.limits, label=label, preview=preview)

    async def resume(self, record: RunRecord) -> None:
        """Continue an interrupted run."""
        limits = replace(self._prompt_limits(), strategy="")
        await self.follow(lambda ask: self.orchestra.resume(record, limits, ask))

    async def follow(self, begin: Callable[[Ask], Run]) -> bool:
        """Write a run's answer as it comes, and how it ended; return whether it was stored."""
        renderer, view = TextRenderer(self.output, opening=ANSWER_MARK), RunView()
        self.output.show_status("")  # the waiting begins
        self._run = begin(TerminalAsker(self.output, plan_question=_plan_question))
        try:
            async with self._run as run:
                async for event in run:
                    view = view.apply(event)
                    renderer.show_event(event, view)
        finally:
            self._run, self._ended = None, time.monotonic()
            renderer.finish(view)
        if view.started is not None:
            await self._enter(view.started.conversation)
        await self._report(view)
        return view.started is not None

    async def _report(self, view: RunView) -> None:
        """Say in one line who answered and what is to be known of it; or why there is no answer."""
        summary = summarise_answer(view, self.roster)
        doubts = summary.doubts if self.baton.settings.warnings else ()
        if view.failure is not None:
            self.output.warn(f"Error: {summary.failure}")
        notes = () if summary.is_withdrawn else summary.notes
        if ending := " ".join([_ending_text(view, summary, self.roster), *doubts, *notes]).strip():
            self.say(ending)
        alarms: list[str] = []
        if view.cost:
            standing = await self.orchestra.standing(self.conversation)
            alarms = self._alarm.new_alarms(standing, self.conversation, spent=True)
        for warning in (*summary.warnings, *alarms):
            self.output.warn(warning)


def _ending_text(view: RunView, summary: AnswerSummary, roster: CardsById) -> str:
    """Say who answered, in how many seconds and at what cost; or how the run ended before."""
    if summary.is_withdrawn:
        return "Nothing was sent; your prompt is kept."
    if summary.interruption:
        does = "runs it" if summary.is_unstarted else "continues from there"
        return f"{summary.interruption} /continue {does}."
    if summary.is_unstarted:
        return "The plan was not run; your prompt is kept."
    if view.status == "cancelled":
        kept = "the text so far is kept" if view.answer else "your prompt is kept"
        return f"Stopped after {view.worked_seconds:.1f} s; {kept}."
    if view.failure is not None:
        return ""
    names = [f"{one_line(w, 40)} ({worker_place(w, view, roster)})" for w in _authors(view)]
    parts = [
        f"Answered by {join_words(names)}" if names else "There is no answer",
        summary.steps_text.replace(" · ", ": "),
        f"{view.worked_seconds:.1f} s",
        show_usd(summary.cost) if summary.cost else "",
    ]
    cut = " It was cut at its length cap; /continue writes the rest." if view.is_cut else ""
    return f"{', '.join(filter(None, parts))}.{cut}"


def _authors(view: RunView) -> list[str]:
    """Return the workers that wrote a part of the answer, in its order."""
    steps = [view.steps[number - 1] for number in (view.plan.answer if view.plan else ())]
    written = [step.worker for step in steps if step.text]
    author = answer_author(view)
    return list(dict.fromkeys(written or ([author.worker] if author else [])))


def _plan_question(question: Question) -> str:
    """Write out a plan that is to be run or not."""
    assert question.plan is not None
    most = [price.most for price in question.prices]
    cards = {card.id: card for card in question.workers}
    return f"{plan_text(question.plan, most, cards)}\n\n{question.text}"
