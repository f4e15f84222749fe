"""Decides whether money is held for a call, and words the refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baton.core.errors import BudgetExceeded, MoneyHeld
from baton.core.ledger_types import Hold, HoldRequest, Scope, ScopeBalance, opens_cloud
from baton.core.money import NANO, exact_usd, show_usd
from baton.core.sanitiser import one_line

MAX_AMOUNT_NANOS = 10**6 * NANO
"""The largest amount for one call and for a ceiling, so that sums always fit SQLite's integers."""

_CENT_NANOS = NANO // 100
_MIN_SHOWN_NANOS = NANO // 10_000  # money.show_usd names no amount below this


def decide_hold(bill: HoldRequest, rooms: Sequence[ScopeBalance], frozen: str = "") -> Hold:
    """Return the hold for a call, with `call` still empty. Raises BudgetExceeded.

    `rooms` are the balances of all its scopes; `frozen` is why the cloud is frozen, or "".
    """
    if frozen:
        raise BudgetExceeded(
            f"The cloud is frozen, so nothing was sent: {frozen}",
            "See `baton usage` and `baton egress ls`, then lift it with "
            "`baton budget release --freeze` or /budget.",
        )
    if bill.price.is_free:
        return Hold("", bill.cap, 0)
    _require_ceiling(bill, rooms)
    room = min((r for r in rooms if r.left is not None), key=lambda r: r.left or 0)
    amount = min(room.left or 0, MAX_AMOUNT_NANOS) // max(1, bill.share)
    allowed = bill.price.affordable_tokens(amount, bill.input_bound)
    cap = bill.cap if allowed is None else min(bill.cap, allowed)
    least = bill.price.max_cost(bill.input_bound, bill.least)
    if least > amount:
        if _can_wait(bill, rooms, least):
            raise _held_error(bill, room, least)
        raise _refusal_error(bill, room, least)
    return Hold("", cap, bill.price.max_cost(bill.input_bound, cap))


def unknown_price_error(worker: str, model: str) -> BudgetExceeded:
    """Return the error for a worker without a price, with the setting that gives it one."""
    unknown = f"The price of {model} is not known, so nothing was sent."
    if worker == model:  # it was named by its model, and has no entry
        add = f"`baton workers add {model} --price INPUT OUTPUT`"
        return BudgetExceeded(
            unknown, f"Look it up at the provider: {add} (US dollars per million tokens) keeps it."
        )
    return BudgetExceeded(
        unknown,
        f'Look it up at the provider, and put it into the [[workers]] entry with id = "{worker}" '
        "in config.toml (`baton config edit`), in US dollars per million tokens: "
        'price = { input = "DOLLARS", output = "DOLLARS" }',
    )


def overcharge_error(worker: str, cost: int, held: int) -> BudgetExceeded:
    """Return the error for a call that cost more than was held for it."""
    return BudgetExceeded(
        f"{one_line(worker)} charged {exact_usd(cost)} for a call that was to cost at most "
        f"{exact_usd(held)}.",
        "The cloud is frozen until `baton budget release --freeze`; first see `baton usage` and "
        "your bill.",
    )


def _require_ceiling(bill: HoldRequest, rooms: Sequence[ScopeBalance]) -> None:
    """Refuse where no ceiling allows spending."""
    if any(opens_cloud(room, bill.client) for room in rooms):
        return
    zeros = [room.scope.phrase for room in rooms if room.ceiling == 0]
    why = "no ceiling is set"
    if zeros:
        why = f"the ceiling is $0 for {' and '.join(zeros)}"
    elif bill.client:
        why = "no ceiling is set that programs can be held to, for the day or the month"
    hint = (
        "On the machine where Baton runs, `baton budget set day 2` allows spending, or "
        "`baton serve --budget 1` for this access token."
        if bill.client
        else "Allow spending with `baton budget set day 2` or /budget, or for one prompt with "
        "`--budget 0.10`."
    )
    raise BudgetExceeded(f"The cloud is off, so nothing was sent: {why}.", hint)


def _can_wait(bill: HoldRequest, rooms: Sequence[ScopeBalance], least: int) -> bool:
    """Whether other runs hold enough money that may come back.

    A run that holds money itself never waits, so that no two wait for each other.
    """
    if not bill.patience or any(room.held for room in rooms if room.scope is Scope.RUN):
        return False
    lefts = [room.left for room in without_holds(rooms) if room.left is not None]
    return least <= min(lefts) // max(1, bill.share)


