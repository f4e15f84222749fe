"""What the user at the server sees of requests: a line for each, and a list of the newest."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from baton.core.view import RunView
from baton.platform.durable_files import make_folder, open_private
from baton.presentation.served_requests import ServedRequest, request_line
from baton.presentation.words import count_text

MAX_PLAIN = 100
"""How many requests without a run are remembered."""

MAX_REFUSALS = 20
REFUSAL_SECONDS = 10.0
"""So many refused requests in so many seconds have a line each; of more only the number is said."""

MAX_LOG_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A request that asked for no run, or was refused before there was one.

    `address` is its method and path, `run` the id that its run would have had.
    """

    program: str
    address: str
    model: str = ""
    status: int = 200
    failure: str = ""
    prompt: str = ""
    run: str = ""
    began: float = field(default_factory=time.time)
    view: RunView = field(default_factory=RunView)
    is_over: bool = True


class RequestLog:
    """Takes requests that are over: `report` gets each, `file` a line of each that was refused.

    Of a flood of refused ones they get the number.
    """

    def __init__(self, file: Path, report: Callable[[ServedRequest], object] | None = None) -> None:
        self.plain: deque[PlainRequest] = deque(maxlen=MAX_PLAIN)
        self._report = report
        self._file = _LogFile(file)
        self._since = time.monotonic()
        self._refused = 0

    def add(self, request: ServedRequest) -> None:
        """Take a request."""
        if isinstance(request, PlainRequest):
            self.plain.append(request)
        self._begin_period()
        self._refused += bool(request.failure)
        if request.failure and self._refused > MAX_REFUSALS:
            return
        self._show(request)

    def close(self) -> None:
        """Say what was left out, and close the file."""
        self._report_rest()
        self._file.close()

    def _begin_period(self) -> None:
        if time.monotonic() - self._since > REFUSAL_SECONDS:
            self._report_rest()
            self._since, self._refused = time.monotonic(), 0

    def _report_rest(self) -> None:
        if (rest := self._refused - MAX_REFUSALS) > 0:
            said = f"{count_text(rest, 'more request')} refused."
            self._show(PlainRequest("", "", status=0, failure=said))

    def _show(self, request: ServedRequest) -> None:
        if self._report is not None:
            self._report(request)
        if request.failure:
            id = f"  (req_{request.run})" if request.run else ""
            self._file.write(f"{request_line(request)}{id}")


class _LogFile(RotatingFileHandler):
    """A file of lines with the time, of which the oldest leave."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, maxBytes=MAX_LOG_BYTES, backupCount=1, delay=True)

    def write(self, line: str) -> None:
        """Add a line with the date. A disk that won't have it is no reason to refuse anything."""
        text = f"{time.strftime('%Y-%m-%d')} {line}"
        self.emit(logging.LogRecord("baton", logging.INFO, "", 0, text, None, None))

    def handleError(self, record: logging.LogRecord) -> None:
        """Leave a line out that can't be written."""

    def _open(self) -> TextIOWrapper:
        make_folder(Path(self.baseFilename).parent)
        number = open_private(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return TextIOWrapper(os.fdopen(number, "ab"), "utf-8")
