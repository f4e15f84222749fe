"""What the controllers of the chat screen share: services, widgets, and what is chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual.app import SuspendNotSupported
from textual.screen import Screen
from textual.worker import Worker

from baton.core.errors import BatonError, ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.permissions import ANYTHING, PromptLimits
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.presentation.answers import AnswerSummary, summarise_answer
from baton.presentation.run_story import CardsById, worker_name
from baton.presentation.words import spending_wordings
from baton.tui import desktop, key_bindings
from baton.tui.prompt_queue import ConversationState, PromptQueue
from baton.tui.screens.overlay import Overlay
from baton.tui.widgets.composer import Composer
from baton.tui.widgets.menu_view import MenuView
from baton.tui.widgets.status_lines import Footer, Header, HeaderPart
from baton.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from baton.compose.worker_entries import AddOptions
    from baton.core.catalogue_types import ModelRole
    from baton.core.ledger_types import Standing
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store
    from baton.models import Library, LibraryModel
    from baton.money import Ledger
    from baton.presentation.served_requests import ServedRequest
    from baton.tui.widgets.home_view import HomeView


async def _leave_nothing(_: str) -> None:
    """No worker is removed."""


class OpenEndpoint(Protocol):
    """What other programs are served by: its address, its token, and what was asked."""

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def requests(self) -> Sequence[ServedRequest]: ...


class Connect(Protocol):
    """Adds a worker at a provider or an address, and keeps its key. Raises BatonError."""

    def __call__(
        self, target: str, options: AddOptions, key: str = "", *, is_plain: bool = False
    ) -> str: ...


def _connect_nothing(
    target: str, options: AddOptions, key: str = "", *, is_plain: bool = False
) -> str:
    raise ConfigError("Nothing can be connected here.")


Serve = Callable[[int | None], AbstractAsyncContextManager[OpenEndpoint]]
"""Serves at a port (None: the usual one) until it is left."""


@frozen_dataclass
class AppServices:
    """Everything behind the screens.

    `config` is the file with the settings; `exports` and `logs` are folders, made when first
    needed. `warm_cloud` starts what a cloud call will need, if there can be one. `report_later`
    takes a function that shows the user what only turns out while prompts are run.

    `library` holds the models. `add_model` makes a model that
    has arrived a worker, in the roles of its record, and returns the line that says so;
    `remove_worker` lets a worker go whose file is about to. `roles` says who has which, `assign`
    gives some to a worker and returns a line, too. `state` is the folder for what the app remembers
    of what was decided. `started` is called once the first frame is on the screen. `has_warnings`
    is whether doubts about an answer are shown, `has_side_bar` whether the side bar is. `serve`
    lets other programs use these parts (None: it can't). `connect` adds a worker and keeps its key,
    and returns the line that says so.
    """

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    config: Path
    exports: Path
    logs: Path
    state: Path
    library: Library
    limits: PromptLimits = ANYTHING
    worker: str | None = None
    conversation: str | None = None
    greeting: str = ""
    warm_cloud: Callable[[], None] = lambda: None
    report_later: Callable[[Callable[[str], object]], None] = lambda _: None
    add_model: Callable[[LibraryModel], str] = lambda _: ""
    remove_worker: Callable[[str], Awaitable[None]] = _leave_nothing
    roles: Callable[[], Mapping[ModelRole, str]] = dict
    assign: Callable[[str, Sequence[ModelRole]], str] = lambda *_: ""
    started: Callable[[], None] = lambda: None
    has_warnings: bool = True
    has_side_bar: bool = True
    serve: Serve | None = None
    connect: Connect = _connect_nothing


NO_MODEL = "no model yet"

_SHOWN_MODES = ("mini", "ultra")
"""The modes that say how an answer is made; the header shows the others as a policy."""


class ChatContext:
    """Services, widgets and state of one chat screen.

    `screen` is used as Textual's screen only: for workers, timers, focus and other screens.
    `report_bug` takes an unexpected error of a background task. `chat` is the conversation on the
    screen. The next prompt is answered by `worker`, with `strategy` ("": as the mode says); with
    `is_previewing` its plan is shown first. With `is_serving` other programs use this Baton.
    `standing` is how the money stood when it was last measured (None: not yet).
    """

    def __init__(
        self,
        services: AppServices,
        screen: Screen[None],
        queue: PromptQueue,
        report_bug: Callable[[Exception], None],
    ) -> None:
        self.services = services
        self.screen = screen
        self.queue = queue
        self.header = Header()
        self.transcript = Transcript()
        self.menu = MenuView()
        self.composer = Composer(self.menu)
        self.footer = Footer()
        self.worker = services.worker or services.orchestra.default
        self.chat = ConversationState(label=services.limits.label)
        self.strategy = services.limits.strategy
        self.is_previewing = False
        self.is_serving = False
        self._report_bug = report_bug
        self._home: HomeView | None = None
        self.standing: Standing | None = None

    def summarise(self, run: RunView) -> AnswerSummary:
        """Return what is known so far of a run's answer, as far as it is to be shown."""
        summary = summarise_answer(run, self.roster)
        return summary if self.services.has_warnings else replace(summary, doubts=())

    @property
    def roster(self) -> CardsById:
        """The workers that can be asked, by their ids."""
        return {card.id: card for card in self.services.orchestra.roster}

    def name_of(self, worker: str) -> str:
        """Return what a worker is called on the screen."""
        return one_line(worker_name(worker, self.roster), 40)

    @property
    def is_waited_for(self) -> bool:
        """Whether the user waits for an answer."""
        return self.queue.is_busy or bool(self.queue.waiting)

    @property
    def can_answer(self) -> bool:
        """Whether the chosen worker can be asked; without any model no worker can."""
        return self.worker in self.roster

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was asked yet in the conversation on the screen."""
        current = self.queue.current
        asked = [*self.queue.waiting, *([current.pending] if current else [])]
        is_asked = any(pending.chat is self.chat for pending in asked)
        return not (is_asked or self.chat.id or self.transcript.turns)

    # State

    def enter(self, chat: ConversationState) -> None:
        """Make this the conversation on the screen; how another's last answer went is over."""
        is_other, self.chat = chat.id != self.chat.id, chat
        if is_other and not self.queue.is_busy:
            self.show_worker()

    def choose_worker(self, worker: str) -> None:
        """Let this worker answer from now on; warm it, unless the user waits for an answer."""
        self.worker = worker
        self.show_worker()
        if self.can_answer and not self.is_waited_for:
            self.services.orchestra.worker(worker).warm()

    def follow_default(self, before: str) -> None:
        """Change to the default worker if the chosen one is gone, or was the default `before`."""
        default = self.services.orchestra.default
        if not self.can_answer or (self.worker == before != default):
            self.choose_worker(default)

    def choose_strategy(self, strategy: str) -> None:
        """Answer with this strategy from now on."""
        self.strategy = strategy
        self.show_header()

    def set_previewing(self, is_previewing: bool) -> None:
        """Choose whether the next prompt's plan is shown before anything is done."""
        self.is_previewing = is_previewing
        self.show_header()

    def set_serving(self, is_serving: bool) -> None:
        """Show whether other programs use this Baton."""
        self.is_serving = is_serving
        self.show_header()

    def show_worker(self) -> None:
        """Show in the header and the footer which worker answers."""
        self.show_header()
        self.footer.status = self.name_of(self.worker) if self.can_answer else NO_MODEL

    def show_header(self) -> None:
        """Show the conversation's title, how far its texts may travel, and how it is answered."""
        terms = self.services.orchestra.terms
        way = self.strategy or (terms.mode if terms.mode in _SHOWN_MODES else "")
        parts = (
            self._policy(),
            (one_line(way, 30), "screen.strategy" if self.strategy else "screen.mode"),
            ("plan first" if self.is_previewing else "", "screen.look_up('plan')"),
            ("serving" if self.is_serving else "", "screen.look_up('serve')"),
        )
        self.header.title = self.chat.title or "New conversation"
        self.header.offline = terms.offline
        self.header.policy = tuple(part for part in parts if part[0])
        self._describe_home()

    def show_money(self, standing: Standing) -> None:
        """Show in the header what was spent of what."""
        self.standing = standing
        self.header.money = spending_wordings(standing)
        self._describe_home()

    async def show_home(self, home: HomeView) -> None:
        """Show what an empty conversation begins with."""
        self._home = home
        await self.transcript.show_home(home)
        self._describe_home()

    def _describe_home(self) -> None:
        """Keep the home up with who answers and how the cloud stands, while it is shown."""
        if self._home is None or not self._home.is_attached or self.standing is None:
            return
        from baton.presentation.chat_texts import cloud_text, models_text

        key = key_bindings.configured_keys(self.screen.app, "chat.models")
        terms, is_private = self.services.orchestra.terms, self._policy()[0] == "private"
        self._home.describe(
            models_text(self.roster, self.worker, key),
            cloud_text(self.standing, self.roster, terms, is_private=is_private),
        )

    def _policy(self) -> HeaderPart:
        terms = self.services.orchestra.terms
        card = self.roster.get(self.worker)
        if Label.LOCAL in (self.chat.label, self.services.limits.label):
            return "private", "screen.look_up('private')"
        if terms.offline:
            return "", ""
        if terms.mode != "local" and card is not None and card.remote:
            return f"{card.place.value} worker", "screen.model"
        return "local only" if terms.mode == "local" else "local first", "screen.mode"

    # Texts and background work

    async def complain(self, error: BatonError) -> None:
        """Say in the conversation what went wrong and what to do."""
        await self.transcript.note(str(error), error=True)

    def say_above(self, text: str, seconds: float = 6) -> None:
        """Say something on the screen that covers the conversation, if one does."""
        if isinstance(self.screen.app.screen, Overlay):
            self.screen.app.screen.footer.say(text, seconds)

    def start(
        self,
        work: Callable[[], Coroutine[None, None, None]],
        group: str,
        *,
        exclusive: bool = False,
    ) -> Worker[None]:
        """Run `work` in the background; `exclusive` cancels what runs in its group."""
        return self.screen.run_worker(work, group=group, exclusive=exclusive)

    def report_bug(self, error: BaseException) -> None:
        """Pass an unexpected error to the app, which writes a report and ends."""
        assert isinstance(error, Exception)
        self._report_bug(error)

    async def edit_text(self, text: str, name: str = "prompt.md") -> str | None:
        """Return a text as changed in the user's own editor; None if it was not changed."""
        try:
            with self.screen.app.suspend():
                changed = desktop.edit_text(text, name)
        except SuspendNotSupported:
            self.footer.say("this terminal can't be handed to an editor")
        except BatonError as error:
            await self.complain(error)
        else:
            if changed is None:
                self.footer.say("nothing was changed in the editor")
            return changed
        return None
