"""A question to the user, in the conversation. It takes no focus, so typing can't answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from baton.core.ports import CallOffer, Choice, Question
from baton.core.sanitiser import one_line, sanitise
from baton.presentation.answers import destination_text, instructions_text
from baton.presentation.words import call_price_text, count_text
from baton.tui import key_bindings
from baton.tui.widgets.text_widgets import TextView


class ChoiceView(Static):
    """One answer that may be given."""

    BINDINGS = key_bindings.QUESTION
    can_focus = True

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The user decided."""

        choice: Choice

    @dataclass(eq=False, repr=False)
    class Scrolling(Message):
        """The user wants to read on in the text that the question is about."""

        pages: int

    class Unfolding(Message):
        """The user wants to see Baton's own instructions, or no longer."""

    def __init__(self, choice: Choice) -> None:
        super().__init__(Content(f" {one_line(choice.label, 60)} "))
        self.choice = choice

    def on_click(self, event: events.Click) -> None:
        """Take this answer."""
        event.stop()
        self.action_choose()

    def action_choose(self) -> None:
        """Take this answer."""
        self.post_message(self.Chosen(self.choice))

    def action_step(self, step: int) -> None:
        """Go to the next answer."""
        choices = list(self.parent.query(ChoiceView)) if self.parent else [self]
        # At once, so that the next key of a quick hand reaches the choice that it is meant for.
        self.screen.set_focus(choices[(choices.index(self) + step) % len(choices)])

    def action_move(self, step: int) -> None:
        """Go to the next line of what the question is about; where it has none, to an answer."""
        card = next((a for a in self.ancestors if isinstance(a, QuestionView)), None)
        if card is None or not card.move(step):
            self.action_step(step)

    def action_page(self, pages: int) -> None:
        """Read on, or back."""
        self.post_message(self.Scrolling(pages))

    def action_unfold(self) -> None:
        """Show what is folded, or fold it."""
        self.post_message(self.Unfolding())


class QuestionView(Vertical):
    """Shows a question until it is answered; `answer` waits for that."""

    NOTE = "Tab chooses among them, Esc takes the first."

    @dataclass(eq=False, repr=False)
    class Decided(Message):
        """The user decided with one of its choices."""

        view: QuestionView

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question
        self.whose = ""
        self._title = Static(self.heading(), markup=False, classes="title")
        self.note = Static(self.NOTE, markup=False, classes="note")
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def compose(self) -> ComposeResult:
        """Lay out the question over its choices, the safe one first."""
        yield from self.body()
        default = self.question.default
        with Horizontal(classes="choices"):
            for choice in sorted(self.question.choices, key=lambda c: c.id != default):
                yield ChoiceView(choice)
        yield self.note

    def body(self) -> ComposeResult:
        """Lay out the question."""
        yield self._title

    def heading(self) -> Content:
        """Return the question as it stands above its choices."""
        return Content(sanitise(self.question.text))

    def attribute_to(self, whose: str) -> None:
        """Say which conversation it is from ("": the one on the screen)."""
        if whose != self.whose:
            self.whose = whose
            self._title.update(Content.assemble((whose, "bold"), self.heading()))

    async def answer(self) -> str:
        """Wait for the user's choice."""
        return await self._answer

    def on_unmount(self) -> None:
        """Decide by default when the conversation was left without an answer."""
        self.take_default()

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Pass the decision on."""
        event.stop()
        if self.is_ready:
            self._take(event.choice.id)
            self.post_message(self.Decided(self))

    @property
    def is_ready(self) -> bool:
        """Whether what is shown is what would be decided about."""
        return True

    def move(self, step: int) -> bool:
        """Go to the next line of what the question is about; return whether there are any."""
        return False

    def take_from(self, other: QuestionView) -> None:
        """Take over what was decided on another card for the same question."""
        self._take(other.choice)

    @property
    def choice(self) -> str:
        """What was decided, or what is by default."""
        return self._answer.result() if self._answer.done() else self.question.default

    def take_default(self) -> None:
        """Take the safe choice."""
        self._take(self.question.default)

    def _take(self, choice: str) -> None:
        if not self._answer.done():
            self._answer.set_result(choice)


class QuestionLine(Static):
    """Shows the open question on other screens, and the key that leads to it."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def on_mount(self) -> None:
        """Show a question that waits already."""
        self.show(getattr(self.app.screen_stack[0], "question", ""))

    def show(self, question: str) -> None:
        """Show another question ("": none waits)."""
        key = key_bindings.configured_keys(self.app, "app.answer")
        self.update(f"{one_line(question)} {key} answers." if question else "")
        self.display = bool(question)
        self.screen.refresh_bindings()


