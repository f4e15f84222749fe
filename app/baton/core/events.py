"""The events of a run. Everything that the user sees of a run is a fold over them.

`at` is in seconds since the run began; the run sets it when it emits an event. Exactly one of
Finished, Failed and Cancelled ends a run. `StepText` and `Progress` are transient: shown as they
come, never stored one by one (the text is in StepFinished or the answer's turn, the times are in
`Called`).
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Finish, Purpose
from baton.core.plan_types import Plan


class Phase(StrEnum):
    """What a worker is doing right now."""

    QUEUED = "queued"  # other runs hold the money that it needs
    LOADING = "loading"
    READING = "reading"
    THINKING = "thinking"
    WRITING = "writing"


@frozen_dataclass
class Started:
    """The prompt is on disk; nothing has been called yet."""

    at: float = field(default=0.0, kw_only=True)
    run: str
    conversation: str
    prompt: str
    answer: str


@frozen_dataclass
class Routed:
    """Where the prompt goes (local, plan or cloud), and why, in a sentence; by which strategy.

    A run that continues this one keeps within its bounds: `worker` answers unless a plan says
    otherwise, `alone` if so; in the `mode` local or `offline` no remote worker does. `budget` is
    the ceiling for the prompt in nano-dollars, which all such runs share with the first, `root`
    ("": this one is the first). `decided_by` is what chose: a tool's rule ("tool"), the "router",
    a "rule" of length and kind, or that rule as the router was too "late". `client` is the id of
    the access token of the program that asked ("": the user did); with `is_free` no cloud worker
    may answer it.
    """

    at: float = field(default=0.0, kw_only=True)
    where: str
    why: str
    scores: dict[str, float] = field(default_factory=dict)
    strategy: str = ""
    worker: str = ""
    alone: bool = False
    mode: str = ""
    offline: bool = False
    budget: int | None = None
    root: str = ""
    decided_by: str = ""
    client: str = ""
    is_free: bool = False


@frozen_dataclass
class Weighed:
    """Whether a worker's help is worth its price: it is if its `gain` is above the `bar`.

    The gain is how much likelier a good answer gets; `cost` is what it is expected to cost, in
    nano-dollars. `why` says in a sentence what the decision rests on.
    """

    at: float = field(default=0.0, kw_only=True)
    worker: str
    gain: float
    bar: float
    cost: int
    ok: bool
    why: str = ""


@frozen_dataclass
class Planning:
    """A worker is asked for a plan, or to review the outcome of one."""

    at: float = field(default=0.0, kw_only=True)
    worker: str


class Decision(StrEnum):
    """What became of an offer to send something."""

    SENT = "sent"  # the user allowed it, now or before
    KEPT = "kept"  # the user kept what there is
    EDIT = "edit"  # the user wants to change it first
    CEILING = "ceiling"  # it could have cost more than is left
    NEVER = "never"  # the settings say so, or there was no user to ask


@frozen_dataclass
class Offered:
    """A remote worker could help: what it would see and cost at most, and what was decided.

    `most` is in nano-dollars, `size` in bytes of text; `hidden` says what was taken out. It is for
    a step, or for planning (0).
    """

    at: float = field(default=0.0, kw_only=True)
    worker: str
    why: str
    most: int
    size: int
    hidden: str
    decision: Decision
    message: str = ""
    step: int = 0


@frozen_dataclass
class Sent:
    """A step's request left this machine: so many bytes to that host."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    worker: str
    destination: str
    size: int


@frozen_dataclass
class Unsent:
    """What a step was about to send, as `Sent` says, did not leave: no connection came about."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    worker: str
    destination: str = ""


@frozen_dataclass
class Planned:
    """The steps that will be run. A later one has the same first steps, and more.

    Where it isn't `final`, the answer may still be replaced by a later one's. `why` says what made
    a later one necessary.
    """

    at: float = field(default=0.0, kw_only=True)
    plan: Plan
    final: bool = True
    why: str = ""


@frozen_dataclass
class StepStarted:
    """A step was given to a worker: the plan's, or the one that took its place."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    worker: str


@frozen_dataclass
class Progress:
    """A step's phase: how far it is (0 to 1, None if unknown), and its speed while writing."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    phase: Phase
    fraction: float | None = None
    tokens_per_second: float | None = None


@frozen_dataclass
class StepText:
    """A piece of a step's text."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    text: str


