"""`baton usage`: what calls to workers elsewhere came to."""

from __future__ import annotations

import datetime
import re
import time
from typing import TYPE_CHECKING

import click

from baton.cli.ledger_access import format_columns, with_ledger
from baton.cli.output import emit, emit_json, notify
from baton.core.errors import ConfigError
from baton.core.ledger_types import UsageRow
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from baton.money.queries import By

_DAYS_PATTERN = re.compile(r"0*([1-9][0-9]{0,3})d", re.ASCII)


@click.command()
@click.option(
    "--by", type=click.Choice(["day", "worker", "purpose"]), default="day", help="Sum by what."
)
@click.option("--since", metavar="DATE", help="From a day on (2026-11-01), or the last days (7d).")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--forecast", "ahead", is_flag=True, help="Say what today and this month come to.")
def usage(by: By, since: str | None, as_csv: bool, as_json: bool, ahead: bool) -> None:
    """Show what calls to workers elsewhere came to: what was charged, and for what.

    What is unconfirmed is part of what was charged, until you release it.
    """
    if as_csv and (as_json or ahead):
        other = "--json" if as_json else "--forecast"
        raise ConfigError(f"--csv and {other} exclude each other.", "Choose one.")
    if ahead:
        if by != "day" or since is not None:
            raise ConfigError(
                "--forecast goes with neither --by nor --since.",
                "It looks at the last weeks, whatever was asked.",
            )
        from baton.cli.usage_forecast import show_forecast

        return show_forecast(as_json)
    start = None if since is None else parse_since(since)
    rows = with_ledger(lambda ledger: ledger.usage(by, start))
    if as_json:
        return emit_json([usage_object(by, row) for row in rows])
    if as_csv:
        return emit(_usage_csv(by, rows))
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


def _usage_csv(by: str, rows: list[UsageRow]) -> str:
    import csv
    import io

    written = io.StringIO()
    fields = list(usage_object(by, UsageRow("", 0, 0, 0, 0, 0)))
    table = csv.DictWriter(written, fields, lineterminator="\n")
    table.writeheader()
    table.writerows(usage_object(by, row) for row in rows)
    return written.getvalue().rstrip("\n")


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
