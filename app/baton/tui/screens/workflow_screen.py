"""A run opened into its workflow: its steps, its texts side by side, what was sent, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, OptionList, Static

from baton.core.events import Planning
from baton.core.hold_decision import shown_rounded_up
from baton.core.money import show_usd
from baton.core.sanitiser import one_line, sanitise
from baton.core.view import RunView, StepView
from baton.presentation.answers import charge_warnings
from baton.presentation.run_story import (
    CardsById,
    event_lines,
    run_story,
    step_facts,
    step_summary,
    worker_name,
)
from baton.tui import key_bindings
from baton.tui.chat.questions import QuestionMirror
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.text_widgets import TextView
from baton.tui.workflow_picture import picture_rows, progress_text, step_name

if TYPE_CHECKING:
    from baton.money import Ledger

REFRESH_SECONDS = 0.25
PAGES = ("Steps", "Compare", "Sent", "Why")

MAX_QUOTED_CHARS = 800
"""How much of a step's text stands under the steps; Enter shows all of it."""

_MAX_INSTRUCTION_CHARS = 2000
_COLOURS = {"failed": "$error", "skipped": "$warning"}

RunReader = Callable[[], RunView]
"""Returns how a run stands; called again and again while it runs."""


class StepOutput(NamedTuple):
    """A text of a run, with who wrote it."""

    title: str
    text: str


class PageTab(Static):
    """The name of a page; the page that is shown has it in brackets."""

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The page was clicked."""

        page: int

    def __init__(self, page: int) -> None:
        super().__init__(markup=False)
        self._page = page

    def show(self, page: int) -> None:
        """Show whether this is the page on the screen."""
        name = PAGES[self._page]
        is_shown = page == self._page
        self.update(Content.styled(f"[{name}]", "bold $primary") if is_shown else f" {name} ")

    def on_click(self) -> None:
        """Show this page."""
        self.post_message(self.Chosen(self._page))


class _StepList(OptionList):
    """The list of steps; `refit` is called when it has got another width."""

    def __init__(self, refit: Callable[[], object]) -> None:
        super().__init__(markup=False)
        self.can_focus = False  # or the focus would fall to a question with another page
        self._refit = refit
        self._fitted = 0

    def on_resize(self) -> None:
        """Have the lines fitted, where the width is another one."""
        if (width := self.scrollable_content_region.width) != self._fitted:
            self._fitted = width
            self.call_after_refresh(self._refit)


class StepsPage(Vertical):
    """The picture of the workflow, and all that is known of the step under the cursor."""

    def __init__(self, roster: CardsById, text_of: Callable[[int], str]) -> None:
        super().__init__(id="page-0")
        self._roster = roster
        self._text_of = text_of
        self._run = RunView()
        self._order: list[int] = []
        self._is_following = True
        self._progress = Static(classes="summary", markup=False)
        self._steps = _StepList(self._fill)
        self._totals = Static(classes="totals")
        self._detail = Static(classes="detail")
        self._scroll = VerticalScroll(self._detail, can_focus=False)

    def compose(self) -> ComposeResult:
        """Lay out the picture over the step under the cursor."""
        yield self._progress
        yield self._steps
        yield self._totals
        yield self._scroll

    def show(self, run: RunView) -> None:
        """Show the run as it is now."""
        self._run = run
        self._fill()

    @property
    def step(self) -> StepView | None:
        """The step under the cursor."""
        index = self._steps.highlighted
        is_there = index is not None and index < len(self._order)
        return self._run.steps[self._order[index] - 1] if is_there and index is not None else None

    def move(self, step: int) -> None:
        """Go to the next step, or the one before."""
        self.stop_following()
        if (index := self._steps.highlighted) is not None:
            self._steps.highlighted = max(0, min(len(self._order) - 1, index + step))

    def stop_following(self) -> None:
        """Leave the cursor where it is, also when another step begins."""
        self._is_following = False

    def page(self, pages: int) -> None:
        """Read on in what is known of the step, or back."""
        rows = max(1, self._scroll.size.height - 1)
        self._scroll.scroll_relative(y=pages * rows, animate=False)

    def _fill(self) -> None:
        run, roster = self._run, self._roster
        self._progress.update(progress_line(run, roster))
        totals = run_totals(run, roster)
        self._totals.update(totals)
        self._totals.display = bool(totals.plain)
        self._steps.display = bool(run.steps)
        width = self._steps.scrollable_content_region.width - 2
        if width <= 0:
            return
        texts = {step.number: step.text for step in run.steps}
        is_asking = self.screen.has_class("-asking")
        rows = picture_rows(run, roster, width, texts_of=texts, is_asking=is_asking)
        order = [row.number for row in rows]
        selected = self.step
        for index, row in enumerate(rows):
            if index >= self._steps.option_count:
                self._steps.add_option(row.content)
            else:
                self._steps.replace_option_prompt_at_index(index, row.content)
        number = selected.number if selected else 0
        self._order = order
        if rows:
            number = self._interesting() if self._is_following or not number else number
            self._steps.highlighted = order.index(number)
        self._show()

    def _interesting(self) -> int:
        """Return the number of the step that is worked on, else of the answer's last."""
        if self._run.current_step is not None:
            return self._run.current_step.number
        over = self._run.plan.answer if self._run.plan else ()
        begun = [n for n in over if self._run.steps[n - 1].status != "waiting"]
        return (begun or [1])[-1]

    @on(OptionList.OptionHighlighted)
    def _show(self) -> None:
        if (step := self.step) is not None:
            text = self._text_of(step.number)
            self._detail.update(step_detail(step, self._run, text, self._roster))
            if self._run.status == "running" and text and not step.is_over:
                self._scroll.scroll_end(animate=False)


