"""The app: its looks, its keys, its screens, and what happens when it is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.actions import ActionParseResult
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.geometry import Size
from textual.worker import WorkerFailed

from baton.core.errors import BatonError
from baton.core.permissions import PromptLimits
from baton.core.sanitiser import one_line
from baton.platform.processes import ENDING_SIGNALS, HANGUP_SIGNAL, add_signal_handler, is_ignored
from baton.tui import crash_report, desktop, key_bindings, themes
from baton.tui.chat.context import AppServices, Serve
from baton.tui.chat.runs import AnswerEnded
from baton.tui.chat.screen import ChatScreen
from baton.tui.desktop import read_bursts_as_pastes
from baton.tui.screens.overlay import Overlay

if TYPE_CHECKING:
    from baton.compose import Baton

QUIT_SECONDS = 1.0
"""Within how many seconds a second Ctrl+C quits."""

NOTICE_SECONDS = 10.0
"""How long an answer takes of which a user at another window hears, in seconds."""

HANGUP_SECONDS = 10.0
"""After how long Baton ends at the latest when its terminal is gone; texts are kept at once."""

MIN_SIZE = Size(20, 5)
"""The smallest window that is laid out, in cells: some of Textual's widgets fail without width."""


class BatonApp(App[None], inherit_bindings=False):
    """Baton in the terminal."""

    TITLE = "baton"
    CSS_PATH = "app.tcss"
    BINDINGS = key_bindings.APP
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, services: AppServices, theme: str = "dark", keymap: Mapping[str, str] = {}
    ) -> None:
        no_color = os.environ.get("NO_COLOR")
        super().__init__()
        if no_color is not None:
            os.environ["NO_COLOR"] = no_color  # Textual takes it away from an editor as well
        themes.show_theme(self, theme)
        self.set_keymap(keymap)
        self.chat = ChatScreen(services, self._handle_exception)
        self.report: Path | None = None
        self.kill_timer: threading.Timer | None = None
        self._is_paused = False
        self._logs = services.logs
        self._interrupted_at = -QUIT_SECONDS
        self._leaving = False
        self._early: list[events.Event] | None = []

    async def on_event(self, event: events.Event) -> None:
        """Keep what is typed before there is a prompt: Textual would drop it."""
        if self._early is not None and isinstance(event, (events.Key, events.Paste)):
            self._early.append(event)
        else:
            await super().on_event(event)

    def on_ready(self) -> None:
        """Pass on what was typed early."""
        early, self._early = self._early or [], None
        for event in early:
            self.post_message(event)

    def get_default_screen(self) -> ChatScreen:
        """Open with the conversation."""
        return self.chat

    def on_resize(self, event: events.Resize) -> None:
        """Lay out a smaller window like the smallest: what doesn't fit is cut off."""
        size = Size(max(event.size.width, MIN_SIZE.width), max(event.size.height, MIN_SIZE.height))
        event.size = event.virtual_size = size

    def on_mount(self) -> None:
        """Leave in good order when the system or a closed terminal ends Baton."""
        self._write(desktop.SAVE_TITLE)
        self.watch(self.chat.context.header, "title", self._name_window)
        for number in ENDING_SIGNALS:
            add_signal_handler(number, self.terminate, number)
        if sys.platform == "win32":
            return  # nothing pauses it there
        # Textual pauses and resumes in the middle of any code. If that writes to the terminal, it
        # then waits for ever for a lock of its own; the loop handles signals between two callbacks.
        pause, resume = signal.getsignal(signal.SIGTSTP), signal.getsignal(signal.SIGCONT)
        if callable(pause) and callable(resume):
            add_signal_handler(signal.SIGTSTP, self._pause, pause)
            add_signal_handler(signal.SIGCONT, self._take_terminal_back, resume)

    def _name_window(self, title: str) -> None:
        """Name the terminal's window after the conversation."""
        self._write(desktop.title_sequence(f"{title} · Baton" if title else "Baton"))

    def on_answer_ended(self, event: AnswerEnded) -> None:
        """Notify a user who looks at another window that a long answer has ended."""
        if not self.app_focus and event.seconds >= NOTICE_SECONDS:
            self._write(desktop.notice_sequence(event.text))

    def _write(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def _pause(self, pause: Callable[[int, None], object]) -> None:
        self._is_paused = True
        pause(signal.SIGTSTP, None)

    def _take_terminal_back(self, resume: Callable[[int, None], object]) -> None:
        """Have Textual take the terminal again, if there was a pause.

        By itself it does so at every SIGCONT, also at that which comes with a hang-up: each time
        one more thread reads the keys then.
        """
        if self._is_paused:
            self._is_paused = False
            resume(signal.SIGCONT, None)

    def terminate(self, number: int) -> None:
        """Leave in good order, as a signal asks."""
        if number == HANGUP_SIGNAL and self.kill_timer is None:
            # Textual would wait for ever for a terminal that is gone to take what it writes; one
            # that is still there is left as it was found.
            if self._driver is not None and not desktop.has_terminal():
                self._driver.write = lambda _: None  # type: ignore[assignment]
            self.kill_timer = threading.Timer(HANGUP_SECONDS, os._exit, (128 + number,))
            self.kill_timer.daemon = True
            self.kill_timer.start()
        self.run_worker(self.action_quit(), group="quit")

    async def action_quit(self) -> None:
        """Stop what runs, keep what was written and leave; asked twice, leave at once."""
        if not self._leaving:
            self._leaving = True
            await self.chat.close()
        self.exit()

    async def action_interrupt(self) -> None:
        """Stop the answer; the second time within a second, quit."""
        now = time.monotonic()
        again = now - self._interrupted_at < QUIT_SECONDS
        self._interrupted_at = now
        if again:
            await self.action_quit()
        elif self.chat.queue.is_busy or self.chat.shell.is_running:
            self.chat.stop()
        else:
            footer = getattr(self.screen, "footer", self.chat.footer)
            footer.say("Ctrl+C again quits")

    def action_answer(self) -> None:
        """Leave the screens over the conversation for the question that waits in it."""
        while self.screen is not self.chat:
            self.screen.dismiss(None)
        self.chat.focus_choices()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the way to a question only where one waits."""
        return bool(self.chat.question) if action == "answer" else True

    def action_menu(self) -> None:
        """Show everything there is."""
        if self.screen is self.chat:
            self.chat.menu.open_all()

    def action_help(self) -> None:
        """Show all keys and commands."""
        self._show_help(is_whole=True)

    def action_keys_here(self) -> None:
        """Show the keys that work on this screen."""
        self._show_help(is_whole=False)

    def _show_help(self, *, is_whole: bool) -> None:
        from baton.tui.screens.help_screen import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            here = key_bindings.active_bindings(self.screen)
            self.push_screen(HelpScreen(here, is_whole=is_whole))

    def get_key_display(self, binding: Binding) -> str:
        """Write a key for people."""
        return key_bindings.key_text(binding.key)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key or a command asks; show an error that a user can fix, and continue."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except BatonError as error:
            await self.complain(error)
            return True

    async def complain(self, error: BatonError) -> None:
        """Say what went wrong on the screen that the user looks at."""
        if isinstance(self.screen, Overlay):
            self.screen.footer.say(str(error), 12)
        else:
            await self.chat.context.complain(error)

    def _handle_exception(self, error: Exception) -> None:
        """Write a report without personal data, instead of Textual's screen full of variables.

        Workers and timers end here too, with errors that a user can fix: those are only shown.
        Message handlers must not raise one, since Textual stops their widget in any case.
        """
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(cause, BatonError):
            self.call_later(self.complain, cause)
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            with suppress(OSError):
                self.report = crash_report.write_report(self._logs, cause)
            self._exception_event.set()
        self._close_messages_no_wait()


def run_app(
    baton: Baton,
    *,
    exports: Path,
    limits: PromptLimits,
    worker: str | None,
    conversation: str | None,
    greeting: str,
    started: Callable[[], None],
    serve: Serve,
) -> int:
    """Open the app, and return the exit code when it is left; all parts are then closed.

    `limits` with a local label makes every conversation private. `conversation` is opened instead
    of a new one, which shows `greeting`. `started` is called after the first frame, `serve` lets
    other programs use this Baton. Raises ConfigError for an unknown id or worker.
    """
    keymap = baton.settings.keys
    key_bindings.check_keymap(keymap)
    if worker is not None or baton.orchestra.default not in baton.orchestra.absent:
        baton.orchestra.worker(worker)  # without any model the app opens, to have one fetched
    services = AppServices(
        orchestra=baton.orchestra,
        store=baton.store,
        ledger=baton.ledger,
        config=baton.paths.config_file,
        exports=exports,
        logs=baton.paths.logs,
        limits=limits,
        worker=worker,
        conversation=conversation,
        greeting=greeting,
        warm_cloud=baton.warm_cloud,
        report_later=baton.report_later,
        library=baton.library,
        add_model=baton.add_model,
        remove_worker=baton.remove_worker,
        roles=baton.roles,
        assign=baton.assign,
        state=baton.paths.state,
        started=started,
        has_warnings=baton.settings.warnings,
        has_side_bar=baton.settings.screen.side_bar,
        serve=serve,
        connect=baton.connect,
    )
    return asyncio.run(_run(BatonApp(services, baton.settings.screen.theme, keymap), baton))


async def _run(app: BatonApp, baton: Baton) -> int:
    if not is_ignored(signal.SIGINT):
        # On the screen Ctrl+C is a key, so this is another program's: `kill -INT`. Not heard by
        # the loop, which would learn after an editor that Ctrl+C was pressed in it.
        loop = asyncio.get_running_loop()
        leave = partial(loop.call_soon_threadsafe, app.terminate, signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: leave())
    read_bursts_as_pastes()
    try:
        await app.run_async(mouse=baton.settings.screen.mouse and desktop.can_use_mouse())
    finally:
        with suppress(OSError):
            sys.stdout.write(desktop.RESTORE_TITLE)
            sys.stdout.flush()
        await app.chat.close()
        await baton.aclose()
    code = app.return_code or 0
    if not code and (left := app.chat.context.chat).id is not None:
        title = one_line(left.title, 60)
        print(f"To continue “{title}”: baton -c", file=sys.stderr)
    if code:
        print(crash_message(app.report, baton.paths.logs), file=sys.stderr)
    return code


def crash_message(report: Path | None, logs: Path) -> str:
    """Say that Baton crashed, once the terminal is the user's again."""
    where = (
        f"A report without your texts is in {report}."
        if report is not None
        else f"No report of it could be written to {logs}."
    )
    return f"Baton hit a bug and ended; your conversations are kept. {where}"
