"""The types of the history: conversations, search hits and runs."""

from __future__ import annotations

from collections.abc import Mapping

from baton.core.events import Event
from baton.core.feedback import Signal
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.ledger_types import Policy
from baton.core.messages import Role, TurnStatus


@frozen_dataclass
class Conversation:
    """A conversation without its turns. Times in seconds since the epoch, UTC.

    `head` is the newest turn of the branch that was last looked at; turns before `sent_from` (None:
    none) are not sent any more. `policy` None is when to spend as the settings say. `program` is
    the name of the program whose conversation it is ("": the person's own).
    """

    id: str
    title: str
    label: Label
    created: float
    updated: float
    turns: int
    head: str | None
    sent_from: str | None
    system: str | None
    policy: Policy | None = None
    program: str = ""


@frozen_dataclass
class SearchHit:
    """One turn that matches a search; `snippet` is its matching line, `spans` the matches in it.

    Of an answer, `worker` wrote it, and `cost` is what its run was charged, in billionths of a
    dollar; of what a person said, they are "" and 0. `program` is whose conversation it is.
    """

    conversation: str
    title: str
    turn: str
    role: Role
    snippet: str
    spans: tuple[tuple[int, int], ...]
    created: float
    worker: str = ""
    cost: int = 0
    program: str = ""


@frozen_dataclass
class RunRecord:
    """A run with the events it left behind; `status` as in RunView, or "lost"."""

    id: str
    conversation: str
    prompt: str
    answer: str
    status: str
    created: float
    events: tuple[Event, ...]


@frozen_dataclass
class OwnRun:
    """A run of an access token; `is_sole` is whether its conversation holds no other's turns."""

    record: RunRecord
    is_sole: bool


@frozen_dataclass
class OwnAnswer:
    """An answer that an access token had, with its run."""

    run: str
    text: str


@frozen_dataclass
class RecentConversation:
    """A conversation that a person may want to continue, with how its newest turn stands.

    `turn` is that turn, `status` how it ended, `cost` what the conversation was charged in all, in
    billionths of a dollar. `run` is its run, where that didn't end well.
    """

    id: str
    title: str
    updated: float
    turn: str
    status: TurnStatus
    cost: int = 0
    run: RunRecord | None = None


@frozen_dataclass
class Weighing:
    """One decision whether help was worth its price (events.Weighed), with its conversation.

    `at` is in seconds since the epoch; `cost` in nano-dollars.
    """

    at: float
    conversation: str
    gain: float
    cost: int
    ok: bool


@frozen_dataclass
class PastRun:
    """A finished run: what was asked, how far it may travel, what was done with its answer."""

    record: RunRecord
    asked: str
    label: Label
    signals: Mapping[Signal, float]