class ComparePage(Vertical):
    """What a step wrote beside the answer: `[` and `]` change which step."""

    def __init__(self) -> None:
        super().__init__(id="page-1")
        self._index = -1
        self._drafts: list[StepOutput] = []
        self._final = StepOutput("", "")
        self._note = Static(markup=False, classes="note")
        self._heads = Static(markup=False, classes="head"), Static(markup=False, classes="head")
        self._texts = TextView(""), TextView("")

    def compose(self) -> ComposeResult:
        """Lay out two columns."""
        yield self._note
        with Horizontal():
            for head, text in zip(self._heads, self._texts, strict=True):
                yield Vertical(head, text)

    def show(self, drafts: list[StepOutput], final: StepOutput) -> None:
        """Show the texts as they are now."""
        self._drafts, self._final = drafts, final
        count = len(drafts)
        note = f"Draft {self._index % count + 1} of {count}." if count > 1 else ""
        self._note.update(note or ("" if count else "One step wrote all there is."))
        self._note.display = bool(self._note.content)
        draft = drafts[self._index % count] if count else StepOutput("", "")
        for head, text, output in zip(self._heads, self._texts, (draft, final), strict=True):
            head.update(output.title)
            text.put(output.text)
        self._texts[0].parent.display = bool(count)  # type: ignore[union-attr]

    def swap(self, step: int) -> None:
        """Compare the answer with what another step wrote."""
        if self._drafts:
            self._index = (self._index + step) % len(self._drafts)
            self.show(self._drafts, self._final)

    @property
    def can_swap(self) -> bool:
        """Whether there are several texts to compare the answer with."""
        return len(self._drafts) > 1

    def scroll_texts(self, rows: float) -> None:
        """Read on in both."""
        for text in self._texts:
            text.scroll_relative(y=rows, animate=False)


