"""`baton egress`: everything that left this machine, byte for byte."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli.options import AliasedGroup, limit_option
from baton.cli.output import emit, emit_bytes, emit_document, emit_export, iso_time, notify, to_json
from baton.cli.stores import format_columns, format_time, with_ledger
from baton.core.errors import BatonError, ConfigError
from baton.core.ledger_types import Egress
from baton.core.machine import show_size
from baton.core.money import format_usd
from baton.core.sanitiser import one_line
from baton.platform.durable_files import open_replacement
from baton.presentation.words import charge_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from baton.money import Ledger


@click.group(cls=AliasedGroup)
def egress() -> None:
    """Show everything that Baton sent to remote workers.

    Each request is kept as it was sent, without its key. A conversation that is removed takes its
    text along; when, where to, how much and its SHA-256 stay.
    """


@egress.command("ls")
@limit_option(50)
@click.option("--run", metavar="RUN", help="Of one run: its id, or the beginning of it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(limit: int, run: str | None, as_json: bool) -> None:
    """List what left, newest first."""
    requests = with_ledger(lambda ledger: ledger.egress(run, limit))
    if as_json:
        return emit_document(requests=[egress_object(one, body=False) for one in requests])
    if not requests:
        return notify("Nothing ever left." if run is None else f"Run {run} sent nothing.")
    rows = [["no.", "when", "run", "worker", "to", "size", "cost"]]
    emit(format_columns([*rows, *(_egress_row(one) for one in requests)], left=5))


@egress.command()
@click.argument("number", type=int)
@click.option("--raw", is_flag=True, help="Print exactly the bytes that left, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(number: int, raw: bool, as_json: bool) -> None:
    """Show one request, by its number in `baton egress ls`."""
    one = with_ledger(lambda ledger: ledger.find_egress(number))
    if raw:
        return _write_raw(one)
    if as_json:
        return emit_document(**egress_object(one))
    lines = {
        "Sent": format_time(one.at) if one.left else "nothing: there was no connection",
        "To": one_line(one.destination),
        "Worker": one_line(one.worker),
        "Run": one.run,
        "Size": f"{one.size:,} bytes",
        "SHA-256": one.sha256,
        "Cost": charge_text(one.status, one.held, one.charged),
    }
    head = "\n".join(f"{name + ':':9}{text}" for name, text in lines.items())
    emit(f"{head}\n\n{_body_text(one)}")


@egress.command(short_help="Write everything that ever left as JSON Lines.")
@click.option(
    "-o", "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(file: Path | None, force: bool) -> None:
    """Write everything that ever left as JSON Lines, oldest first, for an audit.

    Texts are in `body` as they are, or in base64 where they aren't UTF-8 (`encoding` says which).
    """
    if file is None:
        with_ledger(lambda ledger: _write_requests(ledger, emit_export))
        return
    if file.exists() and not force:
        raise ConfigError(f"{file} is there already, and was left as it is.", "--force overwrites.")
    try:
        with open_replacement(file) as into:
            count = with_ledger(
                lambda ledger: _write_requests(ledger, lambda s: into.write(f"{s}\n".encode()))
            )
    except OSError as error:
        raise BatonError(f"{file} can't be written: {error.strerror}.") from error
    notify(
        f"{count:,} requests are written to {file}. It holds what you sent: keep it to yourself."
    )


def egress_object(one: Egress, body: bool = True) -> dict[str, Any]:
    """Return one request as JSON prints it, with or without what was sent."""
    fields: dict[str, Any] = {
        "number": one.key,
        "time": iso_time(one.at),
        "run_id": one.run,
        "call": one.call,
        "worker": one.worker,
        "destination": one.destination,
        "size": one.size,
        "sha256": one.sha256,
        "held_usd": format_usd(one.held),
        "charged_usd": format_usd(one.charged),
        "status": one.status.value,
        "left": one.left,
    }
    return fields | _body_object(one.body) if body else fields


def _body_object(body: bytes | None) -> dict[str, str | None]:
    if body is None:
        return {"body": None, "encoding": None}
    try:
        return {"body": body.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "encoding": "base64"}


async def _write_requests(ledger: Ledger, write: Callable[[str], object]) -> int:
    count = 0
    async for one in ledger.every_egress():
        write(to_json(egress_object(one)))
        count += 1
    return count


def _egress_row(one: Egress) -> list[str]:
    return [
        str(one.key),
        format_time(one.at),
        one.run[:8],
        one_line(one.worker, 24),
        one_line(one.destination, 80),
        show_size(one.size),
        charge_text(one.status, one.held, one.charged) if one.left else "not sent: no connection",
    ]


def _body_text(one: Egress) -> str:
    if one.body is None:
        return "(The text was removed, or was not to be kept.)"
    return _body_object(one.body)["body"] or ""


def _write_raw(one: Egress) -> None:
    if one.body is None:
        raise ConfigError(
            f"The text of number {one.key} was removed, or was not to be kept.",
            f"`baton egress show {one.key}` shows the rest.",
        )
    if sys.stdout.isatty():
        emit(one.body.decode("utf-8", "replace"))
    else:
        emit_bytes(one.body)
