"""How a person changes the way that answers are made: what they may type, and what is said then."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from baton.core.errors import ConfigError
from baton.core.ledger_types import Policy
from baton.core.sanitiser import one_line
from baton.presentation.charges import POLICY_NAMES

MODES = {
    "auto": "local first, with help and plans where they are needed",
    "local": "nothing leaves this machine",
    "mini": "never waits for a plan",
    "ultra": "plans, has another worker verify, and repairs once",
}


def find_mode(typed: str) -> str:
    """Return the mode that was typed. Raises ConfigError."""
    if (mode := typed.strip().lower()) in MODES:
        return mode
    raise ConfigError(f"There is no mode {one_line(typed, 30)!r}.", "/mode alone lists them.")


def find_strategy(typed: str, known: Collection[str]) -> str:
    """Return the strategy or workflow that was typed, "" for `auto`. Raises ConfigError."""
    strategy = typed.strip()
    if strategy in known:
        return strategy
    if strategy == "auto":
        return ""
    near = difflib.get_close_matches(strategy, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "/strategy alone lists them."
    raise ConfigError(f"There is no strategy {one_line(strategy, 30)!r}.", hint)


def is_on(typed: str) -> bool:
    """Return what was typed after a command that switches something on or off."""
    return typed.strip().lower() not in ("off", "no")


def mode_text(mode: str) -> str:
    """Say what a mode does from now on."""
    return f"Mode: {mode}, {MODES[mode]}."


def strategy_text(strategy: str) -> str:
    """Say with which strategy prompts are answered from now on ("": as the mode says)."""
    return f"Strategy: {f'{strategy}, until /strategy auto' if strategy else 'automatic'}."


def offline_text(offline: bool, policy: Policy) -> str:
    """Say what Baton connects to from now on."""
    if offline:
        return "Baton is offline: it connects to nothing but this machine, until /offline off."
    return f"Online. When to spend: {POLICY_NAMES[policy]}."


def private_text(private: bool) -> str:
    """Say how far a conversation may travel from now on."""
    if private:
        return "Nothing of this conversation leaves this machine from now on."
    return "This conversation may leave this machine again, if you let a cloud worker help."
