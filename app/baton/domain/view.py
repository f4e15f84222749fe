"""The fold over events that screen, command line, endpoint and replay share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from baton.domain.events import (
    Called,
    Cancelled,
    Decision,
    Drafted,
    Event,
    Failed,
    Finished,
    Offered,
    Phase,
    Planned,
    Progress,
    Routed,
    Sent,
    Started,
    StepFailed,
    StepFinished,
    StepRetried,
    StepStarted,
    StepText,
    Trimmed,
)
from baton.domain.plan import Plan, Step

OVER = (
    "{worker} charged more than its price allows, so the cloud is off until you look: "
    "`baton budget show`."
)

_WITHDRAWN = (Decision.KEPT, Decision.EDIT)


@dataclass(frozen=True, slots=True)
class StepView:
    """One step as it stands: waiting, loading, reading, writing, done or failed."""

    number: int
    step: Step
    status: str = "waiting"
    text: str = ""
    fraction: float | None = None
    tokens_per_second: float | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as it stands after some of its events.

    `status` is running, finished, failed or cancelled. `offers` are what could have left or did,
    `sent` what left. `notice` is the last thing worth telling
    that isn't an error (a retry, turns left out). `seconds` is the time of the last event.
    """

    status: str = "running"
    started: Started | None = None
    routed: Routed | None = None
    plan: Plan | None = None
    steps: tuple[StepView, ...] = ()
    calls: tuple[Called, ...] = ()
    offers: tuple[Offered, ...] = ()
    sent: tuple[Sent, ...] = ()
    notice: str = ""
    failure: Failed | None = None
    seconds: float = 0.0

    @property
    def answer(self) -> str:
        """The answer's text so far: the answer steps' texts, in order."""
        numbers = self.plan.answer if self.plan else ()
        return "\n\n".join(self.steps[n - 1].text for n in numbers if self.steps[n - 1].text)

    @property
    def current(self) -> StepView | None:
        """The step that is being worked on, if any."""
        return next((s for s in self.steps if s.status in set(Phase)), None)

    @property
    def cost(self) -> int:
        """What the calls have cost so far, in nano-dollars."""
        return sum(call.cost for call in self.calls)

    @property
    def worked(self) -> float:
        """The seconds it took, without those in which a person was waited for."""
        spent = sum(call.seconds for call in self.calls)
        return min(self.seconds, spent) if self.offers else self.seconds

    @property
    def withdrawn(self) -> bool:
        """Whether the person decided not to send the prompt."""
        decided = (offer.decision for offer in self.offers)
        return self.status == "cancelled" and any(d in _WITHDRAWN for d in decided)

    @property
    def cut(self) -> bool:
        """Whether an answer step stopped at its length cap."""
        return any(self.steps[n - 1].cut for n in (self.plan.answer if self.plan else ()))

    def apply(self, event: Event) -> RunView:
        """Return the view after one more event."""
        view = replace(self, seconds=event.at)
        match event:
            case Started():
                return replace(view, started=event)
            case Routed():
                return replace(view, routed=event)
            case Planned(plan=plan):
                known = len(self.steps)
                new = plan.steps[known:]
                more = tuple(StepView(n, step) for n, step in enumerate(new, start=known + 1))
                return replace(view, plan=plan, steps=self.steps + more)
            case Trimmed(turns=turns):
                return replace(view, notice=f"{turns} earlier turns are not sent from here on.")
            case Called() | Offered() | Sent():
                return view._note(event)
            case Finished():
                return replace(view, status="finished")
            case Failed():
                return replace(view, status="failed", failure=event)
            case Cancelled():
                return replace(view, status="cancelled")
            case _:
                return view._apply_to_step(event)

    def _note(self, event: Called | Offered | Sent) -> RunView:
        match event:
            case Called():
                over = event.cost > event.held > 0
                notice = OVER.format(worker=event.worker) if over else self.notice
                return replace(self, calls=(*self.calls, event), notice=notice)
            case Offered():
                return replace(self, offers=(*self.offers, event), notice=event.message)
            case Sent():
                return replace(self, sent=(*self.sent, event))

    def _apply_to_step(
        self,
        event: StepStarted
        | Progress
        | StepText
        | Drafted
        | StepRetried
        | StepFinished
        | StepFailed,
    ) -> RunView:
        old = self.steps[event.step - 1]
        view = self
        match event:
            case StepStarted():
                new = replace(old, status=Phase.LOADING.value)
            case Progress():
                new = replace(
                    old,
                    status=event.phase.value,
                    fraction=event.fraction,
                    tokens_per_second=event.tokens_per_second or old.tokens_per_second,
                )
            case StepText():
                new = replace(old, status=Phase.WRITING.value, text=old.text + event.text)
            case Drafted():
                new = replace(old, text=event.text)
            case StepRetried():
                new = replace(old, status=Phase.LOADING.value, fraction=None)
                view = replace(self, notice=f"{event.reason} Trying again.")
            case StepFinished():
                new = replace(old, status="done", cut=event.finish == "length")
            case StepFailed():
                new = replace(old, status="failed")
                view = replace(self, notice=event.message)
        steps = (*self.steps[: event.step - 1], new, *self.steps[event.step :])
        return replace(view, steps=steps)


def doing(view: RunView) -> str:
    """Say in a few words what is happening now: the left side of the footer."""
    if view.status == "finished":
        return f"finished in {view.worked:.1f} s"
    if view.status == "cancelled":
        return "not sent" if view.withdrawn else f"stopped after {view.worked:.1f} s"
    if view.status == "failed":
        return "failed"
    step = view.current
    if step is None:
        return "starting"
    what = _phase(step, view)
    return what if len(view.steps) < 2 else f"step {step.number} of {len(view.steps)}: {what}"


def _phase(step: StepView, view: RunView) -> str:
    worker = step.step.worker
    done = "" if step.fraction is None else f" {step.fraction * 100:.0f} %"
    match step.status:
        case Phase.LOADING:
            asked = any(o.worker == worker and o.decision is Decision.SENT for o in view.offers)
            return f"asking {worker}" if asked and not done else f"loading {worker}{done}"
        case Phase.READING:
            return f"reading prompt{done}"
        case _:
            speed = step.tokens_per_second
            return f"writing {speed:.0f} tokens/s" if speed else "writing"
