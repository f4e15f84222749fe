"""Counts, files and money in words, the same in every front end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from baton.core.hold_decision import shown_rounded_down, shown_rounded_up
from baton.core.ledger_types import Charge, Policy, Scope, ScopeBalance, Standing, Status
from baton.core.machine import show_size
from baton.core.messages import EMPTY_PAGE, NO_MEANING, Attachment, Card, estimated_tokens
from baton.core.money import format_usd, show_usd
from baton.core.ports import CallOffer
from baton.core.sanitiser import one_line


def join_words(words: Sequence[str]) -> str:
    """Join words as a sentence does: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def count_text(number: int, noun: str) -> str:
    """Write how many there are: "1 model", "3 models"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration_text(seconds: float) -> str:
    """Write a time to wait: "40 s", "3 min", "1 h 20 min", "3 days"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def ago_text(seconds: float) -> str:
    """Say how long ago something was: "just now", "2 min ago", "1 day ago", "3 months ago"."""
    for size, unit in ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day")):
        if seconds >= size:
            return f"{count_text(int(seconds / size), unit)} ago"
    if seconds >= 3600:
        return f"{int(seconds / 3600)} h ago"
    return f"{int(seconds / 60)} min ago" if seconds >= 60 else "just now"


def percent_done(done: int, total: int) -> int:
    """Return how much is done, in whole percent: 100 only when it is all."""
    return 100 * done // total if total else 0


def files_text(files: Sequence[Attachment]) -> str:
    """Sum up many files: how many, their size and about how many tokens they take."""
    size, tokens = sum(f.size for f in files), sum(estimated_tokens(f.text) for f in files)
    return f"{count_text(len(files), 'file')} ({show_size(size)}, about {tokens:,} tokens)"


def file_text(file: Attachment) -> str:
    """Name a file with its size, about how many tokens it takes, and what its text lacks."""
    size = f"{show_size(file.size)}, about {estimated_tokens(file.text):,} tokens"
    lack = lack_text(file)
    return f"{one_line(file.name, 40)} ({size}){'; ' if lack else ''}{lack}"


def lack_text(file: Attachment) -> str:
    """Say which pages of a file have no text and how much of it can't be read, or return ""."""
    pages, glyphs = _EMPTY_PAGE.findall(file.text), file.text.count(NO_MEANING)
    shown = ", ".join([*pages[:5], *(["..."] if len(pages) > 5 else [])])
    parts = [
        f"{count_text(len(pages), 'page')} without text ({shown})" if pages else "",
        f"{count_text(glyphs, 'character')} that can't be read" if glyphs else "",
    ]
    return join_words([part for part in parts if part])


_EMPTY_PAGE = re.compile(f"^{re.escape(EMPTY_PAGE)}$".replace(r"\{\}", r"(\d+)"), re.MULTILINE)


# Money


FROZEN_TEXT = "cloud frozen"
SCOPE_REMAINDERS = {
    Scope.RUN: "left for this prompt",
    Scope.SESSION: "left in this conversation",
    Scope.TOKEN: "left for this access token",
    Scope.DAY: "left today",
    Scope.MONTH: "left this month",
}
POLICY_NAMES = {
    Policy.ASK: "ask each time",
    Policy.ONCE: "ask once in a conversation",
    Policy.BUDGET: "within the ceilings, without asking",
    Policy.NEVER: "never",
}
_ALARM_PERCENTS = (80, 100)


def spending_summary(standing: Standing) -> str:
    """Write what was spent of what: "" while the cloud is off and nothing was."""
    return next(iter(spending_wordings(standing)), "")


def spending_wordings(standing: Standing) -> tuple[str, ...]:
    """Write what was spent of what, in full and in short.

    () while the cloud is off and nothing was.
    """
    most = max(standing.rooms, key=lambda room: room.used, default=None)
    if standing.frozen:
        return (FROZEN_TEXT,)
    if most is None or not (standing.is_cloud_on or most.used):
        return ()
    room = standing.tightest if standing.is_cloud_on else None
    if room is None or room.ceiling is None:
        room = most
        short = f"{show_usd(room.used)} spent"
        parts = [short, "cloud off"]
    else:
        used, ceiling = show_usd(room.used), show_usd(room.ceiling)
        short = f"{used}/{ceiling.removeprefix('$')}"
        parts = [f"{used} of {ceiling}"]
    parts += [f"{show_usd(room.held)} held"] if room.held else []
    if room.unconfirmed:
        parts.append(f"{show_usd(room.unconfirmed)} unconfirmed")
        short += " unconfirmed"
    return " · ".join(parts), short


