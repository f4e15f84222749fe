"""The fold over events that screen, command line, endpoint and replay share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from baton.core.events import (
    Called,
    Cancelled,
    Checked,
    Decision,
    Event,
    Failed,
    Finished,
    Offered,
    Phase,
    Planned,
    Planning,
    Progress,
    Routed,
    Sent,
    Started,
    StepFailed,
    StepFinished,
    StepRetried,
    StepSkipped,
    StepStarted,
    StepText,
    Terminal,
    Trimmed,
    Unsent,
    Warned,
    Weighed,
)
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.messages import Finish
from baton.core.plan_types import Plan, Step
from baton.core.sanitiser import one_line

_INCOMPLETE_REASONS = {
    Finish.FILTER: "The provider's content filter ended the answer, so it is not whole.",
    Finish.TOOL: "The worker called a tool that it was not offered; the answer may not be whole.",
    Finish.THOUGHTS: "All of the answer's length cap went into thoughts, so there is no answer.",
    Finish.EMPTY: "The answer is empty.",
}

_WITHDRAWN_DECISIONS = (Decision.KEPT, Decision.EDIT)


@frozen_dataclass
class StepView:
    """One step as it stands: waiting, loading, reading, writing, done, failed or skipped.

    `worker` is who does it, `why` what went wrong or why it was left out; it could have cost `most`
    nano-dollars. `failures` are the workers that were tried before, each with its reason. Times are
    in seconds since the run began (None: not yet).
    """

    number: int
    step: Step
    worker: str = ""
    status: str = "waiting"
    text: str = ""
    fraction: float | None = None
    tokens_per_second: float | None = None
    finish: Finish = Finish.STOP
    stop: str = ""
    why: str = ""
    most: int = 0
    began: float | None = None
    ended: float | None = None
    checks: tuple[Checked, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the step is done, failed or skipped."""
        return self.status in ("done", "failed", "skipped")

    @property
    def is_cut(self) -> bool:
        """Whether its text was cut at the length cap."""
        return self.finish in (Finish.LENGTH, Finish.THOUGHTS)


