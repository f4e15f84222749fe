"""`baton budget`: what may be spent, what was, and what each worker costs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from baton.cli.options import AliasedGroup
from baton.cli.output import emit, emit_document, iso_time, notify
from baton.cli.stores import format_columns, format_time, with_ledger
from baton.core.errors import BatonError, ConfigError
from baton.core.hold_decision import shown_rounded_down, unknown_price_error
from baton.core.ledger_types import Charge, Policy, Scope, ScopeBalance, SpendingStyle, Standing
from baton.core.money import Price, Rates, format_usd, parse_usd, show_usd
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import LocalWorkerSettings, Settings, load_settings, write_settings
from baton.presentation.words import POLICY_NAMES

if TYPE_CHECKING:
    from baton.money import Ledger
    from baton.workers.cloud import Snapshot

_STALE_DAYS = 90
_NO_CEILING = "none"


@click.group(cls=AliasedGroup)
def budget() -> None:
    """Show and set what may be spent on cloud workers.

    A ceiling holds for all Batons on this machine together. Nothing is spent until one is set.
    """


@budget.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Show the ceilings, and how much of each is used."""
    settings = load_settings(find_paths().config_file)
    ceilings = settings.budget.ceilings
    standing = with_ledger(lambda ledger: ledger.standing(ceilings, ""))
    if as_json:
        return emit_document(**standing_object(settings, standing))
    pace = settings.budget.pace
    lines = [
        budget_verdict(settings, standing),
        f"Its pace is {pace}: {pace.description}.",
        "",
        _scope_table(standing),
    ]
    if any(room.unconfirmed for room in standing.rooms):
        lines += ["", "What the unconfirmed calls cost is not known: `baton budget release`."]
    emit("\n".join(lines))


@budget.command("set", short_help="Set a ceiling, when to ask, or the pace.")
@click.argument("what", type=click.Choice(["session", "day", "month", "policy", "pace"]))
@click.argument("value")
def set_(what: str, value: str) -> None:
    """Set a ceiling in US dollars, when to ask, or how much help must gain.

    \b
      baton budget set day 2            at most $2 a day
      baton budget set session 0.50     at most 50 cents in one conversation
      baton budget set month none       no limit of its own
      baton budget set day 0            nothing at all
      baton budget set policy ask       ask each time (or: once, budget, never)
      baton budget set pace frugal      only where it gains much (or: balanced, best)
    """
    if what in ("policy", "pace"):
        _set_choice(what, value)
    else:
        _set_ceiling(Scope(what), value)


