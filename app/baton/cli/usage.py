"""`baton usage`: how much workers were called, and what that cost."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import click

from baton.cli.output import csv_text, emit, emit_document, emit_json, iso_time, notify
from baton.cli.stores import format_columns, with_ledger, with_store
from baton.core.errors import ConfigError
from baton.core.ledger_types import Policy, Scope, SpendingStyle, UsageRow
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line
from baton.platform.settings import Settings, find_paths, load_settings
from baton.presentation.words import count_text

if TYPE_CHECKING:
    from baton.core.ledger_types import Standing
    from baton.core.spending.forecast import Forecast, ScopeForecast, StyleForecast
    from baton.money import Ledger, UsageGrouping

_DAYS_PATTERN = re.compile(r"0*([1-9][0-9]{0,3})d", re.ASCII)


@click.command()
@click.option(
    "--by", type=click.Choice(["day", "worker", "purpose"]), default="day", help="Sum by what."
)
@click.option("--since", metavar="DATE", help="From a day on (2026-11-01), or the last days (7d).")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--forecast", "ahead", is_flag=True, help="Say what today and this month come to.")
def usage(by: UsageGrouping, since: str | None, as_csv: bool, as_json: bool, ahead: bool) -> None:
    """Show how often workers were called, what they read and wrote, and what was charged.

    Calls on this machine are counted from the history, so those of removed conversations aren't.
    What is unconfirmed is part of what was charged, until you release it.
    """
    if as_csv and (as_json or ahead):
        other = "--json" if as_json else "--forecast"
        raise ConfigError(f"--csv and {other} exclude each other.", "Choose one.")
    if ahead:
        if by != "day" or since is not None:
            raise ConfigError(
                "--forecast goes with neither --by nor --since.",
                "It always looks at the last weeks.",
            )
        return show_forecast(as_json)
    start = None if since is None else parse_since(since)
    rows = _merged_rows(
        by,
        with_ledger(lambda ledger: ledger.usage(by, start)),
        with_store(lambda store: store.runs.local_usage(by, start)),
    )
    if as_json:
        return emit_document(by=by, usage=[usage_object(by, row) for row in rows])
    if as_csv:
        fields = list(usage_object(by, UsageRow("", 0, 0, 0, 0, 0)))
        return emit(csv_text([usage_object(by, row) for row in rows], fields))
    if not rows:
        return notify("Nothing was called yet." if since is None else f"Nothing since {since}.")
    emit(_usage_table(by, rows))


def parse_since(text: str) -> float:
    """Return when a day began that was typed as a date, or as so many days (7d). By local time."""
    if days := _DAYS_PATTERN.fullmatch(text.strip()):
        day = datetime.date.today() - datetime.timedelta(days=int(days[1]) - 1)
    else:
        try:
            day = datetime.date.fromisoformat(text.strip())
        except ValueError as error:
            raise ConfigError(
                f"{text!r} is no day.", "Write it like 2026-11-01, or 7d for the last seven days."
            ) from error
    return time.mktime(day.timetuple())


def _merged_rows(
    by: UsageGrouping, charged: Sequence[UsageRow], local: Sequence[UsageRow]
) -> list[UsageRow]:
    """Join what the ledger and the history hold: days in their order, else the dearest first."""
    found: dict[str, UsageRow] = {}
    for row in (*charged, *local):
        known = found.get(row.name, UsageRow(row.name, 0, 0, 0, 0, 0))
        found[row.name] = UsageRow(
            row.name,
            known.calls + row.calls,
            known.tokens_in + row.tokens_in,
            known.tokens_out + row.tokens_out,
            known.charged + row.charged,
            known.unconfirmed + row.unconfirmed,
        )
    if by == "day":
        return sorted(found.values(), key=lambda row: row.name)
    return sorted(found.values(), key=lambda row: (-row.charged, -row.calls, row.name))


def usage_object(by: str, row: UsageRow) -> dict[str, object]:
    """Return one sum as `usage --json` prints it."""
    return {
        by: row.name,
        "calls": row.calls,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "charged_usd": format_usd(row.charged),
        "unconfirmed_usd": format_usd(row.unconfirmed),
    }


def _usage_table(by: str, rows: list[UsageRow]) -> str:
    total = UsageRow(
        "in all",
        sum(row.calls for row in rows),
        sum(row.tokens_in for row in rows),
        sum(row.tokens_out for row in rows),
        sum(row.charged for row in rows),
        sum(row.unconfirmed for row in rows),
    )
    shown = [*rows, total] if len(rows) > 1 else rows
    head = [by, "calls", "tokens read", "written", "charged", "of it unconfirmed"]
    return format_columns([head, *(_usage_cells(row) for row in shown)])


def _usage_cells(row: UsageRow) -> list[str]:
    return [
        one_line(row.name, 40),
        f"{row.calls:,}",
        f"{row.tokens_in:,}",
        f"{row.tokens_out:,}",
        show_usd(row.charged),
        show_usd(row.unconfirmed) if row.unconfirmed else "",
    ]


_SCOPES = (Scope.DAY, Scope.MONTH)
_SCOPE_ENDS = {Scope.DAY: "by midnight", Scope.MONTH: "by its end"}
_FORECAST_DAYS = 30


def show_forecast(as_json: bool) -> None:
    """Print the forecast."""
    from baton.core.spending.forecast import make_forecast

    settings, now = load_settings(find_paths().config_file), time.time()
    ceilings = settings.budget.ceilings

    async def spent(ledger: Ledger) -> tuple[Standing, Mapping[date, int]]:
        rows = await ledger.usage("day", now - _FORECAST_DAYS * 86400)
        charged = {date.fromisoformat(row.name): row.charged for row in rows}
        return await ledger.standing(ceilings), charged

    standing, daily = with_ledger(spent)
    found = make_forecast(with_store(lambda store: store.runs.weighings()), daily, standing, now)
    if as_json:
        return emit_json(forecast_object(found, settings.budget.pace))
    emit("\n".join([*map(_course_text, found.courses), "", *_pace_lines(found, settings)]))


def _course_text(course: ScopeForecast) -> str:
    room = course.room
    line = f"{room.scope.phrase.capitalize()}: {show_usd(room.used)} so far"
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
    """Say what each pace comes to, or why that can't be said yet."""
    from baton.core.spending.forecast import MIN_DAYS, MIN_PROMPTS

    prompts, days = count_text(found.weighed, "prompt"), count_text(found.days, "day")
    if not found.prospects:
        return [
            f"Help was weighed for {prompts} on {days}: too little to say what a pace comes to "
            f"({MIN_PROMPTS} on {MIN_DAYS} days are needed)."
        ]
    rows = [
        [
            "pace",
            "for gains above",
            *(f"{name}, helped" for name in (scope.phrase for scope in _SCOPES)),
            "costs",
        ]
    ]
    rows += [_pace_cells(prospect, settings.budget.pace) for prospect in found.prospects]
    lines = [
        f"What is still to come, after {prompts} that were weighed on {days}:",
        format_columns(rows),
    ]
    if settings.budget.policy in (Policy.ASK, Policy.ONCE):
        lines.append("You are asked before money is spent, so it is at most that.")
    return lines


def _pace_cells(prospect: StyleForecast, chosen: SpendingStyle) -> list[str]:
    name = f"{prospect.thrift} (set)" if prospect.thrift is chosen else str(prospect.thrift)
    rests = [prospect.rests[scope] for scope in _SCOPES]
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
                "ceiling_reached_at": None if course.reached is None else iso_time(course.reached),
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