def without_holds(rooms: Sequence[ScopeBalance]) -> list[ScopeBalance]:
    """Return the balances as they are once all that is held came back."""
    return [replace(room, held=0) for room in rooms]


def _held_error(bill: HoldRequest, room: ScopeBalance, least: int) -> MoneyHeld:
    figures = _Figures(bill, room, least)
    return MoneyHeld(
        f"Other prompts held the rest of the ceiling of {figures.ceiling} for {room.scope.phrase} "
        f"for {bill.patience:g} seconds, and this call to {bill.worker} needs at least "
        f"{figures.least}; nothing was sent.",
        f"Ask again once they are done. {_hint(bill, room, figures)}",
        room.scope.value,
    )


def _refusal_error(bill: HoldRequest, room: ScopeBalance, least: int) -> BudgetExceeded:
    figures = _Figures(bill, room, least)
    rest = f"has {figures.left} left" if room.left else "is used up"
    if room.ceiling == 0:
        rest = "lets nothing through"
    elif room.left and bill.share > 1:
        rest += f" for {bill.share} calls at once"
    return BudgetExceeded(
        f"The ceiling of {figures.ceiling} for {room.scope.phrase} {rest}, and this "
        f"call to {bill.worker} needs at least {figures.least}; nothing was sent.",
        _hint(bill, room, figures),
    )


class _Figures:
    """The amounts of one refusal, rounded by one rule, so that they add up as printed.

    What is left is rounded down and what is needed up, to the smallest difference that one of them
    needs to be seen. `enough` is the ceiling that suffices by the amounts as they are printed.
    """

    def __init__(self, bill: HoldRequest, room: ScopeBalance, least: int) -> None:
        ceiling, left = room.ceiling or 0, room.left or 0
        step = min([_CENT_NANOS, *(_shown_step(n) for n in (left, least) if n >= _MIN_SHOWN_NANOS)])
        while ceiling % step:
            step //= 10
        self._step = step
        used = max(room.used, ceiling)  # beyond the ceiling there is nothing left, but more is used
        self.enough = _rounded_up(
            used - left // step * step + _rounded_up(least, step) * max(1, bill.share), _CENT_NANOS
        )
        self.ceiling = self.show(ceiling)
        self.left = self.show(left // step * step) if left >= step else f"under {self.show(step)}"
        self.least = self.show(_rounded_up(least, step))

    def show(self, amount: int) -> str:
        """Write an amount without the decimals that none of them needs."""
        return exact_usd(amount - amount % self._step)


def _hint(bill: HoldRequest, room: ScopeBalance, figures: _Figures) -> str:
    """Return how to allow the call: the smallest sufficient ceiling of this scope."""
    enough = figures.enough
    if enough > MAX_AMOUNT_NANOS:
        return "Ask a cheaper worker, or send less."
    dollars = f"{enough // NANO}.{enough % NANO // _CENT_NANOS:02d}"
    if room.scope is Scope.RUN and bill.is_inherited:
        way = (
            "A resumed run keeps the ceiling that it began with. Ask again, which begins a new "
            f"run, with `--budget {dollars}`."
        )
    elif room.scope is Scope.RUN and bill.client:
        way = f"The program that asked set this ceiling; it suffices from ${dollars} on."
    elif room.scope is Scope.RUN:
        way = f"Allow this prompt more with `--budget {dollars}`."
    elif room.scope is Scope.TOKEN:
        way = f"Serve with `baton serve --budget {dollars}` to allow it more."
    elif room.variable:
        way = f"Set {room.variable} to {dollars} in the environment, and start Baton again."
    else:
        way = f"Raise it with `baton budget set {room.scope} {dollars}` or /budget."
    if room.unconfirmed:
        way += (
            f" {figures.show(room.unconfirmed)} of it is unconfirmed: `baton budget release` gives "
            "back what you weren't charged."
        )
    return way


def shown_rounded_up(amount: int) -> str:
    """Show an amount rounded up; see `shown_rounded_down`: too much never looks like enough."""
    return show_usd(_rounded_up(amount, _shown_step(max(amount, _MIN_SHOWN_NANOS))))


def shown_rounded_down(amount: int) -> str:
    """Show an amount rounded down, and none as zero that isn't."""
    return show_usd(amount if amount < _MIN_SHOWN_NANOS else amount - amount % _shown_step(amount))


def _shown_step(amount: int) -> int:
    """Return the smallest difference that `show_usd` shows at this amount."""
    return _CENT_NANOS if amount >= _CENT_NANOS else 10 ** (len(str(amount)) - 1)


def _rounded_up(amount: int, step: int) -> int:
    return -(-amount // step) * step
