"""Setting up a cloud provider: which model, its key, and the most that a day may cost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.suggester import SuggestFromList
from textual.widgets import Static

from baton.core.errors import BatonError, ConfigError
from baton.core.money import parse_usd, show_usd
from baton.core.sanitiser import sanitise
from baton.platform.secrets import PROVIDERS, NoKeyring
from baton.tui import key_bindings
from baton.tui.chat.context import Connect
from baton.tui.screens.overlay import ConfirmScreen, Overlay
from baton.tui.widgets.text_widgets import TextField

USUAL_CEILING = "0.50"
"""What stands in the line of the ceiling where there is none, in US dollars."""

ABOUT = (
    "Nothing is sent now. Later Baton asks before anything leaves this machine, never spends more "
    "than the ceiling, and shows what was sent: /egress."
)
PLAIN_TEXT = (
    "There is no keyring here: {why}.\nThe key would stand in a file of yours as plain text; "
    "who can read that file, or a backup of it, can spend your money."
)


@dataclass(frozen=True, slots=True)
class Connected:
    """What was set up, in a line, and the day's ceiling as it was typed ("": as it was)."""

    line: str
    ceiling: str


class ConnectScreen(Overlay[Connected]):
    """Asks for model, key and ceiling, line by line, and returns what was set up.

    `ceiling` is the one for a day as it is now. The line for a price is shown once it is needed.
    """

    BINDINGS = key_bindings.CONNECT
    HEADING = "Connect a cloud provider"

    def __init__(self, connect: Connect, ceiling: int | None, target: str = "") -> None:
        super().__init__()
        self._connect = connect
        self._target = target
        self._ceiling = ceiling

    def body(self) -> ComposeResult:
        """Lay out a line for each thing."""
        usual = "" if self._ceiling else USUAL_CEILING
        stays = f"as it is: {show_usd(self._ceiling)}" if self._ceiling else "no ceiling: cloud off"
        providers = SuggestFromList([f"{name}/" for name in PROVIDERS])
        lines = {
            "Model": TextField(
                self._target,
                placeholder="openai/gpt-5-mini, or a server's address and model",
                suggester=providers,
                id="model",
            ),
            "Key": TextField(placeholder="paste it, unless it is set", password=True, id="key"),
            "At most a day, in US dollars": TextField(usual, placeholder=stays, id="ceiling"),
            "US dollars for a million tokens read, and written": TextField(
                placeholder="0.25 2", id="price"
            ),
        }
        with VerticalScroll(can_focus=False):
            for title, line in lines.items():
                line.border_title = title
                line.display = line.id != "price"
                yield line
            yield Static(id="trouble", markup=False)
            yield Static(ABOUT, classes="note")
            yield Static(f"Providers: {', '.join(PROVIDERS)}", classes="note")

    def on_mount(self) -> None:
        """Begin with the first line that is empty."""
        self.query_one("#key" if self._target else "#model").focus()

    def action_go_on(self) -> None:
        """Go to the next line, at once, so that the next key is typed there; from the last one
        connect, once the keys before this one are in it.
        """
        lines = [line for line in self.query(TextField) if line.display]
        at = next((n for n, line in enumerate(lines) if line is self.focused), len(lines) - 1)
        if at + 1 < len(lines):
            self.set_focus(lines[at + 1])
        else:
            lines[at].call_later(self._add)

    def _value(self, line: str) -> str:
        return self.query_one(f"#{line}", TextField).value.strip()

    @work(exclusive=True, group="connect")
    async def _add(self, is_plain: bool = False) -> None:
        """Add the worker with what stands in the lines; say what is wrong with them."""
        from baton.compose.worker_entries import AddOptions, PriceUnknown

        target, _, model = self._value("model").partition(" ")
        ceiling = self._value("ceiling").removeprefix("$")
        self._explain("")
        self.footer.status = "connecting"
        try:
            if ceiling:
                parse_usd(ceiling)
            options = AddOptions(model=model, price=_parse_price(self._value("price")))
            line = await asyncio.to_thread(
                self._connect, target, options, self._value("key"), is_plain=is_plain
            )
        except NoKeyring as error:
            if await self.app.push_screen_wait(
                ConfirmScreen(
                    "Keep the key as plain text?", PLAIN_TEXT.format(why=error.why), "Keep it so"
                )
            ):
                self._add(is_plain=True)
        except PriceUnknown as error:
            price = self.query_one("#price", TextField)
            price.display = True
            price.focus()
            self._explain(f"{error.message} What does it cost?")
        except BatonError as error:
            self._explain(str(error))
        else:
            self.dismiss(Connected(line, ceiling))
        self.footer.status = ""

    def _explain(self, what: str) -> None:
        self.query_one("#trouble", Static).update(sanitise(what))


def _parse_price(typed: str) -> tuple[str, str] | None:
    """Return the two prices that were typed; None for none. Raises ConfigError."""
    words = typed.replace("$", " ").replace(",", " ").split()
    if not words:
        return None
    if len(words) != 2:
        raise ConfigError(
            "Two prices are needed, as in 0.25 2.", "The first is what reading costs."
        )
    for word in words:
        parse_usd(word)
    return words[0], words[1]