@frozen_dataclass
class RunView:
    """A run as it stands after some of its events.

    `status` is running, finished, failed or cancelled. `planning` is who is being asked for a plan.
    With `draft` the answer may still be replaced (`before` is the one that a new plan replaces);
    `revisions` say why it was, or why there were more steps than at first. `offers` are what could
    have left or did, `sent` what left, `weighed` whether help was thought worth its price,
    `warnings` what is said beside the answer. `notice` is the last thing to show that isn't an
    error (a retry, turns left out, why there is no answer). `deadline` is after how many seconds it
    had to end (0: it wasn't cut by that), `seconds` is the time of the last event.
    """

    status: str = "running"
    started: Started | None = None
    routed: Routed | None = None
    planning: str = ""
    plan: Plan | None = None
    before: str = ""
    draft: bool = False
    revisions: tuple[str, ...] = ()
    substitutions: tuple[str, ...] = ()
    steps: tuple[StepView, ...] = ()
    calls: tuple[Called, ...] = ()
    offers: tuple[Offered, ...] = ()
    sent: tuple[Sent, ...] = ()
    weighed: tuple[Weighed, ...] = ()
    warnings: tuple[Warned, ...] = ()
    notice: str = ""
    failure: Failed | None = None
    deadline: float = 0.0
    seconds: float = 0.0

    @property
    def answer(self) -> str:
        """The answer's text so far: the answer steps' texts, in order.

        Until those that replace a draft have a word, it is the draft.
        """
        numbers = self.plan.answer if self.plan else ()
        texts = [self.steps[n - 1].text for n in numbers]
        return "\n\n".join(filter(None, texts)) or self.before

    @property
    def stable_answer(self) -> str:
        """As much of the answer as will stay: it only ever grows.

        Answer steps may be written side by side: up to the first that isn't over, in their order.
        """
        if self.draft and self.status == "running":
            return ""
        texts = []
        for n in self.plan.answer if self.plan else ():
            texts.append(self.steps[n - 1].text)
            if not self.steps[n - 1].is_over:
                break
        return "\n\n".join(text for text in texts if text)

    @property
    def current_step(self) -> StepView | None:
        """The step that is being worked on, if any; the last of several."""
        return next((s for s in reversed(self.steps) if s.status in set(Phase)), None)

    @property
    def cost(self) -> int:
        """What the calls have cost so far, in nano-dollars."""
        return sum(call.cost for call in self.calls)

    @property
    def overcharged_calls(self) -> tuple[Called, ...]:
        """The calls that cost more than was held for them, which freezes the cloud."""
        return tuple(call for call in self.calls if call.cost > call.held)

    @property
    def worked_seconds(self) -> float:
        """The seconds of the run, without waiting for the user."""
        spent = sum(call.seconds for call in self.calls)
        return min(self.seconds, spent) if self.offers else self.seconds

    @property
    def is_withdrawn(self) -> bool:
        """Whether the user decided not to send the prompt."""
        decided = (offer.decision for offer in self.offers)
        return self.status == "cancelled" and any(d in _WITHDRAWN_DECISIONS for d in decided)

    @property
    def is_unstarted(self) -> bool:
        """Whether it was stopped before anything of its plan was done."""
        begun = any(step.status != "waiting" for step in self.steps)
        return self.status == "cancelled" and bool(self.steps) and not (begun or self.offers)

    @property
    def is_cut(self) -> bool:
        """Whether an answer step stopped at its length cap."""
        answer = self.plan.answer if self.plan else ()
        return any(self.steps[n - 1].finish is Finish.LENGTH for n in answer)

    @property
    def is_all_thoughts(self) -> bool:
        """Whether a part of the answer has no word, as its length cap went into thoughts."""
        return Finish.THOUGHTS in self._answer_ends

    @property
    def _answer_ends(self) -> set[Finish]:
        steps = [self.steps[n - 1] for n in (self.plan.answer if self.plan else ())]
        return {step.finish for step in steps if step.status == "done"}

    @property
    def incomplete_reason(self) -> str:
        """Why a finished answer that wasn't cut at its cap is not whole, in a sentence, or ""."""
        if self.status != "finished" or self.plan is None or self.is_cut:
            return ""
        if self.deadline:
            return f"The {self.deadline:g} seconds were over, so this is what there was by then."
        steps = [self.steps[n - 1] for n in self.plan.answer]
        ends, reasons = self._answer_ends, _INCOMPLETE_REASONS
        reason = next((words for end, words in reasons.items() if end in ends), "")
        has_text = any(step.text.strip() for step in steps)
        if reason and self.before and not has_text:
            return "The draft stays, as the answer that was to replace it is empty."
        is_empty = reason in (reasons[Finish.EMPTY], reasons[Finish.THOUGHTS])
        return "A part of the answer is empty." if is_empty and has_text else reason

    def apply(self, event: Event) -> RunView:
        if isinstance(event, StepText):  # there are thousands of these
            return self._with_text(event)
        view = replace(self, seconds=event.at)
        match event:
            case Started():
                return replace(view, started=event)
            case Routed():
                return replace(view, routed=event)
            case Weighed():
                return replace(view, weighed=(*view.weighed, event))
            case Planning(worker=worker):
                return replace(view, planning=worker)
            case Planned():
                return view._with_plan(event)
            case Trimmed(turns=turns):
                return replace(view, notice=f"{turns} earlier turns are not sent from here on.")
            case Called() | Offered() | Sent() | Unsent() | Checked() | Warned():
                return view._note(event)
            case Finished() | Failed() | Cancelled():
                return view._ended(event)
            case _:
                return view._apply_to_step(event)

    def _ended(self, event: Terminal) -> RunView:
        failure = event if isinstance(event, Failed) else None
        deadline = event.deadline if isinstance(event, Finished) else 0.0
        status = type(event).__name__.lower()
        view = replace(self, status=status, failure=failure, deadline=deadline)
        last = self.weighed[-1] if self.weighed and not self.offers else None
        if isinstance(event, Finished) and not self.answer.strip() and last and not last.ok:
            # Without it there would be no reason for the empty answer; an offer shows one.
            return replace(view, notice=f"{last.worker} was not asked: {last.why}")
        return view

    def _with_text(self, event: StepText) -> RunView:
        old = self.steps[event.step - 1]
        new = replace(old, status=Phase.WRITING.value, text=old.text + event.text)
        steps = (*self.steps[: event.step - 1], new, *self.steps[event.step :])
        return replace(self, seconds=event.at, steps=steps)

    def _with_plan(self, event: Planned) -> RunView:
        known = len(self.steps)
        new = enumerate(event.plan.steps[known:], start=known + 1)
        return replace(
            self,
            planning="",
            plan=event.plan,
            before=self.answer,
            draft=not event.final,
            steps=(*self.steps, *(StepView(n, step, step.worker) for n, step in new)),
            revisions=(*self.revisions, event.why) if event.why else self.revisions,
        )

    def _with_step(self, step: StepView) -> RunView:
        steps = (*self.steps[: step.number - 1], step, *self.steps[step.number :])
        return replace(self, steps=steps)

    def _note(self, event: Called | Offered | Sent | Unsent | Checked | Warned) -> RunView:
        match event:
            case Checked(step=step):
                old = self.steps[step - 1]
                return self._with_step(replace(old, checks=(*old.checks, event)))
            case Called():
                planning = "" if event.step == 0 else self.planning
                texts = self.substitutions
                if (other := other_model_text(event)) not in ("", *texts):
                    texts = (*texts, other)
                return replace(
                    self, calls=(*self.calls, event), planning=planning, substitutions=texts
                )
            case Offered():
                return replace(self, offers=(*self.offers, event), notice=event.message)
            case Sent():
                return replace(self, sent=(*self.sent, event))
            case Unsent():
                last = next(s for s in reversed(self.sent) if _is_same_request(s, event))
                return replace(self, sent=tuple(s for s in self.sent if s is not last))
            case Warned():
                return replace(self, warnings=(*self.warnings, event))

    def _apply_to_step(
        self,
        event: StepStarted | Progress | StepRetried | StepFinished | StepSkipped | StepFailed,
    ) -> RunView:
        if event.step == 0:
            return self  # planning, which has no text to show
        old = self.steps[event.step - 1]
        match event:
            case StepStarted(worker=worker):
                loading = Phase.LOADING.value
                began = event.at if old.began is None else old.began
                return self._with_step(replace(old, status=loading, worker=worker, began=began))
            case Progress():
                speed = event.tokens_per_second or old.tokens_per_second
                new = replace(old, status=event.phase.value, fraction=event.fraction)
                return self._with_step(replace(new, tokens_per_second=speed))
            case StepRetried(worker=worker):
                if not event.reason:
                    return self._with_step(replace(old, text=""))
                failures = (*old.failures, (old.worker, event.reason))
                new = replace(old, status=Phase.LOADING.value, fraction=None, text="")
                view = self._with_step(replace(new, failures=failures))
                if not worker:
                    return replace(view, notice=f"{event.reason} Trying again.")
                does = "answers" if len(self.steps) == 1 else f"does step {event.step}"
                said = f"{event.reason} {worker} {does} instead."
                return replace(view, notice=said, substitutions=(*self.substitutions, said))
            case StepFinished():
                new = replace(
                    old, finish=event.finish, stop=event.stop, text=event.text or old.text
                )
                return self._with_step(replace(new, status="done", ended=event.at))
            case StepSkipped():
                new = replace(old, status="skipped", why=event.why, most=event.most)
                return self._with_step(replace(new, ended=event.at))
            case StepFailed():
                new = replace(old, status="failed", why=event.message, ended=event.at)
                return replace(self._with_step(new), notice=event.message)


