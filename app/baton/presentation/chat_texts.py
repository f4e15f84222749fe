"""What a chat says besides answers: how it begins, and what a changed setting does from now on."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import RecentConversation
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Standing
from baton.core.messages import TurnStatus
from baton.core.money import show_usd
from baton.core.permissions import RunTerms
from baton.core.sanitiser import one_line
from baton.core.view import RunView
from baton.presentation.run_story import CardsById, has_not_begun, interruption_text
from baton.presentation.words import POLICY_NAMES, ago_text

HOME_TEXT = (
    "Ask here. Small questions stay on this machine; hard ones become steps;\n"
    "the cloud is asked only if you say so, never above your ceiling."
)

_ENDINGS = {
    TurnStatus.STREAMING: "being answered",
    TurnStatus.CUT: "cut at its length limit",
    TurnStatus.CANCELLED: "stopped",
    TurnStatus.FAILED: "failed",
    TurnStatus.LOST: "interrupted",
}


@frozen_dataclass
class RecentText:
    """A conversation to continue, in words; `at` is the answer to continue (None: none is open).

    `state` says how its newest answer ended, if not well, and what the conversation cost.
    """

    conversation: str
    title: str
    age: str
    state: str
    at: str | None = None


def recent_text(recent: RecentConversation, run: RunView, now: float) -> RecentText:
    """Put a conversation into words; `run` is that of its newest answer, as far as it is known."""
    has_more = recent.status is TurnStatus.CUT and not run.is_all_thoughts
    can_continue = bool(interruption_text(run)) or has_more or recent.status is TurnStatus.LOST
    cost = show_usd(recent.cost) if recent.cost else ""
    return RecentText(
        recent.id,
        one_line(recent.title),
        ago_text(now - recent.updated),
        " · ".join(filter(None, (_ending_text(recent.status, run), cost))),
        recent.turn if can_continue else None,
    )


def _ending_text(status: TurnStatus, run: RunView) -> str:
    if not interruption_text(run):
        return _ENDINGS.get(status, "")
    if has_not_begun(run):
        return "plan kept, not run"
    first = next(step.number for step in run.steps if step.status != "done")
    return f"interrupted at step {first}"


def models_text(roster: CardsById, worker: str, key: str) -> str:
    """Say which worker answers, and how many others there are; `key` shows what could."""
    if (card := roster.get(worker)) is None:
        return f"none here yet; {key} shows what suits this machine"
    note = f": {card.note[0].lower()}{card.note[1:].rstrip('.')}" if card.note else ""
    others = sum(not other.is_tool for other in roster.values()) - 1
    more = f" · {others} more" if others else ""
    return f"{one_line(card.name, 40)}{one_line(note, 80)}{more}"


def cloud_text(standing: Standing, roster: CardsById, terms: RunTerms, *, is_private: bool) -> str:
    """Say whether the cloud is asked, what was spent of what, or what would turn it on."""
    cards = [card for card in roster.values() if card.place is Label.CLOUD]
    if terms.offline:
        return "off: Baton is offline; /offline off lifts that"
    if is_private:
        return "off: this conversation is private"
    if terms.mode == "local":
        return "off: this mode keeps all on this machine; /mode auto lifts that"
    if not cards:
        return "off; /connect sets a provider up"
    if terms.policy is Policy.NEVER:
        return "off: never asked; /budget policy ask changes that"
    if standing.frozen:
        return "frozen; /budget shows why"
    how = POLICY_NAMES[terms.policy]
    room = standing.tightest if standing.is_cloud_on else None
    if room is not None and room.ceiling is not None:
        return f"{how} · {show_usd(room.used)} of {show_usd(room.ceiling)} {room.scope.phrase}"
    if any(card.is_free for card in cards):
        return how
    return "off: no ceiling is set; /budget day 2 allows $2 a day"


# Settings


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
        return "From now on this conversation stays on this machine."
    return "This conversation may leave this machine again, if you let a cloud worker help."