def room_text(room: ScopeBalance) -> str:
    """Write out what a scope's use is made of: "charged $0.13, held $0.01"."""
    parts = [f"charged {show_usd(room.settled)}"]
    parts += [f"held {show_usd(room.held)}"] if room.held else []
    parts += [f"unconfirmed {show_usd(room.unconfirmed)}"] if room.unconfirmed else []
    if room.left is not None:
        parts.append(f"{shown_rounded_down(room.left)} left")
    return ", ".join(parts)


def estimate_text(expected: int | None, most: int) -> str:
    """Write what something likely costs, where that is known: "about $0.003, at most $0.02"."""
    about = "" if expected is None else f"about {show_usd(min(expected, most))}, "
    return f"{about}at most {shown_rounded_up(most)}"


def call_price_text(offer: CallOffer) -> str:
    """Write what a call may cost, and what is left of the tightest ceiling before it."""
    cost = estimate_text(offer.expected, offer.most) if offer.most else "costs nothing"
    if offer.left is None or offer.scope not in set(Scope):
        return cost
    return f"{cost} · {shown_rounded_down(offer.left)} {SCOPE_REMAINDERS[Scope(offer.scope)]}"


def charge_text(status: Status, held: int, charged: int) -> str:
    """Say what became of a call's money."""
    match status:
        case Status.HELD:
            return f"{show_usd(held)} held"
        case Status.SETTLED:
            return f"{show_usd(charged)} charged"
        case Status.UNCONFIRMED:
            return f"{show_usd(charged)} unconfirmed"
        case Status.RELEASED:
            return "released"
        case Status.VOID:
            return "nothing charged"


def unconfirmed_text(charges: Sequence[Charge]) -> str:
    """Write the sum of some charges."""
    count = count_text(len(charges), "unconfirmed charge")
    return f"{count}, {show_usd(sum(c.charged for c in charges))} in all"


@dataclass(slots=True)
class CeilingAlarm:
    """Reports once for each scope when 80 % or all of its ceiling is used.

    What was used when a conversation was opened stands in the header already, and is not reported.
    """

    _passed: dict[tuple[Scope, str | None], int] = field(default_factory=dict)

    def new_alarms(self, standing: Standing, session: str | None, spent: bool) -> list[str]:
        """Return the lines to show now; `spent` is whether a call has just been made."""
        lines = []
        for room in standing.rooms:
            if not room.ceiling:
                continue
            key = (room.scope, session if room.scope is Scope.SESSION else None)
            used = 100 * (room.settled + room.unconfirmed) // room.ceiling
            passed = max((step for step in _ALARM_PERCENTS if used >= step), default=0)
            if passed > self._passed.get(key, 0):
                self._passed[key] = passed
                if spent:
                    lines.append(_alarm_text(room, passed))
        return lines


def _alarm_text(room: ScopeBalance, passed: int) -> str:
    ceiling = show_usd(room.ceiling or 0)
    name = f"the ceiling of {ceiling} for {room.scope.phrase}"
    if passed >= 100:
        return f"All of {name} is used; Baton continues locally. /budget raises it."
    charged = show_usd(room.settled + room.unconfirmed)
    return f"{passed} % of {name} is used ({charged}). /budget raises it."


def price_text(card: Card) -> str:
    """Say what a worker costs."""
    if card.price is None:
        return "price unknown"
    if card.price.is_free:
        return "costs nothing"
    rates = card.price.rates
    return f"{rate_text(rates.input)} in, {rate_text(rates.output)} out per million tokens"


def rate_text(rate: int) -> str:
    """Write a rate with all its digits, but cents with two: "$0.0375", "$0.10", "$2"."""
    whole, point, rest = format_usd(rate).partition(".")
    return f"${whole}{point}{rest.ljust(2, '0') if rest else ''}"
