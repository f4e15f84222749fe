"""What the doctor says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from baton.core.sanitiser import one_line

_MAX_TEXT_CHARS = 400


class CheckState(StrEnum):
    """How a thing is: `warn` works, but not as well as it could."""

    OK = "ok"
    WARN = "warn"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found."""

    name: str
    state: CheckState
    text: str

    def as_line(self) -> str:
        """Return it as one line for a person."""
        return f"{self.state:7} {self.name:12} {one_line(self.text, _MAX_TEXT_CHARS)}"
