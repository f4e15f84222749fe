"""What goes to stdout and stderr: clean, into pipes as well, since `| less` is a terminal, too.

Only answers and exports go into a pipe exactly as they are; JSON is exact because it escapes.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue

from baton.core.errors import ConfigError, StoreError
from baton.core.sanitiser import StreamSanitiser, escape_json, one_line, sanitise

SCHEMA = 1
"""The version of what `--json` prints."""

_CLEAR = "\r\x1b[2K"

_PLAIN_SECONDS = 5.0
"""How long a plain output waits for the end of a sentence, or to say what is happening."""

_SENTENCES = re.compile(r".*(?:\n|[.!?:;]\s|\u3002)", re.DOTALL)
"""As much of a text as consists of whole sentences or lines."""

_WORDS = re.compile(r".*\s", re.DOTALL)
"""As much of a text as consists of whole words."""

_Item = tuple[int, bytes] | Callable[[], object] | None
"""What the thread is given: bytes for a descriptor, something to call, or the end."""


def emit(text: str) -> None:
    """Write text and a line break to stdout, clean. Raises StoreError when it takes no more."""
    _write_stdout(sanitise(text))


def emit_export(text: str) -> None:
    """Write what is taken along: as it is into a pipe, clean on a terminal. Raises StoreError."""
    _write_stdout(sanitise(text) if sys.stdout.isatty() else text)


def _write_stdout(text: str) -> None:
    _write(lambda: print(text, flush=True))


def _write(write: Callable[[], object]) -> None:
    try:
        write()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable_error(error) from error


def emit_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are. Raises StoreError when it takes no more."""
    _write(lambda: (sys.stdout.buffer.write(data), sys.stdout.flush()))


def emit_document(**fields: object) -> None:
    """Write one JSON object to stdout, as every `--json` does: its format's version first.

    It is indented for people when that is a terminal.
    """
    emit(to_json({"schema": SCHEMA, **fields}, indent=2 if sys.stdout.isatty() else None))


def iso_time(seconds: float) -> str:
    """Return a time (seconds since the epoch) as JSON holds it: ISO 8601 with its zone."""
    return datetime.datetime.fromtimestamp(seconds).astimezone().isoformat("T", "milliseconds")


def to_json(value: object, indent: int | None = None) -> str:
    """Return a value as JSON that holds nothing a terminal would obey."""
    import json

    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent))


_FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""With what a cell begins that a spreadsheet may run: OWASP's page on CSV injection."""

_BLANKS = " \xa0\u3000\u200b\ufeff"


def csv_text(
    rows: Iterable[Mapping[str, object]], columns: Sequence[str], *, header: bool = True
) -> str:
    """Return rows as CSV without the last line break.

    A text that a spreadsheet could run as a formula has a single quote before it; so it shows text.
    """
    import csv
    import io

    written = io.StringIO()
    table = csv.DictWriter(written, columns, lineterminator="\n")
    # A lone carriage return isn't quoted else, and would begin a row.
    quoted = csv.DictWriter(written, columns, lineterminator="\n", quoting=csv.QUOTE_ALL)
    if header:
        table.writerow({column: _inert_cell(column) for column in columns})
    for row in rows:
        cells = {key: _inert_cell(value) for key, value in row.items()}
        is_broken = any(isinstance(cell, str) and "\r" in cell for cell in cells.values())
        (quoted if is_broken else table).writerow(cells)
    return written.getvalue().removesuffix("\n")


def _inert_cell(value: object) -> object:
    is_formula = isinstance(value, str) and value.lstrip(_BLANKS).startswith(_FORMULA_SIGNS)
    return f"'{value}" if is_formula else value


def notify(text: str) -> None:
    """Say something on stderr that is not part of the data; nothing depends on whether it can."""
    try:
        line = _wrap_lines(sanitise(text)) + "\n"  # in one piece: other threads write lines too
        print(line, end="", file=sys.stderr, flush=True)
    except OSError:  # what Python still holds for it would fail once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def show_progress(name: str, done: int, count: int) -> None:
    """Show on a terminal how many of so many questions are done."""
    if sys.stderr.isatty():
        end = "\r" if done < count else "\r\x1b[2K"
        print(f"{one_line(name, 40)}: {done} of {count}", end=end, file=sys.stderr, flush=True)


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_terminal(nothing: str, hint: str) -> None:
    """Raise ConfigError where there is no terminal to ask on; `nothing` is what was not done."""
    if not can_ask():
        raise ConfigError(f"{nothing}: there is no terminal to ask on.", hint)


def confirm_or_exit(question: str) -> None:
    """Ask for a yes, and end the command with exit code 1 without one."""
    import click

    if not click.confirm(question, default=False, err=True):
        raise click.exceptions.Exit(1)


def unwritable_error(error: OSError, kept: str = "") -> StoreError:
    """Return the error of a stdout that takes no more; `kept` says where the text still is."""
    return StoreError(f"The output can't be written: {error.strerror}.", kept)


