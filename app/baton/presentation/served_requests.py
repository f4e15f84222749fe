"""Requests of other programs in words: who asked for what, where it was answered, at what price."""

from __future__ import annotations

import re
import time
import unicodedata
from dataclasses import field

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.money import show_usd
from baton.core.prompt_wrapping import bare_question
from baton.core.sanitiser import one_line
from baton.core.view import RunView, activity_text


@frozen_dataclass
class ServedRequest:
    """A request that another program made.

    `program` is its name, `model` what it asked for; "": `address`, its method and path, is all
    there is. `prompt` are its newest words; `began` is in seconds since the epoch. `status` is
    HTTP's (0: not known yet); `failure` says in a sentence why there is no answer ("": there is
    one, or may be). `run` is the id that its run has, or would have had.
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


MAX_REASON_CHARS = 160

WIDE_CELLS = 108
_WIDE = (21, 25, 16, 15, 8)
_NARROW = (10, 11, 9, 11, 6)
"""How wide the columns are, in cells: program, model, place, tokens, seconds. On a terminal with
fewer than WIDE_CELLS they are narrow, and fit into 74."""

_QUOTED = re.compile(r"(?<!\w)(?!`baton )(['\"`])(?:\\.|(?!\1).)*\1")


def request_title(request: ServedRequest) -> str:
    """Write what was asked, on one line."""
    return one_line(bare_question(request.prompt), 100) or one_line(request.address, 100)


def request_line(request: ServedRequest, cells: int = 0) -> str:
    """Write a request in columns, without its text: when, program, model, and how it went.

    That is where it was answered, its tokens, seconds and price, or the reason of its refusal. It
    is at most so many cells wide (0: as wide as it needs).
    """
    program, model = one_line(request.program, 40), one_line(request.model or request.address, 60)
    widths = _WIDE if not cells or cells >= WIDE_CELLS else _NARROW
    at = time.strftime("%H:%M:%S", time.localtime(request.began))
    head = f"{at}  {_column(program, widths[0])}  {_column(model, widths[1])}"
    line = f"{head}  {_outcome(request, *widths[2:])}".rstrip()
    return _cut(line, cells) if cells else line


def _cut(line: str, cells: int) -> str:
    if _cells(line) <= cells:
        return line
    kept = ""
    while line and _cells(kept + line[0]) < cells:
        kept, line = kept + line[0], line[1:]
    return f"{kept}…"


def _outcome(request: ServedRequest, place: int, tokens: int, took: int) -> str:
    view = request.view
    if request.failure:
        reason = _QUOTED.sub("'…'", request.failure)  # it may quote a piece of the request
        return one_line(f"{request.status or ''} {reason}", MAX_REASON_CHARS)
    if not request.is_over:
        return activity_text(view) or "waiting"
    if not view.calls:
        return "the program left" if view.status == "cancelled" else f"{request.status}"
    read, written = (
        sum(getattr(call, name) for call in view.calls) for name in ("tokens_in", "tokens_out")
    )
    seconds = f"{view.seconds:.1f} s"
    cells = [
        _column(_places(view), place),
        f"{f'{read:,} + {written:,}':>{tokens}}",
        f"{seconds:>{took}}",
        show_usd(view.cost) if view.cost else "free",
    ]
    left = "  the program left" if view.status == "cancelled" else ""
    return "  ".join(cells) + left


def _places(view: RunView) -> str:
    """Write which workers made the answer; those of the cloud by that word."""
    steps = view.plan.answer if view.plan is not None else ()
    made = [call.worker for call in view.calls if call.step in steps]
    remote = {sent.worker for sent in view.sent}
    workers = dict.fromkeys(made or (call.worker for call in view.calls))
    return ", ".join(
        f"cloud: {one_line(name, 30)}" if name in remote else one_line(name, 30) for name in workers
    )


def _column(text: str, cells: int) -> str:
    short = _cut(text, cells)
    return short + " " * (cells - _cells(short))


def _cells(text: str) -> int:
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )
