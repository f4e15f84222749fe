"""The parts of Baton that the app works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.permissions import ANYTHING, PromptLimits

if TYPE_CHECKING:
    from baton.compose.worker_entries import AddOptions
    from baton.core.catalogue_types import ModelRole
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store
    from baton.models import Library, LibraryModel
    from baton.money import Ledger
    from baton.presentation.served_requests import ServedRequest
    from baton.routing import Personaliser


def _do_nothing() -> None:
    """There is nothing to be warmed."""


def _report_nothing(_: Callable[[str], object]) -> None:
    """Nothing turns out later."""


def _join_nothing(_: LibraryModel) -> str:
    """No worker is added."""
    return ""


def _assign_nothing(_: str, __: Sequence[ModelRole]) -> str:
    """Roles stay as they are."""
    return ""


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


def _no_roles() -> Mapping[ModelRole, str]:
    """No worker has a role."""
    return {}


@frozen_dataclass
class AppServices:
    """Everything behind the screens.

    `config` is the file with the settings; `exports` and `logs` are folders, made when first
    needed. `warm_cloud` starts what a cloud call will need, if there can be one. `report_later`
    takes a function that shows the person what only turns out while prompts are played.
    `tutor` makes what trains the router on answers (None: there is none).

    `library` holds the models (None: there are only the workers). `join` makes a model that has
    arrived a worker, in the roles of its record, and returns the line that says so; `leave` lets a
    worker go whose file is about to. `roles` says who has which, `assign` gives some to a worker
    and returns a line, too. `state` is the folder for what the app remembers of what was decided.
    `started` is called once the first frame is on the screen. `has_warnings` is whether doubts
    about an answer are shown, `has_side_bar` whether the side bar is. `serve` lets other programs
    use these parts (None: it can't). `connect` adds a worker and keeps its key, and returns the
    line that says so.
    """

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    config: Path
    exports: Path
    logs: Path
    limits: PromptLimits = ANYTHING
    worker: str | None = None
    conversation: str | None = None
    greeting: str = ""
    warm_cloud: Callable[[], None] = _do_nothing
    report_later: Callable[[Callable[[str], object]], None] = _report_nothing
    tutor: Callable[[], Personaliser] | None = None
    library: Library | None = None
    join: Callable[[LibraryModel], str] = _join_nothing
    leave: Callable[[str], Awaitable[None]] = _leave_nothing
    roles: Callable[[], Mapping[ModelRole, str]] = _no_roles
    assign: Callable[[str, Sequence[ModelRole]], str] = _assign_nothing
    state: Path | None = None
    started: Callable[[], None] = _do_nothing
    has_warnings: bool = True
    has_side_bar: bool = True
    serve: Serve | None = None
    connect: Connect = _connect_nothing