class Output:
    """Writes stdout and stderr in a thread of its own, in order.

    A reader that pauses (`| less`, Ctrl+S) would otherwise hold up the event loop, and with it the
    saving of the text and the way out by Ctrl+C. `closed` is done when stdout takes no more, and
    `failure` says why; `drained` is done when all has been written after `close`.

    A `plain` one only ever adds lines, for who hears them: text by whole sentences, and a status
    only now and then.
    """

    def __init__(self, quiet: bool = False, *, plain: bool = False) -> None:
        from concurrent.futures import Future

        self.failure: OSError | None = None
        self.closed: Future[None] = Future()
        self.drained: Future[None] = Future()
        self.drained.set_running_or_notify_cancel()  # who stops waiting for it must not cancel it
        self.to_terminal = sys.stdout.isatty()
        self._quiet = quiet
        self._may_talk = sys.stderr.isatty() and not quiet
        self._sparse_status = _SparseStatus() if plain else None
        self._sentences = _Sentences() if plain else None
        can_overwrite = os.environ.get("TERM") not in {None, "", "dumb"} and not plain
        self._may_overwrite = self._may_talk and can_overwrite
        self._status = ""
        self._at_line_start = True
        self._sanitiser = StreamSanitiser()
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._held: list[_Item] | None = None
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        self._thread.start()

    @property
    def _is_read(self) -> bool:
        """Whether the user reads it as it comes: a plain output perhaps through `tee`."""
        return self.to_terminal or self._sentences is not None

    @property
    def is_terminal_shared(self) -> bool:
        """Whether answer and status would meet on the same screen."""
        return self._is_read and self._may_talk

    def write(self, text: str) -> None:
        """Write a piece of the data to stdout."""
        if not text:
            return
        if self._is_read:
            self.show_status("")
            text = self._sanitiser.feed(text)
            if self._sentences is not None:
                text = self._sentences.feed(text)
        self._put_text(text)

    def _put_text(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._put((1, text.encode("utf-8", "replace")))

    def end_line(self) -> bool:
        """End the line on stdout that was begun; return whether one was."""
        if self._sentences is not None:
            self._put_text(self._sentences.take())
        begun = not self._at_line_start
        if begun:
            self.write("\n")
        return begun

    def show_status(self, text: str) -> None:
        """Show what is happening now in place of what was shown before; "" clears it."""
        if self._sparse_status is not None and (line := self._sparse_status.line(text)):
            self.notify(line)
        if not self._may_overwrite or text == self._status:
            return
        self._status = text
        self._put_error(_CLEAR + one_line(text, (_terminal_columns() or 80) - 1))

    def notify_without_status(self, text: str) -> None:
        """Say something that `show_status` shows, where it can show nothing: not when quiet."""
        if not (self._may_overwrite or self._quiet):
            self.warn(text)

    def notify(self, text: str) -> None:
        """Say something in passing: on a terminal only, and not when quiet."""
        if self._may_talk:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say something that must not go unseen."""
        self.show_status("")
        self._put_error(_wrap_lines(sanitise(text)) + "\n")

    def _put_error(self, text: str) -> None:
        self._put((2, text.encode("utf-8", "replace")))

    def hold_output(self) -> None:
        """From now on keep what would meet a question at the terminal."""
        self._held = self._held or []

    def release_output(self) -> None:
        """Write what was held."""
        held, self._held = self._held or [], None
        for item in held:
            self._queue.put(item)

    def _put(self, item: tuple[int, bytes]) -> None:
        if self._held is not None and (item[0] == 2 or self._is_read):
            self._held.append(item)
        else:
            self._queue.put(item)

    def call_when_written(self, call: Callable[[], object]) -> None:
        """Call this, in the thread, when all that was written so far has been taken."""
        self._queue.put(call)

    def close(self) -> None:
        """Let the thread end when all is written."""
        self.release_output()
        self.show_status("")
        self._queue.put(None)

    def _write_all(self) -> None:
        while (item := self._queue.get()) is not None:
            if callable(item):
                item()
                continue
            descriptor, data = item
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            except OSError as error:
                if descriptor == 1 and self.failure is None:
                    self.failure = error
                    self.closed.set_result(None)
        self.drained.set_result(None)


class _SparseStatus:
    """Chooses what is shown of a status: the name of a new step, or all of it every few seconds."""

    def __init__(self) -> None:
        self._steps: set[str] = set()
        self._since = time.monotonic()

    def line(self, text: str) -> str:
        """Return what is to be shown now, or ""; without a status the waiting begins again."""
        now = time.monotonic()
        step = text.partition(":")[0] if text.startswith("step ") else ""
        if text and not step:
            self._steps.clear()
        is_new = step not in self._steps and step != ""
        if text and not is_new and now - self._since < _PLAIN_SECONDS:
            return ""
        self._since = now
        if is_new:
            self._steps.add(step)
        shown = step if is_new else text
        return f"{shown[0].upper()}{shown[1:]}." if shown else ""


class _Sentences:
    """Passes a text on by whole sentences or lines; a slow one by words every few seconds."""

    def __init__(self) -> None:
        self._held, self._since = "", time.monotonic()

    def feed(self, text: str) -> str:
        """Add a piece; return what is to be written now."""
        self._held += text
        match = _SENTENCES.match(self._held)
        if match is None and time.monotonic() - self._since >= _PLAIN_SECONDS:
            match = _WORDS.match(self._held)
        if match is None:
            return ""
        self._since = time.monotonic()
        self._held = self._held[match.end() :]
        return match[0]

    def take(self) -> str:
        """Return the rest, and hold nothing."""
        held, self._held = self._held, ""
        return held


def _wrap_lines(text: str) -> str:
    """Break lines between words where a terminal on stderr would break them within."""
    columns = _terminal_columns()
    if columns is None or all(len(line) <= columns for line in text.split("\n")):
        return text
    import textwrap

    fill = partial(textwrap.fill, width=columns, break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(fill, text.split("\n")))


def _terminal_columns() -> int | None:
    """Return how wide the terminal on stderr is; None where there is none, or it doesn't say."""
    try:
        columns = os.get_terminal_size(2).columns
    except OSError:
        return None
    return max(columns, 20) if columns else None


def wrap_lines(text: str, indent: str) -> list[str]:
    """Break a text into lines that fit the terminal, all of them indented."""
    import shutil
    import textwrap

    width = max(40, min(shutil.get_terminal_size().columns, 100) - 1)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