class WorkflowScreen(Overlay[None]):
    """Shows a run beside the conversation, and fills in while it runs.

    `answer` is the answer's text, which the events of a run with one step don't hold. From 120
    columns on the conversation is laid out again beside it; below, it takes the whole screen, and a
    question that waits is put here, too.
    """

    BINDINGS = key_bindings.WORKFLOW
    HEADING = "Workflow"
    AUTO_FOCUS = ""  # Tab alone leads to a question's choices
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (as in Textual)

    def __init__(
        self, read_run: RunReader, roster: CardsById, ledger: Ledger, answer: str = ""
    ) -> None:
        super().__init__()
        self._read_run = read_run
        self._run = read_run()
        self._roster = roster
        self._ledger = ledger
        self._answer = answer
        self._page = 0
        self._tabs = [PageTab(page) for page in range(len(PAGES))]
        self._steps = StepsPage(roster, self._text)
        self._compare = ComparePage()
        self._sent, self._why = Static(), Static()
        self._mirror = QuestionMirror(roster)

    def body(self) -> ComposeResult:
        """Lay out the pages under their names, over a question that waits."""
        yield Horizontal(*self._tabs, id="tabs")
        with ContentSwitcher(initial="page-0"):
            yield self._steps
            yield self._compare
            yield VerticalScroll(self._sent, id="page-2", can_focus=False)
            yield VerticalScroll(self._why, id="page-3", can_focus=False)
        yield self._mirror

    def on_mount(self) -> None:
        """Show the run, and follow one that isn't over yet."""
        self._show_page(0)
        self.call_after_refresh(self._fill)
        if self._run.status == "running":
            self.set_interval(REFRESH_SECONDS, self._follow)

    def on_resize(self) -> None:
        """Stand beside the conversation, not on it."""
        self.call_after_refresh(self._make_room)

    def on_unmount(self) -> None:
        """Give the conversation its whole width again."""
        self._narrow(0)

    def _make_room(self) -> None:
        panel = self.query_one("Vertical")
        is_beside = panel.region.width < self.size.width
        self._narrow(panel.region.width if is_beside else 0)

    def _narrow(self, columns: int) -> None:
        """Keep so many columns at the conversation's right free."""
        for screen in self.app.screen_stack[:1]:
            screen.styles.padding = (0, columns, 0, 0)
            screen.set_class(columns > 0, "-beside-panel")

    def _follow(self) -> None:
        if (run := self._read_run()) is not self._run:
            self._run = run
            self._fill()

    @on(QuestionMirror.Changed)
    def _fill(self) -> None:
        """Fill the page that is shown; the others when they are."""
        run, roster = self._run, self._roster
        match self._page:
            case 0:
                self._steps.show(run)
            case 1:
                self._compare.show(*comparable_texts(run, roster, self._answer))
            case 2:
                self._sent.update(sent_text(run, roster))
            case _:
                self._why.update(story_text(run, roster))
        self.refresh_bindings()

    def _text(self, number: int) -> str:
        """Return a step's text; the only one's is the answer's."""
        return self._run.steps[number - 1].text or (
            self._answer if len(self._run.steps) == 1 else ""
        )

    # Pages

    def _show_page(self, page: int) -> None:
        self._page = page
        for tab in self._tabs:
            tab.show(page)
        self.query_one(ContentSwitcher).current = f"page-{page}"

    @on(PageTab.Chosen)
    def _choose_page(self, event: PageTab.Chosen) -> None:
        self._show_page(event.page)
        self._fill()

    def action_page(self, step: int) -> None:
        """Show the next page, or the one before."""
        self._show_page((self._page + step) % len(PAGES))
        self._fill()

    # Keys

    @property
    def _is_in_question(self) -> bool:
        """Whether the keys are for the question that is shown here, too."""
        focused = self.focused
        return focused is not None and self._mirror in focused.ancestors

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what there is: a step to read, texts to compare, something that was sent."""
        if action in ("open", "move", "scroll", "page", "swap", "egress") and self._is_in_question:
            return False
        match action:
            case "egress":
                return bool(self._run.sent)
            case "open":
                return self._page == 0 and bool(self._run.steps)
            case "swap":
                return self._page == 1 and self._compare.can_swap
            case _:
                return True

    def action_move(self, step: int) -> None:
        """Go to the next step, or the one before; read on where there are no steps."""
        if self._page == 0:
            self._steps.move(step)
        else:
            self._scroll_page(step)

    def action_scroll(self, pages: int) -> None:
        """Read on, or back."""
        if self._page == 0:
            self._steps.page(pages)
        else:
            self._scroll_page(pages * max(1, self.size.height // 2))

    def _scroll_page(self, rows: int) -> None:
        if self._page == 1:
            self._compare.scroll_texts(rows)
        else:
            page = self.query_one(f"#page-{self._page}", VerticalScroll)
            page.scroll_relative(y=rows, animate=False)

    def action_swap(self, step: int) -> None:
        """Compare the answer with what another step wrote."""
        self._compare.swap(step)

    async def action_close(self) -> None:
        """Leave the question that is shown here, or the workflow."""
        if self._is_in_question:
            self._mirror.take_default()
        else:
            self.dismiss(None)

    @on(OptionList.OptionSelected)
    def action_open(self) -> None:
        """Show all that the step under the cursor wrote."""
        if (step := self._steps.step) is not None:
            number = step.number
            self._steps.stop_following()
            self.app.push_screen(StepScreen(step, lambda: self._newest(number)))

    def _newest(self, number: int) -> tuple[str, bool]:
        """Return a step's text, and whether more may come of it."""
        self._run = self._read_run() if self._run.status == "running" else self._run
        over = self._run.steps[number - 1].is_over or self._run.status != "running"
        return self._text(number), not over

    def action_egress(self) -> None:
        """Show what this run sent."""
        from baton.tui.screens.traffic_screens import EgressScreen

        if (started := self._run.started) is not None:
            self.app.push_screen(EgressScreen(self._ledger, started.run))


