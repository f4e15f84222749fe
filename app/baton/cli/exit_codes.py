"""With which exit code a command ends that fails; it is 130 after Ctrl+C."""

from __future__ import annotations

from baton.core.errors import (
    BatonError,
    BudgetExceeded,
    ConfigError,
    ModelFileError,
    SecretMissing,
    WorkerError,
)

EXIT_CODES: dict[type[BatonError], int] = {
    ConfigError: 2,
    SecretMissing: 3,
    BudgetExceeded: 4,
    ModelFileError: 5,
    WorkerError: 6,
}
"""The exit code of each cause, its subclasses included; of any other error it is 1."""


def exit_code(kind: type[BatonError]) -> int:
    """Return the exit code of a command that ended with such an error."""
    return next((EXIT_CODES[cls] for cls in kind.__mro__ if cls in EXIT_CODES), 1)
