"""`baton history`: search, show, rate, remove, export and import conversations."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click

from baton.cli.options import AliasedGroup, complete_conversation, complete_run, limit_option
from baton.cli.output import (
    confirm_or_exit,
    csv_text,
    emit,
    emit_document,
    emit_export,
    iso_time,
    notify,
    require_terminal,
    to_json,
)
from baton.cli.stores import find_run, format_columns, user_ledger, with_store
from baton.core.errors import BatonError, ConfigError
from baton.core.history_types import RATINGS, Conversation, SearchHit, Signal, rating as rating_of
from baton.core.labels import Label
from baton.core.machine import show_size
from baton.core.markdown import from_markdown, to_markdown
from baton.core.messages import Role, Turn, TurnStatus
from baton.core.money import format_usd, show_usd
from baton.core.sanitiser import one_line
from baton.history import Store, query_rows
from baton.platform.durable_files import replace_file
from baton.platform.paths import find_paths
from baton.presentation.run_story import record_view, resume_hint
from baton.presentation.words import count_text

_ROWS_AT_ONCE = 1000

MAX_PROGRAM_CHARS = 25
"""How wide the column with the names of programs is."""

MAX_EXPORT_BYTES = 10**9
"""How large an export to import may be."""


@click.group(cls=AliasedGroup)
def history() -> None:
    """List, search, show, rate, remove, export and import conversations.

    A conversation is named by its id, its number in `baton history ls`, or its title.
    """


@history.command("ls")
@limit_option(20)
@click.option("--programs", is_flag=True, help="List those of other programs, not your own.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(limit: int, programs: bool, as_json: bool) -> None:
    """List your conversations, newest first.

    Those that other programs have with `baton serve` are listed with --programs. One in which you
    write is yours.
    """
    listed, total, others, size = with_store(
        lambda store: _newest_conversations(store, limit, programs)
    )
    if as_json:
        rows = [_conversation_object(conversation) for conversation in listed]
        return emit_document(conversations=rows, total=total, disk_bytes=size)
    if listed:
        width = len(str(len(listed)))
        marks = [
            f"{one_line(one.program):{MAX_PROGRAM_CHARS}}  " if programs else f"{number:{width}}  "
            for number, one in enumerate(listed, start=1)
        ]
        emit("\n".join(map(_conversation_row, listed, marks)))
    else:
        notify("There are no conversations yet.")
    if total > len(listed):
        notify(f"{len(listed)} of {total:,} conversations; `-n {total}` lists all.")
    if others:
        notify(f"Other programs have {count_text(others, 'conversation')}: --programs.")
    if listed:
        notify(f"The history takes {show_size(size)} on the disk.")


@history.command(short_help="Find messages with WORDS.")
@click.argument("words", nargs=-1, required=True)
@limit_option(20)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def search(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find messages with WORDS: whole words first, then parts of words, the newest first.

    Punctuation and symbols count (C++); what stands in double quotes is found as a whole.
    """
    query = " ".join(words)
    hits = with_store(lambda store: store.search(query, limit=limit))
    if as_json:
        return emit_document(matches=[_hit_object(hit) for hit in hits])
    if not hits:
        return notify("No message was found.")
    emit("\n".join(_hit_row(hit) for hit in hits))


@history.command()
@click.argument("conversation", shell_complete=complete_conversation)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(conversation: str, as_json: bool) -> None:
    """Show a conversation's current branch."""
    text, value = with_store(lambda store: _read_transcript(store, conversation))
    if as_json:
        emit_document(**value)
    else:
        emit(text)


@history.command(short_help="Mark an answer as good or bad.")
@click.argument("rating", type=click.Choice([*(rating.value for rating in RATINGS), "none"]))
@click.argument("run", required=False, shell_complete=complete_run)
def rate(rating: str, run: str | None) -> None:
    """Mark an answer as good or bad, or take that back (none).

    It is the answer of RUN: its id, the beginning of it, or without one the last run. The mark
    changes the figures of `baton models show`, and is kept and removed with the conversation.
    """
    chosen = None if rating == "none" else Signal(rating)
    notify(with_store(lambda store: _rate_answer(store, run, chosen)))


