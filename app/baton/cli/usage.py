"""`baton usage`: how much workers were called, and what that cost."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from baton.cli.output import csv_text, emit, emit_document, notify
from baton.cli.stores import format_columns, with_ledger, with_store
from baton.core.errors import ConfigError
from baton.core.ledger_types import UsageRow
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from baton.money import UsageGrouping

_DAYS_PATTERN = re.compile(r"0*([1-9][0-9]{0,3})d", re.ASCII)


@click.command()
@click.option(
    "--by", type=click.Choice(["day", "worker", "purpose"]), default="day", help="Sum by what."
)
@click.option("--since", metavar="DATE", help="From a day on (2026-11-01), or the last days (7d).")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def usage(by: UsageGrouping, since: str | None, as_csv: bool, as_json: bool) -> None:
    """Show how often workers were called, what they read and wrote, and what was charged.

    Calls on this machine are counted from the history, so those of removed conversations aren't.
    What is unconfirmed is part of what was charged, until you release it.
    """
    if as_csv and as_json:
        raise ConfigError("--csv and --json exclude each other.", "Choose one.")
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
                f"{text!r} isn't a day.", "Write it like 2026-11-01, or 7d for the last seven days."
            ) from error
    return time.mktime(day.timetuple())


def _merged_rows(
    by: UsageGrouping, charged: Sequence[UsageRow], local: Sequence[UsageRow]
) -> list[UsageRow]:
    """Join what the ledger and the history hold: days in their order, else the dearest first."""
    groups: dict[str, list[UsageRow]] = {}
    for row in (*charged, *local):
        groups.setdefault(row.name, []).append(row)
    rows = [_summed(name, group) for name, group in groups.items()]
    if by == "day":
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (-row.charged, -row.calls, row.name))


def _summed(name: str, rows: Sequence[UsageRow]) -> UsageRow:
    return UsageRow(
        name,
        sum(row.calls for row in rows),
        sum(row.tokens_in for row in rows),
        sum(row.tokens_out for row in rows),
        sum(row.charged for row in rows),
        sum(row.unconfirmed for row in rows),
    )


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
    shown = [*rows, _summed("in all", rows)] if len(rows) > 1 else rows
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