@budget.command()
@click.argument("words", nargs=-1)
@click.option("--all", "every", is_flag=True, help="List all models whose price is known.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prices(words: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Show what the workers cost, and where each price comes from.

    With WORDS, the known models whose names hold them, and why others can't be used: `baton budget
    prices gpt mini`.
    """
    from baton.workers.cloud import snapshot, why_unusable

    listed, wants_models = snapshot(), bool(words or every)
    unusable = why_unusable(words) if wants_models else {}
    rows = list(_worker_prices())
    if wants_models:
        rows = [row for row in _model_prices(words) if row[1] not in unusable]
    if as_json:
        return emit_document(
            snapshot=listed.date,
            source=listed.source,
            age_days=_age_days(listed.date),
            sources=[
                {"name": name, "date": date, "age_days": _age_days(date)}
                for name, date in listed.dates.items()
            ],
            unusable=[{"name": name, "reason": why} for name, why in unusable.items()],
            prices=[price_object(*row) for row in rows],
        )
    if rows:
        emit(_price_table(rows))
    else:
        notify("No worker costs money." if not words else "No model of such a name can be used.")
    if unusable:
        lines = [f"  {one_line(name, 80)}: {one_line(why, 600)}" for name, why in unusable.items()]
        emit("\n".join(["", "Can't be used:", *lines]))
    _report_price_list(listed, rows)
    for worker, model, price in rows:
        if price is None:
            notify(str(unknown_price_error(worker, model)))


@budget.command()
@click.argument("calls", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Release all of them.")
@click.option("--freeze", is_flag=True, help="Lift a freeze of the cloud.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (of the list).")
def release(calls: tuple[str, ...], every: bool, freeze: bool, as_json: bool) -> None:
    """Give back unconfirmed charges: those of CALLS, or list them.

    A call that was cut off is charged at the most that it can have cost. Look up at your provider
    whether it really was charged before you release it.
    """
    if freeze:
        lifted = with_ledger(lambda ledger: ledger.lift_freeze())
        notify("The freeze is lifted." if lifted else "The cloud is not frozen.")
    if every:
        amount = with_ledger(lambda ledger: ledger.release_all())
        notify(f"Released {show_usd(amount)}.")
    elif calls:
        with_ledger(lambda ledger: _release_calls(ledger, calls))
    if not (freeze or every or calls):
        _list_unconfirmed(as_json)


# Ceilings


def budget_verdict(settings: Settings, standing: Standing) -> str:
    """Say in a sentence or two whether anything can be spent, and how to change that."""
    if standing.frozen:
        return (
            f"The cloud is frozen: {standing.frozen}\nLook at `baton usage` and `baton egress ls`; "
            "`baton budget release --freeze` lifts it."
        )
    if settings.offline:
        return "The cloud is off: Baton is offline."
    if not standing.is_cloud_on:
        return "The cloud is off: no ceiling is above $0. `baton budget set day 2` turns it on."
    policy = settings.budget.policy
    if policy is Policy.NEVER:
        return "The cloud is off: the policy is never. `baton budget set policy ask` turns it on."
    tight = standing.tightest
    if tight is not None and not tight.left:
        why = "the ceiling is used up" if tight.ceiling else "the ceiling is $0"
        way = tight.variable or f"`baton budget set {tight.scope} AMOUNT`"
        return f"Nothing can be spent: {why} for {_scope_text(tight.scope)}. {way} allows more."
    return f"The cloud is on. When to spend: {POLICY_NAMES[policy]}."


def standing_object(settings: Settings, standing: Standing) -> dict[str, Any]:
    """Return how money stands as `budget show --json` prints it."""
    state = "on" if budget_verdict(settings, standing).startswith("The cloud is on") else "off"
    return {
        "cloud": "frozen" if standing.frozen else state,
        "policy": settings.budget.policy.value,
        "pace": settings.budget.pace.value,
        "frozen": standing.frozen,
        "scopes": [
            {
                "scope": room.scope.value,
                "ceiling_usd": None if room.ceiling is None else format_usd(room.ceiling),
                "settled_usd": format_usd(room.settled),
                "held_usd": format_usd(room.held),
                "unconfirmed_usd": format_usd(room.unconfirmed),
                "left_usd": None if room.left is None else format_usd(room.left),
            }
            for room in standing.rooms
        ],
    }


def _scope_text(scope: Scope) -> str:
    return "each conversation" if scope is Scope.SESSION else scope.phrase


def _scope_table(standing: Standing) -> str:
    rows = [["", "ceiling", "charged", "held", "unconfirmed", "left"]]
    rows += [[_scope_text(room.scope), *_room_cells(room)] for room in standing.rooms]
    return format_columns(rows)


def _room_cells(room: ScopeBalance) -> list[str]:
    ceiling = _NO_CEILING if room.ceiling is None else show_usd(room.ceiling)
    if room.scope is Scope.SESSION:
        return [ceiling, "", "", "", ""]
    left = "" if room.left is None else shown_rounded_down(room.left)
    used = [show_usd(amount) for amount in (room.settled, room.held, room.unconfirmed)]
    return [ceiling, *used, left]


def _set_ceiling(scope: Scope, value: str) -> None:
    amount = None if value.strip().lower() == _NO_CEILING else parse_usd(value)
    text = None if amount is None else value.strip().removeprefix("$").strip()
    file = find_paths().config_file
    inverse = write_settings(file, {"budget": {scope.value: text}})
    try:
        with_ledger(lambda ledger: ledger.set_ceiling(scope, amount))
    except BatonError:
        write_settings(file, inverse)  # a later Baton must not read a ceiling that wasn't kept
        raise
    limit = "no limit of its own" if amount is None else f"a ceiling of {show_usd(amount)}"
    notify(f"{_scope_text(scope).capitalize()} has {limit}, in running Batons as well.")
    _warn_of_variable(scope.value)
    settings = load_settings(find_paths().config_file)
    ceilings = settings.budget.ceilings
    notify(budget_verdict(settings, with_ledger(lambda ledger: ledger.standing(ceilings, ""))))


def _set_choice(what: str, value: str) -> None:
    """Set the policy or the pace."""
    known = Policy if what == "policy" else SpendingStyle
    try:
        chosen = known(value.strip().lower())
    except ValueError as error:
        raise ConfigError(f"{value!r} isn't a {what}.", f"Known: {', '.join(known)}.") from error
    write_settings(find_paths().config_file, {"budget": {what: chosen.value}})
    if isinstance(chosen, Policy):
        now = f"When to spend from now on: {POLICY_NAMES[chosen]}"
    else:
        now = f"Baton spends {chosen.description}"
    notify(f"{now}. Running Batons keep their {what}.")
    _warn_of_variable(what)


def _warn_of_variable(name: str) -> None:
    variable = f"BATON_BUDGET__{name.upper()}"
    if os.environ.get(variable):
        notify(f"But {variable} is set in this environment, and overrules the file.")


# Unconfirmed charges


async def _release_calls(ledger: Ledger, calls: tuple[str, ...]) -> None:
    for call in calls:
        amount = await ledger.release(call)
        notify(f"Released {show_usd(amount)} of call {one_line(call)}.")


def _list_unconfirmed(as_json: bool) -> None:
    charges = with_ledger(lambda ledger: ledger.unconfirmed())
    if as_json:
        return emit_document(calls=[charge_object(charge) for charge in charges])
    if not charges:
        return notify("No charge is unconfirmed.")
    rows = [["call", "when", "worker", "for", "charged"]]
    rows += [
        [c.call, format_time(c.at), one_line(c.worker, 30), c.purpose.value, show_usd(c.charged)]
        for c in charges
    ]
    emit(format_columns(rows, left=4))
    notify("`baton budget release CALL` gives back what your provider didn't charge.")


def charge_object(charge: Charge) -> dict[str, Any]:
    """Return one call of the ledger as JSON prints it."""
    return {
        "call": charge.call,
        "at": iso_time(charge.at),
        "run_id": charge.run,
        "conversation_id": charge.session,
        "worker": charge.worker,
        "model": charge.model,
        "purpose": charge.purpose.value,
        "status": charge.status.value,
        "held_usd": format_usd(charge.held),
        "charged_usd": format_usd(charge.charged),
        "tokens_in": charge.tokens_in,
        "tokens_out": charge.tokens_out,
        "price_source": charge.source,
    }


# Prices

_PriceRow = tuple[str, str, "Price | None"]


def _worker_prices() -> Iterator[_PriceRow]:
    """Yield the remote workers, with their prices."""
    from baton.compose import card_of

    for entry in load_settings(find_paths().config_file).roster:
        if not isinstance(entry, LocalWorkerSettings):
            yield entry.id, entry.model, card_of(entry).price


def _model_prices(words: tuple[str, ...]) -> Iterator[_PriceRow]:
    """Yield the known models whose names hold all these words."""
    from baton.workers.cloud import price_of, snapshot

    wanted = [word.lower() for word in words]
    for model in snapshot().models:
        if all(word in model.lower() for word in wanted):
            yield "", model, price_of(model)


def price_object(worker: str, model: str, price: Price | None) -> dict[str, Any]:
    """Return a price as `budget prices --json` prints it."""
    row: dict[str, Any] = {"worker": worker, "model": model, "source": "", "usd_per_million": None}
    if price is not None:
        tiers = [{"above": tier.above, **rates_object(tier.rates)} for tier in price.tiers]
        row |= {
            "source": price.source,
            "usd_per_million": rates_object(price.rates),
            "tiers": tiers,
        }
    return row


def rates_object(rates: Rates) -> dict[str, str]:
    """Return US dollars per million tokens as JSON prints them."""
    return {name: format_usd(amount) for name, amount in asdict(rates).items()}


def _price_table(rows: list[_PriceRow]) -> str:
    named = any(worker for worker, _, _ in rows)
    head = ["model", "source", "input", "output", "cache read", "cache write"]
    table = [["worker", *head] if named else head]
    for worker, model, price in rows:
        names = [one_line(worker, 30), one_line(model, 60)] if named else [one_line(model, 60)]
        if price is None:
            table.append([*names, "unknown", "", "", "", ""])
            continue
        table.append([*names, price.source, *_rate_cells(price.rates)])
        for tier in price.tiers:
            long = f"  prompts above {tier.above:,} tokens"
            table.append([*[""] * (len(names) - 1), long, "", *_rate_cells(tier.rates)])
    return f"US dollars per million tokens\n\n{format_columns(table, left=3 if named else 2)}"


def _rate_cells(rates: Rates) -> list[str]:
    return [f"${amount}" for amount in rates_object(rates).values()]


def _report_price_list(listed: Snapshot, rows: Sequence[_PriceRow]) -> None:
    """Say how old the lists are; warn where one is too old that a shown price is from."""
    lists = [f"{name}'s of {date} ({_age_text(date)})" for name, date in listed.dates.items()]
    where = " and ".join(lists) or "a list of an unknown day"
    notify(
        f"Baton's list has {len(listed.models)} models, from {where}: `baton budget prices --all`."
    )
    sources = " ".join(price.source for _, _, price in rows if price is not None)
    for name, date in (listed.dates or {"Baton": listed.date}).items():
        age, is_main = _age_days(date), date == listed.date
        if (is_main or name in sources) and (age is None or age > _STALE_DAYS):
            notify(
                f"{name}'s list is {_age_text(date)}: compare it with your providers' prices, and "
                "update Baton or type a price into config.toml."
            )


def _age_text(date: str) -> str:
    age = _age_days(date)
    return "of an unknown day" if age is None else f"{age} days old"


def _age_days(date: str) -> int | None:
    try:
        made = time.mktime(time.strptime(date, "%Y-%m-%d"))
    except (ValueError, OverflowError):
        return None
    return max(0, int((time.time() - made) // 86400))