class StepScreen(Overlay[None]):
    """Shows a step's whole text as it was written, and as it is."""

    BINDINGS = key_bindings.STEP

    def __init__(self, step: StepView, newest: Callable[[], tuple[str, bool]]) -> None:
        super().__init__()
        self.HEADING = f"Step {step.number}: {one_line(step.step.subtask, 100)}"
        self._newest = newest
        self._plain = TextView("", focusable=True)

    def body(self) -> ComposeResult:
        """Lay out the text."""
        yield self._plain

    def on_mount(self) -> None:
        """Show the text, and follow it while it grows."""
        if self._follow():
            self.set_interval(REFRESH_SECONDS, self._follow)

    def _follow(self) -> bool:
        text, growing = self._newest()
        self._plain.put(text or "It has written nothing.")
        self.footer.status = f"{len(text):,} characters{', being written' if growing else ''}"
        return growing


# What stands on the pages


def progress_line(run: RunView, roster: CardsById) -> Content:
    """Say on one line why a run went so, and how far it is."""
    is_growing = run.status == "running" and len(run.steps) > 1
    story = run_story(run, "", roster)
    why = one_line(run.routed.why, 200) if run.routed else story[0].text
    why = next((line.text for line in story if line.kind is Planning), why)
    return Content.assemble(f"{progress_text(run)}. " * is_growing, (why, "$muted"))


def story_text(run: RunView, roster: CardsById) -> Content:
    """Write why the run went the way it did."""
    first, *others = run_story(run, "", roster)
    return Content("\n").join([Content(first.text), *(_muted(line.text) for line in others)])


def step_detail(step: StepView, run: RunView, text: str, roster: CardsById) -> Content:
    """Write all that is known of a step; `text` is what it has written."""
    properties, *wrong = step_facts(step, run, roster)
    lines = [
        Content(sanitise(_truncate(step.step.subtask, _MAX_INSTRUCTION_CHARS)).strip()),
        _muted(" · ".join([*step_summary(step, run, roster), properties])),
        *(Content.styled(why, _COLOURS.get(step.status, "")) for why in wrong),
    ]
    if text.strip():
        is_replaced = run.plan is not None and step.number not in run.plan.answer
        is_draft = is_replaced and step.step.is_direct and len(run.steps) > 1
        is_cut_before = not step.is_over and len(text) > MAX_QUOTED_CHARS
        quoted = "…" + text[-MAX_QUOTED_CHARS:] if is_cut_before else text
        lines += [
            _muted("Its draft:" if is_draft else "It wrote:"),
            Content(sanitise(_truncate(quoted, MAX_QUOTED_CHARS + 1)).strip("\n")),
        ]
    about = event_lines([*step.checks, *run.offers, *run.calls], roster)
    lines += [_muted(line.text) for line in about if line.step == step.number]
    return Content("\n").join(lines)


def run_totals(run: RunView, roster: CardsById) -> Content:
    """Write what went wrong, and what a run held and was charged."""
    lines = []
    if run.failure is not None:
        lines.append(Content.styled(one_line(run.failure.message, 400), "$error"))
    lines += [Content.styled(warning, "$warning") for warning in charge_warnings(run, roster)]
    if held := sum(call.held for call in run.calls):
        lines.append(Content(f"Held {shown_rounded_up(held)}, charged {show_usd(run.cost)}."))
    return Content("\n").join(lines)


def sent_text(run: RunView, roster: CardsById) -> Content:
    """Write what left this machine in a run, to where, and what was offered and didn't."""
    lines = [
        Content.assemble(("▎", "$accent"), line.text) for line in event_lines(run.sent, roster)
    ]
    size = sum(sent.size for sent in run.sent)
    total = f"{size:,} bytes left this machine in all (e shows them)."
    lines.append(Content(total if run.sent else "No part of this answer has left this machine."))
    lines += [_muted(line.text) for line in event_lines(run.offers, roster)]
    return Content("\n").join(lines)


def comparable_texts(
    run: RunView, roster: CardsById, answer: str
) -> tuple[list[StepOutput], StepOutput]:
    """Return what the steps wrote beside the answer, the newest last, and the answer itself."""
    numbers = run.plan.answer if run.plan else ()
    drafts = []
    for step in run.steps:
        if step.text.strip() and step.number not in numbers:
            kind = "draft" if step.step.is_direct else step_name(step)
            name = one_line(worker_name(step.worker, roster), 40)
            drafts.append(StepOutput(f"{step.number} {kind} · {name}", step.text))
    names = [one_line(worker_name(run.steps[n - 1].worker, roster), 40) for n in numbers]
    writers = ", ".join(dict.fromkeys(names))
    return drafts, StepOutput(f"The answer · {writers}".rstrip(" ·"), run.answer or answer)


def _muted(text: str) -> Content:
    return Content.styled(text, "$muted")


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