def fold_events(events: Iterable[Event]) -> RunView:
    """Return the view of stored events; none of those that name steps which aren't there."""
    view = RunView()
    try:
        for event in events:
            view = view.apply(event)
    except IndexError:  # no Baton wrote them: they were imported
        return RunView()
    return view


def other_model_text(call: Called) -> str:
    """Say that a worker answered under another model's name than it was asked for, or return ""."""
    if not call.other_model:
        return ""
    name = one_line(call.other_model, 80)
    return f"{call.worker} answered with the model {name}, which isn't the one that was asked for."


def left_out_text(call: Called) -> str:
    """Say that a worker was asked without settings that its model refused before, or return ""."""
    if not call.left_out:
        return ""
    return f"{call.worker} was asked {one_line(call.left_out, 200)}, since its model refused that."


def _is_same_request(sent: Sent, unsent: Unsent) -> bool:
    """Whether that is the request that did not leave; older runs don't name its destination."""
    is_same_place = unsent.destination in ("", sent.destination)
    return (sent.step, sent.worker) == (unsent.step, unsent.worker) and is_same_place


def activity_text(view: RunView, name: Callable[[str], str] = str) -> str:
    """Say in a few words what is happening now; `name` is what a worker's id is called."""
    if view.status == "finished":
        return f"finished in {view.worked_seconds:.1f} s"
    if view.status == "cancelled":
        if view.is_unstarted:
            return "not run"
        return "not sent" if view.is_withdrawn else f"stopped after {view.worked_seconds:.1f} s"
    if view.status == "failed":
        return "failed"
    if view.planning:
        return "planning"
    step = view.current_step
    if step is None:
        return "starting"
    what = _phase_text(step, view, name(step.worker))
    if len(view.steps) < 2:
        return what
    return f"step {step.number} of {len(view.steps)}: {what}"


def _phase_text(step: StepView, view: RunView, name: str) -> str:
    done = "" if step.fraction is None else f" {step.fraction * 100:.0f} %"
    match step.status:
        case Phase.QUEUED:
            return "waiting for money that other prompts hold"
        case Phase.LOADING:
            asked = any(
                o.worker == step.worker and o.decision is Decision.SENT for o in view.offers
            )
            return f"asking {name}" if asked and not done else f"loading {name}{done}"
        case Phase.READING:
            return f"reading prompt{done}"
        case _:
            what = "thinking" if step.status == Phase.THINKING else "writing"
            speed = step.tokens_per_second
            return f"{what} {speed:.0f} tokens/s" if speed else what