@frozen_dataclass
class StepRetried:
    """A step's worker failed; it begins again after `delay` seconds.

    `worker` is another one that does it instead, or "". Without a `reason` nothing failed: the text
    begins again, since what came so far were thoughts.
    """

    at: float = field(default=0.0, kw_only=True)
    step: int
    reason: str
    delay: float
    worker: str = ""


@frozen_dataclass
class Trimmed:
    """The user chose to leave the conversation's oldest turns out from here on."""

    at: float = field(default=0.0, kw_only=True)
    turns: int


@frozen_dataclass
class Called:
    """One use of one worker is over. Times in seconds, cost in nano-dollars.

    `first_token` counts from the call; `loading` is the part of it spent on loading the model.
    `finish` is None when the call ended before the worker's own end. `cost` is what was charged;
    where it isn't `confirmed`, the most it can have cost. `call` is its id in the ledger. A call
    of step 0 belongs to no step: planning, checks. `expected_tokens` is the 99th percentile of the
    text's length, 0 where nothing was known of it. `other_model` is the name under which the worker
    answered, where that is another model than it was asked for. `left_out` says which settings its
    model refused before, so that it was asked without them.
    """

    at: float = field(default=0.0, kw_only=True)
    step: int
    worker: str
    purpose: Purpose
    tokens_in: int
    tokens_out: int
    cached: int
    context: int
    cost: int
    confirmed: bool
    seconds: float
    first_token: float | None
    loading: float
    finish: Finish | None
    held: int = 0
    call: str = ""
    expected_tokens: int = 0
    other_model: str = ""
    left_out: str = ""


@frozen_dataclass
class StepFinished:
    """A step has its text, which is kept here unless it alone is the answer.

    `stop` is the stop text before which it ended, if one of those came.
    """

    at: float = field(default=0.0, kw_only=True)
    step: int
    finish: Finish
    text: str = ""
    stop: str = ""


@frozen_dataclass
class StepSkipped:
    """A step was left out: `why` in a sentence; it could have cost `most` nano-dollars."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    why: str
    most: int = 0


class Verdict(StrEnum):
    """What a check found."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCHECKED = "not checked"


@frozen_dataclass
class Checked:
    """A step's text was checked: `what` was looked at (code, sums), and what was found."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    what: str
    verdict: Verdict
    note: str = ""


FAILED_CHECK = "failed_check"
"""The kind of a warning about what was computed again and is wrong: never shortened."""


@frozen_dataclass
class Warned:
    """What is said beside an answer: its likely fault in a sentence, and what would help most.

    `kind` is what programs read: likely_wrong, failed_check, repetition, or needs_... for what no
    worker here can know. `chance` is that of a good answer, where that is the cause; `is_known` is
    whether the conversation has the same cause and remedy before.
    """

    at: float = field(default=0.0, kw_only=True)
    kind: str
    message: str
    hint: str = ""
    chance: float | None = None
    is_known: bool = False
    step: int = 0


@frozen_dataclass
class StepFailed:
    """A step ended without its text (or with part of it, which is kept)."""

    at: float = field(default=0.0, kw_only=True)
    step: int
    error: str
    message: str


@frozen_dataclass
class Finished:
    """The run has its answer: with a `deadline` what there was after so many seconds (0: all)."""

    at: float = field(default=0.0, kw_only=True)
    deadline: float = 0.0


@frozen_dataclass
class Failed:
    """The run ended with an error: its class name, what happened and what to do.

    `needed` and `limit` are ContextTooLong's, in tokens.
    """

    at: float = field(default=0.0, kw_only=True)
    error: str
    message: str
    hint: str
    needed: int = 0
    limit: int = 0


@frozen_dataclass
class Cancelled:
    """The user stopped the run; the text so far is kept."""

    at: float = field(default=0.0, kw_only=True)


Event = (
    Started
    | Routed
    | Weighed
    | Planning
    | Planned
    | Offered
    | Sent
    | Unsent
    | StepStarted
    | Progress
    | StepText
    | StepRetried
    | Trimmed
    | Called
    | StepFinished
    | StepSkipped
    | StepFailed
    | Checked
    | Warned
    | Finished
    | Failed
    | Cancelled
)

Terminal = Finished | Failed | Cancelled
TERMINAL = (Finished, Failed, Cancelled)
TRANSIENT = (StepText, Progress)
# Published at once, and on disk with the next event that isn't among these, or soon after. A run
# that is killed is lost anyway: its prompt, its finished steps and the ledger's charges are kept.
DEFERRED = (Started, Routed, Planned, StepStarted, Called)