class ScrollableQuestion(QuestionView):
    """Shows a text above the choices, from which it is scrolled as well."""

    NOTE = "Tab, arrows, Enter choose; Esc takes the first."
    ROW_COLUMNS = 84
    """From how many columns on the choices stand side by side."""

    SHARE = 4
    """Which part of the screen's height the text may take: a quarter."""

    def __init__(self, question: Question, text: str, hanging: int = 0) -> None:
        super().__init__(question)
        self._text = TextView(text, hanging=hanging)

    def on_mount(self) -> None:
        """Leave all the rest of the card in sight."""
        self._fit()

    def on_resize(self, event: events.Resize) -> None:
        """Put the choices into two rows where they don't fit into one."""
        self.set_class(event.size.width < self.ROW_COLUMNS, "-narrow")
        self._fit()

    def _fit(self) -> None:
        """Leave so much of the text in sight that all the rest of the card is, too."""
        self._text.styles.max_height = max(4, self.app.size.height // self.SHARE)
        self.call_after_refresh(self._show_remainder)

    def _show_remainder(self) -> None:
        """Say how much of the text is out of sight."""
        more = self._text.lines - self._text.size.height
        rest = f" PgDn: {count_text(more, 'more line')}." if more > 0 else ""
        if self.note.content != self.NOTE + rest:  # each update lays the whole screen out
            self.note.update(self.NOTE + rest)

    def on_choice_view_scrolling(self, event: ChoiceView.Scrolling) -> None:
        """Show more of the text."""
        event.stop()
        page = max(1, self._text.size.height - 1)
        self._text.scroll_relative(y=event.pages * page, animate=False)


class OfferCard(ScrollableQuestion):
    """Shows what would leave this machine, all of it, before it does; and what it could cost.

    Of Baton's own instructions it shows one line until they are opened.
    """

    def __init__(self, question: Question, offer: CallOffer) -> None:
        self._offer = offer
        super().__init__(question, offer.text)
        self._fold = Static(markup=False, classes="note")
        self._is_folded = True

    def heading(self) -> Content:
        """Return the question with the price."""
        price = call_price_text(self._offer)
        text = one_line(self.question.text)
        return Content.assemble((text, "bold"), "   ", (price, "$accent"))

    def body(self) -> ComposeResult:
        """Lay out price, reason, text and draft, in the order in which they matter."""
        offer = self._offer
        yield self._title
        yield _fact_line("Why", offer.why)
        yield Static(destination_text(offer), markup=False)
        yield self._text
        if offer.instructions:
            yield self._fold
        if offer.draft:
            yield _fact_line("Local answer so far", one_line(offer.draft, 300))

    def on_mount(self) -> None:
        """Show how much is folded."""
        super().on_mount()
        self._name_fold()

    def _name_fold(self) -> None:
        key = key_bindings.configured_keys(self.app, "question.unfold")
        verb = "shows" if self._is_folded else "folds"
        self._fold.update(f"{instructions_text(self._offer)} {key} {verb} them.")

    def on_choice_view_unfolding(self, event: ChoiceView.Unfolding) -> None:
        """Show Baton's own instructions under the text, or fold them again."""
        event.stop()
        self._unfold()

    def on_click(self, event: events.Click) -> None:
        """Do the same where their line is clicked."""
        if self._fold.region.contains_point(event.screen_offset):
            event.stop()
            self._unfold()

    def _unfold(self) -> None:
        offer, before = self._offer, self._text.lines
        if not offer.instructions:
            return
        self._is_folded = not self._is_folded
        self._text.put(offer.text if self._is_folded else f"{offer.text}\n\n{offer.instructions}")
        self._name_fold()
        self.call_after_refresh(
            self._text.scroll_to, y=0 if self._is_folded else before, animate=False
        )
        self._show_remainder()


def _fact_line(name: str, text: str) -> Static:
    content = Content.assemble((f"{name}: ", "$muted"), one_line(text, 300))
    return Static(content, classes="line")


TAB_HINT = "(Tab to get here)"


class RecommendationView(Vertical):
    """Shows sentences and, once there is something to choose, choices. Takes no focus by itself.

    Nothing waits for it: it isn't a question, and typing a prompt passes it by.
    """

    @dataclass(eq=False, repr=False)
    class Chosen(Message):
        """The user chose."""

        view: RecommendationView
        choice: Choice

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._text = Static(sanitise(text), markup=False, classes="text")
        self._row = Horizontal(classes="choices")
        self._choices: tuple[Choice, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the sentences over the choices."""
        yield self._text
        yield self._row

    def on_mount(self) -> None:
        """There is nothing to choose yet."""
        self._row.display = False

    @property
    def choosable(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._choices) and self.is_attached

    def say(self, text: str) -> None:
        """Say something else."""
        self.text = text
        self._text.update(sanitise(text))

    async def offer(self, choices: Sequence[Choice]) -> None:
        """Let the user choose among these; among nothing, if empty."""
        if tuple(choices) == self._choices or not self.is_attached:
            return
        self._choices = tuple(choices)
        if isinstance(self.screen.focused, ChoiceView) and self in self.screen.focused.ancestors:
            self.screen.set_focus(self.screen.query_one("#prompt"))
        await self._row.remove_children()
        if choices:
            await self._row.mount(*(ChoiceView(choice) for choice in choices))
            await self._row.mount(Static(TAB_HINT, markup=False, classes="note"))
        self._row.display = bool(choices)
        self.screen.refresh_bindings()

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Pass a decision on; one that came too late doesn't count."""
        event.stop()
        if event.choice in self._choices:
            self.post_message(self.Chosen(self, event.choice))
