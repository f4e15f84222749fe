"""The chat screen: what Baton is opened for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.css.query import DOMQuery
from textual.screen import Screen

from baton.core.errors import ConfigError
from baton.core.history_types import Signal
from baton.tui import key_bindings
from baton.tui.chat.budget import BudgetController
from baton.tui.chat.context import AppServices, ChatContext, OpenEndpoint
from baton.tui.chat.conversation import ConversationController, FeedbackController
from baton.tui.chat.downloads import DownloadController
from baton.tui.chat.input import InputController, ShellController
from baton.tui.chat.menu import BUDGET_CHOICES, MenuController
from baton.tui.chat.onboarding import OnboardingController
from baton.tui.chat.questions import QuestionController
from baton.tui.chat.runs import RunController
from baton.tui.chat.side_bar import SideBarController, WaitingList
from baton.tui.prompt_queue import PromptQueue
from baton.tui.widgets.composer import Composer, PromptArea
from baton.tui.widgets.menu_view import MenuView
from baton.tui.widgets.question_view import ChoiceView, RecommendationView
from baton.tui.widgets.transcript import Transcript
from baton.tui.widgets.turn_view import TurnView

if TYPE_CHECKING:
    from baton.tui.widgets.home_view import HomeView


OF_A_MESSAGE = frozenset(
    ("copy", "copy_code", "why", "edit", "regenerate", "stronger", "branch", "good", "bad", "route")
)
"""The actions on a message, which are offered only if there is one."""

OF_SOME_MESSAGES = {"go_on": "can_continue", "timeline": "has_timeline"}
"""The actions on the selected message, and what it must say of itself for each."""


class ChatScreen(Screen[None]):
    """Builds the controllers and connects them with keys, commands and messages of the widgets."""

    BINDINGS: ClassVar[list[BindingType]] = [*key_bindings.MENU, *key_bindings.CHAT]
    AUTO_FOCUS = "PromptArea"

    def __init__(self, services: AppServices, report_bug: Callable[[Exception], None]) -> None:
        super().__init__()
        self.queue = PromptQueue()
        self.context = context = ChatContext(services, self, self.queue, report_bug)
        self.transcript = context.transcript
        self.composer = context.composer
        self.footer = context.footer
        self.questions = QuestionController(context)
        self.downloads = DownloadController(context)
        self.budget = BudgetController(context, self.questions, self.downloads)
        self.onboarding = OnboardingController(context, self.downloads)
        self.feedback = FeedbackController(context)
        self.conversation = ConversationController(
            context,
            questions=self.questions,
            budget=self.budget,
            onboarding=self.onboarding,
            feedback=self.feedback,
        )
        self.runs = RunController(
            context,
            questions=self.questions,
            budget=self.budget,
            onboarding=self.onboarding,
            feedback=self.feedback,
            conversation=self.conversation,
        )
        self.shell = ShellController(context, self.questions)
        self.input = InputController(
            context,
            budget=self.budget,
            feedback=self.feedback,
            conversation=self.conversation,
            runs=self.runs,
            shell=self.shell,
        )
        self.menu = MenuController(context, self.input)
        self.composer.prompt.choose = self.menu.choose
        self.side_bar = SideBarController(context, self.runs)
        self.serving = ServingController(context)
        self.queue.report_to(self.runs)
        for name, method in self._actions().items():
            setattr(self, f"action_{name}", method)

    def _actions(self) -> dict[str, Callable[..., object]]:
        """Return what keys, the palette and slash commands do, by the names of their actions."""
        conversation, runs, start = self.conversation, self.runs, self._start
        return {
            # The conversation and its messages
            "new": conversation.open_new,
            "conversations": start(conversation.find, "overlay", exclusive=True),
            "rename": start(conversation.rename, "rename"),
            "export": conversation.export,
            "copy": conversation.copy,
            "copy_code": conversation.copy_code,
            "why": start(conversation.show_workflow, "why"),
            "context": conversation.describe_context,
            "timeline": conversation.toggle_timeline,
            "branch": conversation.show_version,
            "good": partial(self.feedback.mark, Signal.GOOD),
            "bad": partial(self.feedback.mark, Signal.BAD),
            # The prompt
            "switch": self.input.switch_focus,
            "messages": self.transcript.focus,
            "next_part": self._focus_next,
            "edit": self.input.edit,
            "leave_edit": self.composer.leave_edit,
            "editor": self.input.open_editor,
            "to_question": self.focus_choices,
            "take_default": self.questions.take_default,
            # The menu
            "move_in_menu": self.context.menu.move,
            "choose_in_menu": self._choose_in_menu,
            "complete_in_menu": lambda: (self.focused or self).call_later(self.menu.complete),
            "close_menu": self.menu.dismiss,
            "side": self.side_bar.toggle,
            "look_up": self.menu.look_up,
            "find": self.menu.find,
            "go_to": self.transcript.go_to,
            "theme": self.menu.set_theme,
            # Runs
            "stop": self.stop,
            "take_back": runs.take_back,
            "regenerate": runs.regenerate,
            "stronger": start(runs.ask_stronger, "stronger", exclusive=True),
            "mode": self._choose_or_open("mode", self.input.set_mode),
            "strategy": self._choose_or_open("strategy", self.input.set_strategy),
            "plan": self.input.preview,
            "route": start(self.input.explain_route, "why"),
            "resume": start(self.input.resume, "go_on"),
            "go_on": start(self.input.resume, "go_on"),
            # Money, privacy and models
            "budget": self._change_budget,
            "connect": start(self.budget.connect, "connect", exclusive=True),
            "egress": self.budget.show_egress,
            "offline": self.budget.set_offline,
            "private": self.budget.set_private,
            "models": start(self.onboarding.show_models, "overlay", exclusive=True),
            "model": self._choose_or_open("model", self.onboarding.set_worker),
            "recommend": self.onboarding.advise,
            "serve": start(self.serving.run_command, "serve"),
            "pull": start(self.downloads.pull, "want"),
        }

    def stop(self) -> None:
        """Stop what runs: the answer, and a command of the user."""
        self.shell.stop()
        if self.queue.is_busy:
            self.runs.stop()

    def _start(
        self,
        method: Callable[..., Coroutine[None, None, None]],
        group: str,
        *,
        exclusive: bool = False,
    ) -> Callable[..., None]:
        """Return an action that runs a method in the background."""

        def action(argument: str = "") -> None:
            work = partial(method, argument) if argument else method
            self.context.start(work, group, exclusive=exclusive)

        return action

    def _choose_or_open(
        self, kind: str, method: Callable[[str], Coroutine[None, None, None]]
    ) -> Callable[[str], Coroutine[None, None, None]]:
        """Return an action that sets what is named, or opens the menu with what there is."""

        async def action(name: str = "") -> None:
            await (method(name) if name.strip() else self.menu.open_choices(kind))

        return action

    async def _change_budget(self, words: str = "") -> None:
        """Show or change what may be spent, or open the menu with the values there are."""
        if (kind := words.strip().lower()) in BUDGET_CHOICES:
            await self.menu.open_choices(kind)
        else:
            self.context.start(partial(self.budget.run_command, words), "budget")

    def _choose_in_menu(self) -> None:
        """Choose in the menu once the keys before Enter are typed.

        Pressed in the prompt, Enter sends it if nothing is to be chosen any more. Pressed in the
        menu's own line it doesn't, since a draft may stand in the prompt.
        """
        if self.focused is self.composer.prompt:  # `has_focus` comes later
            self.composer.prompt.action_send()
        else:
            self.context.menu.line.call_later(self.menu.choose)

    def compose(self) -> ComposeResult:
        """Lay out the conversation between the header and the prompt, the menu over that."""
        yield self.context.header
        yield self.transcript
        yield self.context.menu
        yield self.composer
        yield self.footer

    def on_mount(self) -> None:
        """Do all that isn't needed for the first frame after it."""
        self.context.show_worker()
        self.call_after_refresh(self._begin)

    @work
    async def _begin(self) -> None:
        context, services = self.context, self.context.services
        services.started()
        if context.can_answer:
            services.orchestra.worker(context.worker).warm()
        services.orchestra.services.router.warm()
        services.report_later(lambda text: self.run_worker(self.transcript.note(text)))
        await self.conversation.begin()
        if services.greeting:
            await self.transcript.note(services.greeting)
        self.downloads.resume()
        self.side_bar.begin()
        services.warm_cloud()
        import baton.tui.widgets.answer  # noqa: F401 (so that the first answer needn't wait)

    async def close(self) -> None:
        """Stop what runs and keep everything, before the app is left."""
        self.questions.close()
        self.shell.stop()
        self.onboarding.dismiss_advice()
        await asyncio.gather(self.queue.close(), self.downloads.queue.close(), self.serving.close())
        await self.conversation.close()

    # Questions and choices

    @property
    def question(self) -> str:
        """The open question; "" if none is open."""
        return self.questions.text

    @property
    def _choices(self) -> DOMQuery[ChoiceView]:
        """What can be chosen: under the open question, or else in the empty conversation."""
        return (self.questions.view or self.transcript).query(ChoiceView)

    def focus_choices(self) -> None:
        """Go to the choices of the open question."""
        if self._choices:
            self.set_focus(self._choices.first())

    def _focus_next(self) -> None:
        """Go from the messages to what waits, then to the prompt, and from there on again."""
        parts = [self.transcript, *self.side_bar.focusable, self.composer.prompt]
        if self.focused in parts:
            self.set_focus(parts[(parts.index(self.focused) + 1) % len(parts)])
        else:
            self.focus_next()

    # Actions and messages

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what would do something now."""
        match action:
            case "take_default":
                return self.questions.view is not None
            case "to_question":
                return bool(self._choices) and not isinstance(self.focused, ChoiceView)
            case _ if action.endswith(("_in_menu", "close_menu")):
                return self.context.menu.is_open
            case "take_back":
                return bool(self.queue.waiting)
            case "stop":
                return self._can_stop
            case "messages":
                return self.focused is self.composer.prompt and self._has_other_escape
            case _ if action in OF_SOME_MESSAGES:
                return bool(getattr(self.transcript.selected, OF_SOME_MESSAGES[action], False))
            case "leave_edit":
                return self.composer.editing is not None
            case _ if action in OF_A_MESSAGE:
                return bool(self.transcript.turns)
            case _:
                return True

    @property
    def _can_stop(self) -> bool:
        is_stopping = self.queue.is_held and self.queue.waiting
        return self.shell.is_running or (self.queue.is_busy and not is_stopping)

    @property
    def _has_other_escape(self) -> bool:
        """Whether Esc does something else than to go to the messages."""
        return self._can_stop or self.composer.editing is not None or bool(self.queue.waiting)

    def action_copy_text(self) -> None:
        """Copy what is selected with the mouse."""
        if (text := self.get_selected_text()) is None:
            raise SkipAction
        ancestors = {view for widget in self.selections for view in widget.ancestors_with_self}
        self.context.start(partial(self.conversation.copy_text, text), "copy")
        for view in ancestors:
            if isinstance(view, TurnView):
                self.feedback.record(view.turn, Signal.COPIED)

    @on(PromptArea.Sent)
    async def _send(self, event: PromptArea.Sent) -> None:
        await self.input.send(event.text)

    @on(Composer.Edited)
    def _follow_prompt(self) -> None:
        self.menu.follow_prompt()

    @on(MenuView.Highlighted)
    def _preview(self, event: MenuView.Highlighted) -> None:
        self.menu.preview(event.entry)

    @on(MenuView.Chosen)
    def _take(self, event: MenuView.Chosen) -> None:
        self.menu.take(event.entry)

    def on_descendant_focus(self) -> None:
        """Close a menu that the user left, with the mouse or for a question."""
        line = self.context.menu.line if self.context.menu.has_line else self.composer.prompt
        if self.focused is not line:
            self.menu.close()

    def on_resize(self) -> None:
        """Give the menu as many lines as there are now; show the side bar where it has room."""
        self.context.menu.fit()
        self.side_bar.fit()

    def on_screen_resume(self) -> None:
        """Fit the side bar to a window that got another size under another screen."""
        self.side_bar.fit()

    @on(WaitingList.Wanted)
    def _take_out(self, event: WaitingList.Wanted) -> None:
        self.side_bar.take_out(event.place, is_edit=event.is_edit)

    @on(PromptArea.Recalling)
    def _recall(self) -> None:
        self.context.start(self.input.recall, "recall", exclusive=True)

    @on(Composer.Paused)
    async def _keep_draft(self) -> None:
        await self.input.keep_draft()

    @on(Transcript.Typed)
    def _type(self, event: Transcript.Typed) -> None:
        self.input.press(event.key)

    @on(Transcript.Changed)
    def _load_summaries(self) -> None:
        self.context.start(self.conversation.load_summaries, "summaries", exclusive=True)

    async def on_home_view_opening(self, event: HomeView.Opening) -> None:
        """Continue a conversation that the home offers."""
        await self.conversation.continue_recent(event.recent)

    @on(RecommendationView.Chosen)
    async def _choose_advice(self, event: RecommendationView.Chosen) -> None:
        await self.onboarding.choose(event)


# `/serve`: other programs use this Baton as long as the app is open


class ServingController:
    """Begins to serve, shows what is served, and stops."""

    def __init__(self, context: ChatContext) -> None:
        self._context = context
        self._open: OpenEndpoint | None = None
        self._stack = AsyncExitStack()

    async def run_command(self, argument: str = "") -> None:
        """Serve, at a port if one is named, and show the requests; with "off" stop."""
        word = argument.strip().lower()
        if word == "off":
            await self._stop()
            return
        if word and not (word.isdecimal() and 0 < int(word) < 65536):
            raise ConfigError(
                f"/serve {word[:20]} is not understood.", "/serve 8765, or /serve off."
            )
        serve = self._context.services.serve
        if self._open is None and serve is not None:
            begun = serve(int(word) if word else None)
            self._open = await self._stack.enter_async_context(begun)
            self._context.set_serving(True)
            await self._context.transcript.note(f"Serving other programs at {self._open.url}.")
        if self._open is not None:
            from baton.tui.screens.traffic_screens import STOP, ServeScreen

            screen = ServeScreen(self._open)
            if await self._context.screen.app.push_screen_wait(screen) == STOP:
                await self._stop()

    async def _stop(self) -> None:
        if self._open is None:
            self._context.footer.say("other programs are not served")
            return
        await self.close()
        self._context.set_serving(False)
        await self._context.transcript.note("Other programs are not served any more.")

    async def close(self) -> None:
        """Stop serving; what is being answered may end."""
        self._open = None
        await self._stack.aclose()