@history.command("rm", short_help="Remove conversations for good.")
@click.argument("conversations", nargs=-1, required=True, shell_complete=complete_conversation)
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
def remove(conversations: tuple[str, ...], yes: bool) -> None:
    """Remove conversations for good: messages, runs, their place in the search, and what they sent.

    From a damaged file that was kept aside nothing can be removed: such files are named.

    What they cost stays in `baton usage`; what was sent stays in `baton egress ls`, without its
    text.
    """
    with_store(lambda store: _remove_conversations(store, conversations, yes))


@history.command(short_help="Ask the history in SQL.")
@click.argument("sql")
@click.option("--table", "form", flag_value="table", help="Print columns: usual on a terminal.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--json", "form", flag_value="json", help="Print one JSON object: usual in a pipe.")
@click.option("--ndjson", "form", flag_value="ndjson", help="Print one JSON object a line.")
def query(sql: str, form: str | None) -> None:
    """Print the rows of a query, for example "SELECT title FROM conversations".

    It can read and nothing else. "SELECT sql FROM sqlite_schema" shows tables and columns.
    """
    with_store(Store.latest)  # as every command opens it: brought up to date, repaired
    rows = query_rows(find_paths().database, sql)
    match form or ("table" if sys.stdout.isatty() else "json"):
        case "csv":
            _emit_csv(rows)
        case "json":
            emit_document(rows=[_json_row(row) for row in rows])
        case "ndjson":
            for row in rows:
                emit(to_json(_json_row(row)))
        case _:
            _emit_table(list(rows))


