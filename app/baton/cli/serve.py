"""`baton serve`: other programs use Baton as one model, on this machine."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import SimpleQueue
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from baton.cli.options import offline_option, quiet_option
from baton.cli.output import emit, notify
from baton.core.money import parse_usd
from baton.platform.paths import Paths, find_paths
from baton.platform.processes import (
    ENDING_SIGNALS,
    add_signal_handler,
    is_ignored,
    remove_signal_handler,
)
from baton.platform.settings import Settings, configured_values, load_settings
from baton.server import DEFAULT_PORT

if TYPE_CHECKING:
    from baton.compose import Baton
    from baton.presentation.served_requests import ServedRequest
    from baton.server import OpenEndpoint, ServerTokens, ServingLimits

LAST_LINES_SECONDS = 3.0
"""How long the lines of the last requests may take to be written."""

MAX_WAITING_LINES = 1_000

SERVED_SLOTS = 16
"""How many requests of other programs a model here answers at once: they share its context."""


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    metavar="N",
    help="Listen at this port; 0 takes any free one.",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Listen at another address than loopback: others in the network can reach it then.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Answer under this host name, too; may be given several times.",
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of this origin ask, with a token; may be given several times.",
)
@click.option(
    "--stop", is_flag=True, help="End the background process that keeps models loaded, and end."
)
@click.option("--show-token", is_flag=True, help="Print the tokens that programs need, and end.")
@click.option(
    "--print-config", metavar="NAME", help="Print the settings of a client, and end; `list` lists."
)
@click.option(
    "--budget",
    metavar="USD",
    help="The ceiling of the token that may spend, restarts included; allows spending where no"
    " other ceiling is set.",
)
@click.option("--private", is_flag=True, help="Let nothing that programs send leave this machine.")
@offline_option
@quiet_option
def serve(
    port: int,
    host: str | None,
    names: tuple[str, ...],
    origins: tuple[str, ...],
    stop: bool,
    show_token: bool,
    print_config: str | None,
    budget: str | None,
    private: bool,
    offline: bool,
    quiet: bool,
) -> int:
    """Let other programs use Baton as one model, until Ctrl+C.

    Editors and scripts that speak OpenAI's or Anthropic's protocol find the models baton/auto,
    baton/local, baton/mini and baton/ultra there, and each worker by its id. They need a token. The
    one that may spend does so within the ceilings of `baton budget` and --budget; what comes with
    the private one never leaves this machine.

    On stderr there is a line for each request: when, the program, the model, where it was answered,
    tokens read and written, seconds and cost, or why it was refused; -q leaves them out.

    \b
      baton serve
      baton serve --show-token
      baton serve --print-config aider
    """
    paths = find_paths()
    if stop:
        from baton.compose import background

        had_one = background.stop(paths)
        notify("It has ended." if had_one else "No background process runs.")
        return 0
    if show_token or print_config is not None:
        from baton.server import read_tokens

        tokens = read_tokens(paths.server_tokens)
        if show_token:
            emit(
                f"uses what is free   {tokens.free}\nmay also spend      {tokens.spend}\n"
                f"stays here          {tokens.private}"
            )
            return 0
        _print_config(print_config or "", port, tokens, paths, offline)
        return 0
    allowance = None if budget is None else parse_usd(budget)
    settings = _load_settings(paths.config_file, offline)
    allowed_places = replace(
        settings.serve,
        allow_hosts=(*settings.serve.allow_hosts, *names),
        allow_origins=(*settings.serve.allow_origins, *origins),
    )
    settings = replace(settings, serve=allowed_places)
    from baton.compose import background, compose
    from baton.server import ServingLimits, is_loopback

    if host and not is_loopback(host):
        notify(
            f"baton: Everyone who reaches {host} can ask Baton now, if they have a token;"
            " what they send isn't encrypted."
        )
    notice = background.share(settings, paths)
    allowed = ServingLimits(allowance, private)
    baton = compose(settings, paths, warm=settings.worker)
    with asyncio.Runner() as runner:
        try:
            baton.require_conductor()
            for sentence in (notice if not quiet else "", baton.warning):
                if sentence:
                    notify(f"baton: {sentence}")
            return runner.run(_serve(baton, port, host, allowed, quiet))
        finally:
            runner.run(baton.aclose())


def _print_config(name: str, port: int, tokens: ServerTokens, paths: Paths, offline: bool) -> None:
    """Print a client's settings to stdout, and what to do with them to stderr."""
    from baton.compose import answering_card
    from baton.server.client_settings import AnsweringModel, client_settings

    settings = _load_settings(paths.config_file, offline)
    model = AnsweringModel(*answering_card(settings, paths))
    printed = client_settings(name, port, tokens, model)
    emit(printed.text)
    for note in printed.notes:
        notify(f"baton: {note}")


def _load_settings(file: Path, offline: bool) -> Settings:
    """Return the settings; where they don't say how many requests a model takes at once, many."""
    flags: dict[str, Any] = {"offline": True} if offline else {}
    if "slots" not in configured_values(file).get("local", {}):
        flags["local"] = {"slots": SERVED_SLOTS}
    return load_settings(file, flags=flags)


class _LineWriter:
    """Writes a line for each request on stderr, in a thread: a terminal may hold up that alone.

    Requests that find too many lines before theirs have none.
    """

    def __init__(self) -> None:
        self._requests: SimpleQueue[ServedRequest | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def put(self, request: ServedRequest) -> None:
        """Have the line of a request written that is over."""
        if self._requests.qsize() < MAX_WAITING_LINES:
            self._requests.put(request)

    def close(self) -> None:
        """Let what waits be written, unless the terminal holds it up."""
        self._requests.put(None)
        self._thread.join(LAST_LINES_SECONDS)

    def _write(self) -> None:
        from baton.presentation.served_requests import request_line

        while request := self._requests.get():
            cells = get_terminal_size().columns if sys.stderr.isatty() else 0
            notify(request_line(request, cells))


def _ready_text(endpoint: OpenEndpoint, allowed: ServingLimits) -> str:
    private = " Nothing that programs send leaves this machine." if allowed.is_private else ""
    return (
        f"baton: Serving at {endpoint.url}; Ctrl+C ends it.{private}\n"
        "baton: `baton serve --show-token` shows the tokens, `--print-config list` names clients."
    )


@asynccontextmanager
async def _stopped_by_signal() -> AsyncIterator[asyncio.Event]:
    """Yield what the first signal to end sets; a second one ends this process at once."""
    stopped = asyncio.Event()
    signals = [number for number in (signal.SIGINT, *ENDING_SIGNALS) if not is_ignored(number)]

    def stop() -> None:
        stopped.set()
        for number in signals:
            remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        add_signal_handler(number, stop)
    yield stopped


async def _serve(
    baton: Baton, port: int, host: str | None, allowed: ServingLimits, quiet: bool
) -> int:
    from baton.server import LOOPBACK, serving

    hosts = LOOPBACK if host is None else (host,)
    lines = None if quiet else _LineWriter()
    report = None if lines is None else lines.put
    open_endpoint = serving(baton, port, hosts, allowed=allowed, report=report)
    async with _stopped_by_signal() as stopped, open_endpoint as endpoint:
        if not quiet:
            notify(_ready_text(endpoint, allowed))
        await stopped.wait()
        notify("baton: Stopping; running answers may finish.")
    if lines is not None:
        lines.close()
    return 0
