"""What the app works with, handed in from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.engine.policy import ANYTHING, Limits

if TYPE_CHECKING:
    from baton.adapters.ledger import Ledger
    from baton.adapters.store import Store
    from baton.engine.learning import Tutor
    from baton.engine.orchestra import Orchestra


def _nothing() -> None:
    """There is nothing to be warmed."""


def _never(_: Callable[[str], object]) -> None:
    """Nothing turns out later."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything behind the screens.

    `config` is the file with the settings; `exports` and `logs` are folders, made when first
    needed. `warm_cloud` starts what a call elsewhere will need, if there can be one. `tell_later`
    takes what says something to the person, for what only turns out while prompts are played.
    `tutor` makes what has the router learn from answers (None: there is none).
    """

    orchestra: Orchestra
    store: Store
    ledger: Ledger
    config: Path
    exports: Path
    logs: Path
    limits: Limits = ANYTHING
    worker: str | None = None
    conversation: str | None = None
    greeting: str = ""
    warm_cloud: Callable[[], None] = _nothing
    tell_later: Callable[[Callable[[str], object]], None] = _never
    tutor: Callable[[], Tutor] | None = None
