"""What the doctor says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from baton.core.sanitiser import one_line

_LONGEST = 400


class State(StrEnum):
    """How a thing is: `warn` works, but not as well as it could."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    state: State
    text: str

    def line(self) -> str:
        """Return it as one line for a person."""
        return f"{self.state:7} {self.name:12} {one_line(self.text, _LONGEST)}"
