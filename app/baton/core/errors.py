"""The errors that Baton shows to the user.

    BatonError(message, hint)
      ConfigError            a setting or an argument is wrong          exit 2
      SecretMissing          no key for a provider                      exit 3
      BudgetExceeded         refused before spending                    exit 4
        MoneyHeld              it may be granted later
      ModelFileError         a model file is missing, broken, too large exit 5
        AdapterError           only the adapter doesn't fit the model
      WorkerError            a worker failed                            exit 6
        WorkerUnavailable      it may work when tried again
        ContextTooLong         the prompt doesn't fit
        SettingRefused         it may be asked once more without a setting
      PlanError              a plan can't be run; repaired or replaced exit 1
      StoreError             history could not be read or written       exit 1

A class exists because a caller handles it differently. `message` says what happened and what was
kept, `hint` says what to do. Cancellation isn't an error, and bugs are never wrapped.
"""

from __future__ import annotations


class BatonError(Exception):
    """An error that the user can understand and fix.

    Both texts are plain sentences. They may quote untrusted text, so they are sanitised where
    they are shown.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class ConfigError(BatonError):
    """A setting, an option or an argument is wrong."""


class SecretMissing(BatonError):
    """A provider's key isn't there, or the provider refused it."""


class BudgetExceeded(BatonError):
    """A call was refused before it could cost more than the ceiling."""


class MoneyHeld(BudgetExceeded):
    """Other runs hold the money that a call needs, which may come back; `scope` is whose it is."""

    def __init__(self, message: str, hint: str, scope: str) -> None:
        super().__init__(message, hint)
        self.scope = scope


class ModelFileError(BatonError):
    """A model file is missing, unreadable, broken or too large for this machine."""


class AdapterError(ModelFileError):
    """An adapter can't be put on a model, which itself can be used."""


class WorkerError(BatonError):
    """A worker could not do what it was asked."""


class WorkerUnavailable(WorkerError):
    """A worker died or didn't answer; trying again may work."""


class SettingRefused(WorkerError):
    """A provider refused a setting, at no charge; the worker leaves it out from now on."""


class ContextTooLong(WorkerError):
    """The prompt and the room for the answer don't fit the worker's context.

    Sizes are in tokens: `needed` for the prompt, with the least room for an answer where it would
    fit without; `limit` is the context.
    """

    def __init__(self, needed: int, limit: int) -> None:
        super().__init__(
            f"This conversation needs {needed:,} tokens, and the worker can hold {limit:,}.",
            "Drop the oldest turns, or start a new conversation.",
        )
        self.needed = needed
        self.limit = limit


class PlanError(BatonError):
    """A plan that can't be run: it is repaired once, then another takes its place."""


class StoreError(BatonError):
    """The history could not be read or written."""


ERROR_CLASSES: dict[str, type[BatonError]] = {
    cls.__name__: cls
    for cls in (
        BatonError,
        ConfigError,
        SecretMissing,
        BudgetExceeded,
        ModelFileError,
        AdapterError,
        WorkerError,
        WorkerUnavailable,
        ContextTooLong,
        PlanError,
        StoreError,
    )
}
"""Names as they stand in stored events and in `--json`, back to classes (for the exit code)."""


def stored_name(error: BatonError) -> str:
    """Return the name of an error's class in `ERROR_CLASSES`, or of the nearest one above it."""
    return next(cls.__name__ for cls in type(error).__mro__ if cls.__name__ in ERROR_CLASSES)
