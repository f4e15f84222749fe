"""`baton usage --forecast`: what today and this month will come to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from baton.cli.history_access import with_store
from baton.cli.ledger_access import format_columns, with_ledger
from baton.cli.output import emit, emit_json
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.money import format_usd, show_usd
from baton.platform.settings import Settings, find_paths, load

if TYPE_CHECKING:
    from baton.core.ledger_types import Standing
    from baton.core.spending.forecast import Course, Forecast, Prospect
    from baton.money import Ledger

_SCOPE_NAMES = {Scope.DAY: "today", Scope.MONTH: "this month"}
_SCOPE_ENDS = {Scope.DAY: "by midnight", Scope.MONTH: "by its end"}
_FORECAST_DAYS = 30


def show_forecast(as_json: bool) -> None:
    """Print the forecast."""
    from baton.core.spending.forecast import forecast

    settings, now = load(find_paths().config_file), time.time()
    ceilings = settings.budget.ceilings

    async def spent(ledger: Ledger) -> tuple[Standing, Mapping[date, int]]:
        rows = await ledger.usage("day", now - _FORECAST_DAYS * 86400)
        charged = {date.fromisoformat(row.name): row.charged for row in rows}
        return await ledger.standing(ceilings), charged

    standing, daily = with_ledger(spent)
    found = forecast(with_store(lambda store: store.weighed()), daily, standing, now)
    if as_json:
        return emit_json(forecast_object(found, settings.budget.pace))
    emit("\n".join([*map(_course_text, found.courses), "", *_pace_lines(found, settings)]))


def _course_text(course: Course) -> str:
    room = course.room
    line = f"{_SCOPE_NAMES[room.scope].capitalize()}: {show_usd(room.used)} so far"
    if course.expected is None:
        return f"{line}; too little was charged yet to say where that leads."
    line += f", about {show_usd(course.expected)} {_SCOPE_ENDS[room.scope]} as the last days went."
    if room.ceiling is None:
        return f"{line} There is no ceiling."
    if course.reached is None:
        return f"{line} The ceiling of {show_usd(room.ceiling)} is not reached."
    if room.used >= room.ceiling:
        return f"{line} All of the ceiling of {show_usd(room.ceiling)} is used."
    form = "%H:%M" if room.scope is Scope.DAY else "%d %b"
    when = time.strftime(form, time.localtime(course.reached))
    return f"{line} The ceiling of {show_usd(room.ceiling)} would be reached: {when}."


def _pace_lines(found: Forecast, settings: Settings) -> list[str]:
    """Say what each pace comes to, or why nobody can tell."""
    from baton.core.spending.forecast import ENOUGH_DAYS, ENOUGH_PROMPTS

    prompts = f"{found.weighed} prompt{'s' * (found.weighed != 1)}"
    days = f"{found.days} day{'s' * (found.days != 1)}"
    if not found.prospects:
        return [
            f"Help was weighed for {prompts} on {days}: too little to say what a pace comes to "
            f"({ENOUGH_PROMPTS} on {ENOUGH_DAYS} days tell something)."
        ]
    rows = [
        ["pace", "for gains above", *(f"{name}, helped" for name in _SCOPE_NAMES.values()), "costs"]
    ]
    rows += [_pace_cells(prospect, settings.budget.pace) for prospect in found.prospects]
    lines = [
        f"What is still to come, after {prompts} that were weighed on {days}:",
        format_columns(rows),
    ]
    if settings.budget.policy in (Policy.ASK, Policy.ONCE):
        lines.append("You are asked before money is spent, so it is at most that.")
    return lines


def _pace_cells(prospect: Prospect, chosen: SpendingStyle) -> list[str]:
    name = f"{prospect.thrift} (set)" if prospect.thrift is chosen else str(prospect.thrift)
    rests = [prospect.rests[scope] for scope in _SCOPE_NAMES]
    helped = [f"{rest.helped:,} of {rest.prompts:,}" for rest in rests]
    return [name, f"{100 * prospect.bar:.0f} %", *helped, show_usd(rests[-1].cost)]


def forecast_object(found: Forecast, chosen: SpendingStyle) -> dict[str, Any]:
    """Return a forecast as `usage --forecast --json` prints it."""
    return {
        "schema": 1,
        "weighed": found.weighed,
        "days": found.days,
        "scopes": [
            {
                "scope": course.room.scope.value,
                "used_usd": format_usd(course.room.used),
                "ceiling_usd": _usd_or_none(course.room.ceiling),
                "expected_usd": _usd_or_none(course.expected),
                "ceiling_reached_at": course.reached,
            }
            for course in found.courses
        ],
        "paces": [
            {
                "pace": prospect.thrift.value,
                "chosen": prospect.thrift is chosen,
                "bar": prospect.bar,
                "rest": {
                    scope.value: {
                        "prompts": rest.prompts,
                        "helped": rest.helped,
                        "cost_usd": format_usd(rest.cost),
                    }
                    for scope, rest in prospect.rests.items()
                },
            }
            for prospect in found.prospects
        ],
    }


def _usd_or_none(nanos: int | None) -> str | None:
    return None if nanos is None else format_usd(nanos)
