"""Requests of other programs in words: who asked for what, and how far it is."""

from __future__ import annotations

import time
from typing import Protocol

from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, activity_text


class ServedRequest(Protocol):
    """A request that another program made.

    `model` is what it asked for, `prompt` its newest words; `began` is in seconds since the epoch;
    `failure` says in a sentence why there is no answer ("": there is one, or may be).
    """

    @property
    def model(self) -> str: ...

    @property
    def prompt(self) -> str: ...

    @property
    def began(self) -> float: ...

    @property
    def view(self) -> RunView: ...

    @property
    def failure(self) -> str: ...

    @property
    def is_over(self) -> bool: ...


def request_title(request: ServedRequest) -> str:
    """Write what was asked, on one line."""
    return one_line(request.prompt, 100)


def request_state(request: ServedRequest) -> str:
    """Write how a request stands: when, for which model, by whom, how long, at what price."""
    view = request.view
    at = time.strftime("%H:%M:%S", time.localtime(request.began))
    workers = dict.fromkeys(one_line(call.worker, 20) for call in view.calls)
    cost = f" · {show_usd(view.cost)}" if view.cost else ""
    by = f" · {', '.join(workers)}" if workers else ""
    return f"{at} · {one_line(request.model, 30)}{by} · {_progress(request)}{cost}"


def _progress(request: ServedRequest) -> str:
    view = request.view
    if request.failure:
        return one_line(request.failure, 80)
    if not request.is_over:
        return activity_text(view) or "waiting"
    if view.status == "cancelled":
        return "the program left"
    tokens = sum(call.tokens_out for call in view.calls)
    return f"{tokens:,} tokens in {view.seconds:.1f} s"