@history.command()
@click.argument("conversations", nargs=-1, shell_complete=complete_conversation)
@click.option(
    "--format", "form", type=click.Choice(["md", "json", "csv"]), help="By FILE's name, else md."
)
@click.option("--csv", "as_csv", is_flag=True, help="The same as --format csv.")
@click.option(
    "-o", "--output", "file", metavar="FILE", type=click.Path(path_type=Path), help="Write to FILE."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def export(
    conversations: tuple[str, ...], form: str | None, as_csv: bool, file: Path | None, force: bool
) -> None:
    """Write conversations (all, or those named) to stdout or a file.

    Markdown holds each conversation's current branch; CSV a line for each message of all branches;
    JSON holds everything, and can be imported.
    """
    if as_csv and form not in (None, "csv"):
        raise ConfigError(f"--csv and --format {form} exclude each other.", "Choose one.")
    if file is not None and file.is_file() and not force:
        raise ConfigError(f"{file} is there already, and was left as it is.", "--force overwrites.")
    named = {".json": "json", ".csv": "csv"}.get(file.suffix if file is not None else "", "md")
    form = "csv" if as_csv else form or named
    text = with_store(lambda store: _export_text(store, conversations, form))
    if file is None:
        return emit_export(text)
    try:
        replace_file(file, text + "\n")
    except OSError as error:
        raise BatonError(f"{file} can't be written: {error.strerror}.") from error
    notify(f"Written to {file}.")


@history.command("import", short_help="Add the conversations of a JSON export.")
@click.argument("file")
def import_(file: str) -> None:
    """Add the conversations of a JSON export (FILE, or - for stdin); nothing is overwritten."""
    data = _read_export(file)
    done = with_store(lambda store: store.archive.import_(data))
    known = f" {done.skipped} were here already." if done.skipped else ""
    notify(f"Imported {done.conversations} conversations with {done.turns} turns.{known}")


async def _newest_conversations(
    store: Store, limit: int, programs: bool
) -> tuple[list[Conversation], int, int, int]:
    """Return the newest conversations, how many there are, and how many of others aren't listed.

    Then the bytes of the file that holds them.
    """
    every = await store.conversations(limit=10**9)
    listed = [one for one in every if bool(one.program) is programs]
    left = 0 if programs else len(every) - len(listed)
    return listed[:limit], len(listed), left, store.archive.disk_bytes


def _conversation_row(conversation: Conversation, number: str = "") -> str:
    private = "  private" if conversation.label is Label.LOCAL else ""
    return (
        f"{conversation.id}  {number}{_format_time(conversation.updated)}"
        f"  {conversation.turns:4} messages"
        f"  {one_line(conversation.title, 60)}{private}"
    )


def _hit_row(hit: SearchHit) -> str:
    who = "you" if hit.role is Role.USER else hit.worker or "answer"
    who += f", {show_usd(hit.cost)}" if hit.cost else ""
    program = f"  ({one_line(hit.program)})" if hit.program else ""
    head = f"{hit.conversation}  {_format_time(hit.created)}  {one_line(hit.title, 60)}{program}"
    return f"{head}\n    {one_line(who, 60)}: {one_line(hit.snippet)}"


def _hit_object(hit: SearchHit) -> dict[str, Any]:
    fields = asdict(hit)
    cost = fields.pop("cost")
    return fields | {"created": iso_time(hit.created), "cost_usd": format_usd(cost)}


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


async def _read_transcript(store: Store, name: str) -> tuple[str, dict[str, Any]]:
    conversation = await store.find(name)
    turns = await store.thread(conversation.id)
    branches = await store.runs.versions([turn.id for turn in turns])
    private = " · stays on this machine" if conversation.label is Label.LOCAL else ""
    program = f" · {one_line(conversation.program)}" if conversation.program else ""
    head = (
        f"{one_line(conversation.title)}\n"
        f"{conversation.id} · {_format_time(conversation.created)}{program}"
        f" · {count_text(len(turns), 'message')}{private}"
    )
    done = await store.feedback.signals([turn.id for turn in turns])
    blocks = [
        _turn_text(turn, branches[turn.id], done.get(turn.id, {})) + await _resume_line(store, turn)
        for turn in turns
    ]
    text = "\n\n".join([head, *blocks])
    listed = [
        asdict(turn)
        | {
            "created": iso_time(turn.created),
            "branches": list(branches[turn.id]),
            "signals": list(done.get(turn.id, ())),
        }
        for turn in turns
    ]
    return text, _conversation_object(conversation) | {"thread": listed}


def _conversation_object(conversation: Conversation) -> dict[str, Any]:
    times = {name: iso_time(getattr(conversation, name)) for name in ("created", "updated")}
    return asdict(conversation) | times


def _turn_text(turn: Turn, branches: tuple[str, ...], done: Iterable[Signal]) -> str:
    notes = ["You" if turn.role is Role.USER else turn.worker or "Baton"]
    if len(branches) > 1:
        notes.append(f"branch {branches.index(turn.id) + 1} of {len(branches)}")
    if turn.status is not TurnStatus.DONE:
        notes.append(turn.status.value)
    if (rating := rating_of(done)) is not None:
        notes.append(rating.value)
    notes += [f"file {one_line(file.name)}" for file in turn.files]
    return f"{' · '.join(notes)}\n{turn.text}"


async def _resume_line(store: Store, turn: Turn) -> str:
    """Say how an answer can be continued, where its run was interrupted."""
    ended = (TurnStatus.CANCELLED, TurnStatus.FAILED, TurnStatus.LOST)
    if turn.run is None or turn.status not in ended:
        return ""
    run = await store.runs.get(turn.run)
    hint = resume_hint(run.id, record_view(run))
    return f"\n({hint})" if hint else ""


async def _rate_answer(store: Store, run: str | None, rating: Signal | None) -> str:
    record = await find_run(store, run)
    [answer] = await store.runs.turns([record.answer])
    if not answer.text.strip():
        raise ConfigError(f"The run {record.id} has no answer to judge.")
    await store.feedback.rate(record.answer, rating)
    change = f"is marked as {rating}" if rating else "is not marked any more"
    return f"The answer of run {record.id} {change}: {one_line(answer.text, 60)}"


async def _remove_conversations(store: Store, names: tuple[str, ...], yes: bool) -> None:
    chosen = {one.id: one for one in await store.archive.find(names)}
    if not yes:
        _confirm_removal(list(chosen.values()))
    # Before the runs are removed: only they name what to forget.
    await _forget_sent_texts(await store.runs.of(list(chosen)))
    await store.purge(*chosen)
    size = show_size(store.archive.disk_bytes)
    notify(f"Removed {count_text(len(chosen), 'conversation')}. The history takes {size} now.")
    if broken := _damaged_files():
        notify(
            "Damaged files that were kept aside may still hold the texts:"
            f" {', '.join(broken)} in {find_paths().data}. Delete them if you don't need them."
        )


def _damaged_files() -> list[str]:
    """Return the names of damaged databases that were kept aside; nothing is removed from these."""
    paths = find_paths()
    places = (paths.database, paths.ledger)
    return sorted(f.name for at in places for f in at.parent.glob(f"{at.name}.broken-*"))


async def _forget_sent_texts(runs: list[str]) -> None:
    """Remove the texts that these runs sent from the egress log."""
    if runs and find_paths().ledger.exists():
        async with user_ledger() as ledger:
            await ledger.forget(runs)


def _confirm_removal(chosen: list[Conversation]) -> None:
    require_terminal("Nothing was removed", "-y removes without asking.")
    for conversation in chosen:
        notify(_conversation_row(conversation))
    confirm_or_exit(f"Remove {count_text(len(chosen), 'conversation')} for good?")


async def _export_text(store: Store, names: tuple[str, ...], form: str) -> str:
    chosen = await store.archive.find(names) or await store.conversations(limit=10**9)
    if form == "md":
        parts = [to_markdown(one, await store.thread(one.id)) for one in chosen]
        return "\n".join(parts).removesuffix("\n")
    if not names:
        chosen.sort(key=lambda one: (one.created, one.id))
    parts = []
    for one in chosen:  # alone: the events of all take ten times the memory of their text
        [held] = (await store.archive.export([one.id]))["conversations"]
        is_csv = form == "csv"
        parts.append(_csv_rows(held) if is_csv else json.dumps(held, ensure_ascii=False, indent=1))
    if form == "csv":
        return "\n".join([csv_text((), _CSV_COLUMNS), *filter(None, parts)])
    return '{"baton_export": 1, "conversations": [' + ",\n".join(parts) + "]}"


def _csv_rows(held: dict[str, Any]) -> str:
    """Write a line for each message of a conversation, all branches."""
    own = {"conversation": held["id"], "title": held["title"]}
    rows = (own | {name: turn.get(name) for name in _TURN_COLUMNS} for turn in held["turns"])
    return csv_text(rows, _CSV_COLUMNS, header=False)


_TURN_COLUMNS = ("id", "parent", "role", "text", "status", "label", "created", "worker", "run")
_CSV_COLUMNS = ("conversation", "title", *_TURN_COLUMNS)


def _emit_csv(rows: Iterator[dict[str, Any]]) -> None:
    columns: Sequence[str] = ()
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        header = not columns
        columns = columns or list(block[0])
        emit_export(csv_text(map(_json_row, block), columns, header=header))


def _emit_table(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return notify("The query returns no rows.")
    cells = [["" if v is None else one_line(str(v), 60) for v in row.values()] for row in rows]
    head = [one_line(column, 60) for column in rows[0]]
    emit(format_columns([head, *cells], len(head)))


def _json_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON and CSV can hold it: bytes as hexadecimal digits."""
    return {key: v.hex() if isinstance(v, bytes) else v for key, v in row.items()}


def _check_size(file: Path) -> None:
    """Raise OSError for what is too large to be read into memory, or a device."""
    status = file.stat()
    if stat.S_ISCHR(status.st_mode):
        raise OSError(errno.EINVAL, "it is a device")
    if status.st_size > MAX_EXPORT_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def _read_export(file: str) -> dict[str, Any]:
    other = ConfigError(
        f"{file} is not an export of Baton, so nothing was imported.",
        "`baton history export` makes one.",
    )
    try:
        if file != "-":
            _check_size(Path(file))
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        if raw.startswith(b"# "):
            data = {"baton_export": 1, "conversations": from_markdown(raw.decode())}
        else:
            data = json.loads(raw)
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise other from error
    if not isinstance(data, dict) or "baton_export" not in data:
        raise other
    return data
