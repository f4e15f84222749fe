"""A plan before anything of it is called: the workflow as a picture, with prices, to be changed."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from baton.core.errors import BatonError
from baton.core.messages import Card
from baton.core.plan_types import Plan, with_subtask, with_worker, without_step
from baton.core.ports import Question, StepPrice
from baton.core.sanitiser import one_line, sanitise
from baton.core.view import RunView
from baton.presentation.plans import access_text, step_cost_text
from baton.presentation.run_story import CardsById, worker_name, worker_place
from baton.presentation.words import count_text
from baton.tui import key_bindings
from baton.tui.widgets.question_view import ChoiceView, QuestionView, ScrollableQuestion
from baton.tui.widgets.text_widgets import TextEditor
from baton.tui.workflow_picture import picture_rows, planned_run, step_price_text, total_price_text

_EMPTY_RUN = RunView()


@dataclass(eq=False, repr=False)
class StepLeft(Message):
    """The user is done with a step: with another `worker`, another `text`, or neither."""

    worker: str = ""
    text: str = ""


class WorkerMenu(OptionList):
    """The workers that could do a step; Esc leaves it as it is."""

    BINDINGS = key_bindings.PLAN_WORKER

    def __init__(self, workers: list[tuple[Card, StepPrice]], chosen: str) -> None:
        ids = [card.id for card, _ in workers]
        width = max(Content(one_line(card.name, 40)).cell_length for card, _ in workers)
        super().__init__(
            *(_worker_line(card, price, width) for card, price in workers), markup=False
        )
        self._ids = ids
        self._chosen = chosen

    def on_mount(self) -> None:
        """Begin at the worker that the step has."""
        self.highlighted = self._ids.index(self._chosen) if self._chosen in self._ids else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give the step to this worker."""
        event.stop()
        self.post_message(StepLeft(worker=self._ids[event.option_index]))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Keep it from the list of steps."""
        event.stop()

    def action_leave(self) -> None:
        """Leave the step to the worker that it has."""
        self.post_message(StepLeft())


class StepEditor(TextEditor):
    """What a step is to do, changed in place."""

    BINDINGS = key_bindings.PLAN_TEXT

    def action_save(self) -> None:
        """Let the step do this, once the keys before this one are in it."""
        self.call_later(lambda: self.post_message(StepLeft(text=self.text)))

    def action_line(self) -> None:
        """Begin a new line, after the keys before this one."""
        self.call_later(self.insert, "\n")

    def action_leave(self) -> None:
        """Leave the step as it is."""
        self.post_message(StepLeft())


class PlanCard(ScrollableQuestion):
    """Shows a plan of which nothing was called yet, and lets the user change it.

    `plan` is the plan as it stands on the card, with its prices: only that can be confirmed.
    """

    BINDINGS = key_bindings.PLAN
    NOTE = "Arrows choose, Enter takes it; Esc takes the first."
    SHARE = 4

    def __init__(self, question: Question, plan: Plan, roster: CardsById) -> None:
        self.plan = plan
        self._roster = {**roster, **{card.id: card for card in question.workers}}
        self._prices = question.prices
        self._order: list[int] = []
        self._is_pricing = False
        self._steps = OptionList(markup=False)
        self._steps.can_focus = False
        self._editor = Vertical(classes="editor")
        super().__init__(question, "", hanging=4)

    def heading(self) -> Content:
        """Return the question with how many steps there are, where, and for how much."""
        totals = f"{places_text(self.plan, self._roster)} · {total_price_text(self._prices)}"
        text = one_line(self.question.text)
        return Content.assemble((text, "bold"), "   ", (totals, "$accent"))

    def body(self) -> ComposeResult:
        """Lay out the steps under the question, and all of one below them."""
        yield self._title
        yield self._steps
        yield self._text
        yield self._editor

    def on_mount(self) -> None:
        """Show the first step."""
        self._editor.display = False
        super().on_mount()

    def _fit(self) -> None:
        """Draw the plan for the room that there is."""
        self._steps.styles.max_height = max(4, self.app.size.height // 3)
        self._draw()
        super()._fit()

    def _draw(self) -> None:
        width = self._steps.scrollable_content_region.width - 2
        if width <= 0:
            return
        selected, index = self._selected, self._steps.highlighted or 0
        rows = picture_rows(planned_run(self.plan), self._roster, width, prices=self._prices)
        old_count = len(self._order)
        self._order = [row.number for row in rows]
        with self.prevent(OptionList.OptionHighlighted):
            self._steps.set_options(row.content for row in rows)
            is_same = len(rows) == old_count and selected in self._order
            index = self._order.index(selected) if is_same else index
            self._steps.highlighted = min(index, len(rows) - 1)
        self._title.update(Content.assemble((self.whose, "bold"), self.heading()))
        self._describe()

    @property
    def _selected(self) -> int:
        """The number of the step under the cursor."""
        index = self._steps.highlighted
        return self._order[index] if index is not None and index < len(self._order) else 1

    @on(OptionList.OptionHighlighted)
    def _describe(self) -> None:
        """Write all that there is to know of the step under the cursor."""
        self._text.put(step_text(self.plan, self._selected, self._roster, self._prices))
        self.call_after_refresh(self._show_remainder)

    def move(self, step: int) -> bool:
        """Go to the next step, or the one before."""
        index = (self._steps.highlighted or 0) + step
        self._steps.highlighted = max(0, min(len(self._order) - 1, index))
        return True

    # Changing the plan

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Change a step only where the user is about to decide, and where there is a choice."""
        if action not in ("drop_step", "edit_step", "choose_worker"):
            return True
        is_deciding = isinstance(self.screen.focused, ChoiceView) and not self._is_pricing
        if self.question.price_plan is None or not is_deciding:
            return False
        return action != "drop_step" or len(self.plan.steps) > 1

    def action_drop_step(self) -> None:
        """Leave the step under the cursor out."""
        self._start(self._change(without_step(self.plan, self._selected)))

    def action_edit_step(self) -> None:
        """Change what the step under the cursor is to do."""
        editor = StepEditor(sanitise(self.plan.steps[self._selected - 1].subtask))
        editor.move_cursor(editor.document.end)
        self._start(self._open(editor))

    def action_choose_worker(self) -> None:
        """Choose who does the step under the cursor."""
        self._start(self._offer_workers())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        self._is_pricing = True
        self.run_worker(work, group="plan")

    async def _offer_workers(self) -> None:
        number, price_plan = self._selected, self.question.price_plan
        offered: list[tuple[Card, StepPrice]] = []
        for card in self.question.workers:
            try:
                assert price_plan is not None
                prices = await price_plan(with_worker(self.plan, number, card.id))
            except BatonError:
                continue  # it may not be asked
            offered.append((card, prices[number - 1]))
        if offered:
            await self._open(WorkerMenu(offered, self.plan.steps[number - 1].worker))
        else:
            self._say("No other worker can do this step.")

    async def _open(self, editor: WorkerMenu | StepEditor) -> None:
        await self._editor.remove_children()
        await self._editor.mount(editor)
        self._text.display, self._editor.display = False, True
        self._is_pricing = False
        self.screen.set_focus(editor)
        editor.scroll_visible(animate=False)

    @on(StepLeft)
    def _leave_step(self, event: StepLeft) -> None:
        event.stop()
        self._text.display, self._editor.display = True, False
        self.screen.set_focus(self.query(ChoiceView).first())
        self._editor.remove_children()
        number = self._selected
        if event.worker:
            self._start(self._change(with_worker(self.plan, number, event.worker)))
        elif event.text.strip():
            self._start(self._change(with_subtask(self.plan, number, event.text)))

    async def _change(self, plan: Plan) -> None:
        """Show another plan, once it is known what it costs."""
        try:
            assert self.question.price_plan is not None
            prices = await self.question.price_plan(plan)
        except BatonError as error:
            self._say(str(error))
        else:
            self._is_pricing = False
            self.plan, self._prices = plan, prices
            self._draw()
            self.screen.refresh_bindings()

    def _say(self, text: str) -> None:
        self._is_pricing = False
        self.note.update(sanitise(text))

    @property
    def is_ready(self) -> bool:
        """Whether nothing is being changed that is not shown yet."""
        return not self._is_pricing

    def take_from(self, other: QuestionView) -> None:
        """Take over what was decided, and changed, on another card for the same question."""
        if isinstance(other, PlanCard):
            self.plan, self._prices = other.plan, other._prices
        super().take_from(other)


