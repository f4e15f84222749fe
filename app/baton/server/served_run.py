"""A request that was taken: what was asked, by whom, and what has come of it so far."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from baton.core.events import Event, StepText
from baton.core.labels import Label
from baton.core.view import RunView
from baton.server.access import Client
from baton.server.api_errors import ApiError
from baton.server.client_request import ClientRequest
from baton.server.offered_models import OfferedModel

MAX_SHOWN_CHARS = 50_000
"""A request that is over and larger is not remembered for the list of requests."""


@dataclass(slots=True)
class ServedRun:
    """A request that was taken: for the list of served requests, and for its answer.

    `run` is the id that its run will have ("": any), `label` how far it may travel, `began` in
    seconds since the epoch. `error` is what the client is shown where there is no answer.
    `warnings` are sentences about what isn't as it was asked for. `recorded` is set once it has an
    id; `is_over` says that it has ended, and `is_withdrawn` that it was refused and taken
    out of the history.
    """

    asked: ClientRequest
    client: Client
    offered: OfferedModel
    run: str = ""
    label: Label = Label.CLOUD
    began: float = field(default_factory=time.time)
    _view: RunView = field(default_factory=RunView)
    error: ApiError | None = None
    is_over: bool = False
    is_withdrawn: bool = False
    recorded: asyncio.Event = field(default_factory=asyncio.Event)
    warnings: list[str] = field(init=False)
    _texts: list[StepText] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warnings = [*self.asked.warnings]

    def lose_call(self, text: str) -> bool:
        """Warn of a text that began like a tool call and is not one; return whether to omit it."""
        if self.view.is_cut:
            said = "A call of a tool was cut at the most tokens, and left out: allow more of them."
        elif self.asked.tools is not None and self.asked.tools.must_call:
            said = "A tool had to be called, and the worker wrote something else."
        else:
            return False
        self.warnings.append(said)
        return self.view.is_cut

    @property
    def view(self) -> RunView:
        """The run as it stands."""
        if self._texts:
            last, whole = self._texts[-1], "".join(one.text for one in self._texts)
            self._texts.clear()
            self._view = self._view.apply(StepText(last.step, whole, at=last.at))
        return self._view

    def apply(self, event: Event) -> None:
        """Take what happened; texts are put together until the view is looked at."""
        if isinstance(event, StepText) and (not self._texts or self._texts[-1].step == event.step):
            self._texts.append(event)
        else:
            self._view = self.view.apply(event)

    @property
    def is_large(self) -> bool:
        """Whether it takes too much room to be remembered."""
        return self.asked.weight >= MAX_SHOWN_CHARS

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return self.asked.model

    @property
    def prompt(self) -> str:
        """What was asked."""
        return self.asked.prompt

    @property
    def program(self) -> str:
        """The name of the program that asks."""
        return self.client.program

    @property
    def address(self) -> str:
        """Nothing: the model says what was asked for."""
        return ""

    @property
    def status(self) -> int:
        """HTTP's status; 0 as long as it isn't known."""
        return self.error.status if self.error is not None else 200 if self.is_over else 0

    @property
    def failure(self) -> str:
        """Why there is no answer, in a sentence, or ""."""
        return self.error.message if self.error is not None else ""

    @property
    def id(self) -> str:
        """The run's id, "" until it is recorded."""
        return self.view.started.run if self.view.started is not None else ""
