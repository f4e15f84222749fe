"""The home, which an empty conversation shows until its first prompt. It takes no focus itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from baton.core.ports import Choice
from baton.presentation.chat_texts import HOME_TEXT, RecentText
from baton.tui.widgets.question_view import ChoiceView

LABEL_COLUMNS = 11
"""How wide the column is that says what a line is about."""

TITLE_COLUMNS = 12, 48
"""The fewest and the most columns of a title; between them it has what the rest leaves."""

LOW_LINES = 20
"""Below so many lines of the window there is room for one conversation only."""


class RecentRow(ChoiceView):
    """One conversation that can be continued; `columns` are those of all ages and states."""

    def __init__(self, recent: RecentText, label: str, columns: tuple[int, int]) -> None:
        super().__init__(Choice(recent.conversation, recent.title))
        self.recent = recent
        self._label = label
        self._columns = columns

    def render(self) -> Content:
        """Lay out title, age and state on the width there is."""
        width, (age, state), (least, most) = self.size.width, self._columns, TITLE_COLUMNS
        room = max(least, min(most, width - LABEL_COLUMNS - age - state - 4))
        title = Content(self.recent.title).truncate(room, ellipsis=True, pad=True)
        return Content.assemble(
            (self._label.ljust(LABEL_COLUMNS), "" if self.has_focus else "$muted"),
            title if self.has_focus else title.stylize("$foreground"),
            f"  {self.recent.age.ljust(age)}  {self.recent.state}",
        ).truncate(width, ellipsis=True)


class HomeView(Vertical):
    """Says what Baton does, offers recent conversations, and shows who answers and the cloud.

    Nothing waits for it: it goes with the first prompt.
    """

    @dataclass(eq=False, repr=False)
    class Opening(Message):
        """A conversation is to be continued."""

        recent: RecentText

    def __init__(self, recent: Sequence[RecentText]) -> None:
        super().__init__()
        self._recent = recent
        self._models, self._cloud = Static(markup=False), Static(markup=False)

    def compose(self) -> ComposeResult:
        """Lay out the sentence over the conversations, the models and the cloud."""
        yield Static(HOME_TEXT, markup=False, classes="about")
        recent = self._recent[: 1 if self.app.size.height < LOW_LINES else None]
        ages, states = (
            [0, *map(len, texts)]
            for texts in ([one.age for one in recent], [one.state for one in recent])
        )
        with Vertical(classes="recent"):
            for index, one in enumerate(recent):
                yield RecentRow(one, "" if index else "Continue", (max(ages), max(states)))
        with Container(classes="facts"):
            for label, text in (("Models", self._models), ("Cloud", self._cloud)):
                yield Static(label, classes="label")
                yield text

    def describe(self, models: str, cloud: str) -> None:
        """Show who answers, and how the cloud stands."""
        self._models.update(models)
        self._cloud.update(cloud)

    def on_choice_view_chosen(self, event: ChoiceView.Chosen) -> None:
        """Have the conversation opened."""
        event.stop()
        chosen = next(one for one in self._recent if one.conversation == event.choice.id)
        self.post_message(self.Opening(chosen))