def places_text(plan: Plan, roster: CardsById) -> str:
    """Say how many steps there are, and how many of them in which place."""
    places = [worker_place(step.worker, _EMPTY_RUN, roster) for step in plan.steps]
    away = ", ".join(
        f"{places.count(place)} {place}"
        for place in ("local", "network", "cloud")
        if place in places
    )
    return f"{count_text(len(places), 'step')} · {away}"


def step_text(plan: Plan, number: int, roster: CardsById, prices: tuple[StepPrice, ...]) -> str:
    """Write a step out: its whole instruction, who does it, for how much, and what it sees."""
    step = plan.steps[number - 1]
    name = one_line(worker_name(step.worker, roster), 40) or "whichever worker suits"
    parts = [name, worker_place(step.worker, _EMPTY_RUN, roster)] if step.worker else [name]
    if number <= len(prices):
        parts += filter(None, [step_cost_text(step, prices[number - 1].most)])
    parts.append(f"sees {access_text(step.access)}")
    parts += ["may be left out"] if step.optional else []
    if number in plan.answer:
        parts.append("its text is the answer" if len(plan.answer) == 1 else "in the answer")
    return f"{number:>2}  {' '.join(step.subtask.split())}\n    {' · '.join(parts)}"


def _worker_line(card: Card, price: StepPrice, width: int) -> Content:
    """Write who could do a step, where, and for how much."""
    place = worker_place(card.id, _EMPTY_RUN, {card.id: card})
    edge = " " if place == "local" else "▎"
    name = Content(one_line(card.name, 40)).truncate(width, pad=True)
    style = "" if place == "local" else "$accent"
    line = Content.assemble(edge, name, f"  {place:<7}  ", step_price_text(price))
    return line.stylize(style) if style else line
