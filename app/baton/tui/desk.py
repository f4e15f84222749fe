"""What the app works with, handed in from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from baton.engine.policy import ANYTHING, Limits

if TYPE_CHECKING:
    from baton.adapters.store import Store
    from baton.engine.orchestra import Orchestra


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything behind the screens. `exports` and `logs` are folders, made when first needed."""

    orchestra: Orchestra
    store: Store
    exports: Path
    logs: Path
    limits: Limits = ANYTHING
    worker: str | None = None
    conversation: str | None = None
    offline: bool = False
    greeting: str = ""
