"""The front's end of the gateway: one child process for all remote workers, many calls at once."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from baton.core.errors import BatonError, WorkerError
from baton.core.labels import Label
from baton.core.messages import Card
from baton.ipc.messages import Failed
from baton.ipc.process import Call, Child, ChildDied, environment, error_of, start_child
from baton.ipc.supervisor import Supervisor
from baton.platform import proxies
from baton.workers.cloud.messages import (
    REPLIES,
    CallWorker,
    EnginesFound,
    FindEngines,
    FindKey,
    FoundModel,
    KeyLookedUp,
    SetUpGateway,
    WarmGateway,
)
from baton.workers.cloud.model_settings import LearnedSettings

RecordRequest = Callable[[str, str, bytes], Awaitable[None]]
"""Keeps what a call sends, before it does: the call's id, the destination, exactly these bytes."""

RecordUnsent = Callable[[str], Awaitable[None]]
"""Keeps that what a call announced last did not leave."""

GATEWAY_VARIABLES = frozenset(
    {
        "APPDATA",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "KDE_FULL_SESSION",
        "LOCALAPPDATA",
        "LOGNAME",
        "PYTHON_KEYRING_BACKEND",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "USER",
        "USERPROFILE",
        "WAYLAND_DISPLAY",
        "XDG_CONFIG_HOME",
        "XDG_CURRENT_DESKTOP",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    }
)
"""The variables that keyrings and certificates need."""

PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY")


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """How many seconds to wait: for a connection, the first word, the next, and the whole answer.

    A wait is for silence: every byte begins it again, also that of a ping. `first` and `stall` are
    for models that don't think. One that may think, or a server's, which may have to be loaded
    first and read a long prompt, may be silent for `first_of_slow` before a word and between two:
    gpt-5-pro thinks for many minutes without showing it. Where the call could be made at
    another address as well, only `connect_of_many` is waited for a connection.
    """

    connect: float = 10.0
    connect_of_many: float = 3.0
    first: float = 120.0
    first_of_slow: float = 1800.0
    stall: float = 60.0
    total: float = 7200.0


async def _keep_no_record(call: str) -> None:
    """Nothing is kept of what could not be sent."""


class Gateway(Supervisor):
    """Starts and asks the gateway's child process.

    `record` writes the egress log before a request is sent, `record_unsent` that it couldn't be.
    Setting `offline` ends the child at once; while it is set, the
    child is started only for workers on this machine, and refuses every other address. Variables
    with keys that no worker named are not passed on to it. `home` is the id of the home that asks,
    `learned` what its models refused before.
    """

    def __init__(
        self,
        record: RecordRequest,
        *,
        keys_file: Path,
        record_unsent: RecordUnsent = _keep_no_record,
        proxy: str = "",
        effort: str = "low",
        offline: bool = False,
        home: str = "",
        learned: LearnedSettings | None = None,
        patience: CallTimeouts = CallTimeouts(),
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__("The connection to the cloud")
        self.record = record
        self.record_unsent = record_unsent
        self.effort = effort
        self.home = home
        self.learned = learned or LearnedSettings()
        self.patience = patience
        self._keys_file = keys_file.absolute()
        self._proxy = proxy
        self._offline = offline
        self._environ = environ
        self._variables: set[str] = set()
        self._models: dict[str, str] = {}

    @property
    def offline(self) -> bool:
        """Whether nothing but this machine may be connected to."""
        return self._offline

    @offline.setter
    def offline(self, value: bool) -> None:
        if value != self._offline:
            self._offline = value
            if self._child is not None:
                self._child.kill()

    def route_text(self, url: str, privacy: Label) -> str:
        """Return where requests to an address go, and through which proxy; "" if nowhere."""
        if not proxies.is_usable(url):
            return ""
        return proxies.route_text(url, proxies.proxy_for(url, self._proxy, self._environ, privacy))

    def register(self, card: Card, *variables: str) -> None:
        """Prepare for a worker: the child may read these variables of the environment for its key.

        A child that runs already, and isn't at work, starts again for it.
        """
        self._models = _cloud_model(card) | self._models
        new = {name for name in variables if name in self._environ} - self._variables
        self._variables |= new
        if new and self._child is not None and not self._child.calls:
            self._child.kill()

    def warm(self, card: Card | None = None) -> None:
        """Start the child, and all that a cloud worker needs in it. Returns at once."""
        if self._offline and (card is None or card.needs_network):
            return
        self.start_early()
        models = self._models if card is None else _cloud_model(card)
        if self._child is not None and models:
            self._child.send(WarmGateway(list(models.items())))

    async def call(self, card: Card, request: CallWorker, *, remote: bool) -> Call:
        """Begin a call, to an address that is `remote` or on this machine.

        Raises WorkerError, ChildDied, and FrameError if it is too large.
        """
        if self._offline and remote:
            raise self.offline_error(card)
        return (await self.ready()).call(request)

    def offline_error(self, card: Card) -> WorkerError:
        """Return the error of a call that may not be made offline."""
        return WorkerError(
            f"Baton is offline, and {card.id} is not on this machine.",
            "Choose a local worker, or leave offline.",
        )

    async def has_key(self, provider: str, variable: str, variables: Iterable[str]) -> bool:
        """Whether there is a key: in one of these variables, or where the child finds it.

        True as well where that can't be found out, as the call then says what is wrong.
        """
        if any(self._environ.get(name, "").strip() for name in variables):
            return True
        if self._offline:
            return True
        try:
            call = (await self.ready()).call(FindKey(provider, variable))
            found = await call.receive()
            return not isinstance(found, KeyLookedUp) or found.is_there
        except (BatonError, ChildDied):
            return True

    async def find_engines(self, host: str, limit: float) -> list[FoundModel]:
        """Return the models of a host's engines that answer within so many seconds.

        Raises BatonError and ChildDied.
        """
        call = (await self.ready()).call(FindEngines(host, limit))
        found = await call.receive()
        if isinstance(found, Failed):
            raise error_of(found)
        return found.models if isinstance(found, EnginesFound) else []

    def _start(self) -> Child:
        known = environment(self._environ, GATEWAY_VARIABLES | self._variables)
        child = start_child("gateway", known, REPLIES, self._title)
        names = [*PROXY_VARIABLES, *map(str.lower, PROXY_VARIABLES)]
        child.send(
            SetUpGateway(
                keys_file=self._keys_file,
                proxy=self._proxy,
                proxies={name: self._environ[name] for name in names if name in self._environ},
                offline=self._offline,
                total=self.patience.total,
                effort=self.effort,
            )
        )
        return child


def _cloud_model(card: Card) -> dict[str, str]:
    """Return a cloud worker's provider and model; nothing for a server."""
    if card.kind != "cloud":
        return {}
    return {card.provider: card.model.removeprefix(f"{card.provider}/")}
