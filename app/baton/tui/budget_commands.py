"""What is typed after `/budget`."""

from __future__ import annotations

from dataclasses import dataclass

from baton.core.errors import ConfigError
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.money import parse_usd
from baton.tui.money_text import POLICY_NAMES

_SCOPES = (Scope.SESSION, Scope.DAY, Scope.MONTH)
_EXAMPLE_HINT = (
    "For example: /budget day 2, /budget month none, /budget policy once, /budget pace frugal."
)


@dataclass(frozen=True, slots=True)
class SetCeiling:
    """A ceiling is to be `amount` nano-dollars, typed as `text` (None and "": no ceiling)."""

    scope: Scope
    amount: int | None
    text: str


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """When money may be spent from now on; only in this conversation, if `here`."""

    policy: Policy
    here: bool = False


@dataclass(frozen=True, slots=True)
class SetPace:
    """How much help must gain from now on."""

    thrift: SpendingStyle


@dataclass(frozen=True, slots=True)
class Release:
    """The unconfirmed charges are to be taken back."""


BudgetCommand = SetCeiling | SetPolicy | SetPace | Release


def parse_budget(words: str) -> BudgetCommand:
    """Read what was typed after `/budget`. Raises ConfigError."""
    match words.lower().replace("=", " ").split():
        case ["release"]:
            return Release()
        case ["policy"]:
            return SetPolicy(_parse_policy(""))
        case ["policy", name, *rest] if rest in ([], ["here"]):
            return SetPolicy(_parse_policy(name), bool(rest))
        case ["pace", *rest] if len(rest) < 2:
            return SetPace(_parse_pace("".join(rest)))
        case [scope, amount] if scope in _SCOPES:
            if amount in ("none", "off", "-"):
                return SetCeiling(Scope(scope), None, "")
            return SetCeiling(Scope(scope), parse_usd(amount), amount.removeprefix("$"))
        case ["run", *_]:
            raise ConfigError("A prompt has no ceiling of its own in the app.", _EXAMPLE_HINT)
        case _:
            raise ConfigError(f"/budget {words} is not understood.", _EXAMPLE_HINT)


def _parse_policy(name: str) -> Policy:
    try:
        return Policy(name)
    except ValueError:
        known = ", ".join(f"{policy} ({words})" for policy, words in POLICY_NAMES.items())
        what = f"There is no policy {name!r}." if name else "Which policy?"
        raise ConfigError(what, f"There are: {known}.") from None


def _parse_pace(name: str) -> SpendingStyle:
    try:
        return SpendingStyle(name)
    except ValueError:
        known = ", ".join(f"{pace} ({pace.description})" for pace in SpendingStyle)
        what = f"There is no pace {name!r}." if name else "Which pace?"
        raise ConfigError(what, f"There are: {known}.") from None
