"""The story of a run, as lines that `why`, `trace`, the app's panel and /why lay out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from baton.core import events as ev
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.history_types import RunRecord
from baton.core.hold_decision import shown_rounded_up
from baton.core.labels import Label, address_label
from baton.core.messages import Card, Finish, Purpose
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView, fold_events, left_out_text, other_model_text
from baton.presentation.plans import access_text, need_text, step_numbers
from baton.presentation.words import count_text

CardsById = Mapping[str, Card]
"""The workers there are, by their ids."""

NO_CARDS: CardsById = {}

ENDED_STATUSES = ("lost", "cancelled", "failed")
"""How a run ended that can be resumed."""

PLACES = {Label.LOCAL: "local", Label.LAN: "network", Label.CLOUD: "cloud"}


Naming = Callable[[str], str]
"""Returns what a worker is called, by its id."""


@frozen_dataclass
class StoryLine:
    """One fact of a run, in a sentence; `kind` is the type of event that it rests on.

    `step` is the step that it is about (0: none).
    """

    kind: type[ev.Event]
    text: str
    step: int = 0


def run_story(run: RunView, run_id: str = "", roster: CardsById = NO_CARDS) -> list[StoryLine]:
    """Say in a few lines how a run's answer came about.

    With a `run_id` the command that continues it is named. Workers are named as in `roster`; those
    that aren't in it by their ids.
    """
    name = _naming(roster)
    lines: list[tuple[type[ev.Event], str]] = [(ev.Routed, _route_text(run))]
    if run.routed is not None and run.routed.decided_by == "late":
        lines.append((ev.Routed, _LATE_ROUTER))
    lines += [(ev.Called, text) for text in _planner_texts(run, name)]
    if run.planning and run.status == "running":
        lines.append((ev.Planning, f"{name(run.planning)} is planning."))
    lines += [(ev.Weighed, _weighed_text(weighed, name)) for weighed in run.weighed]
    lines += [(ev.StepStarted, text) for text in _worker_texts(run, name)]
    lines += [
        (ev.Offered, _offer_story(offer, name))
        for offer in run.offers
        if not _is_covered(offer, run)
    ]
    lines += [(ev.Planned, f"Then: {one_line(revision)}") for revision in run.revisions]
    checks = [check for step in run.steps for check in step.checks]
    lines += [
        (ev.Checked, _check_text(check))
        for check in checks
        if check.verdict is not ev.Verdict.UNCHECKED
    ]
    for note in (other_model_text, left_out_text):
        lines += [(ev.Called, text) for text in dict.fromkeys(map(note, run.calls)) if text]
    lines += [(ev.Warned, f"Warning: {warning_text(each)}") for each in run.warnings]
    lines += [(ev.Finished, text) for text in [_ending_text(run, run_id)] if text]
    return [StoryLine(kind, text) for kind, text in lines]


_LATE_ROUTER = "The router was not ready in time, so a rule of length and kind of task decided."


def _naming(roster: CardsById) -> Naming:
    return lambda worker: one_line(worker_name(worker, roster), 40)


def _route_text(run: RunView) -> str:
    """Say where the prompt went, which need not be where it was to go."""
    if run.routed is None:
        is_running = run.status == "running"
        return "Nothing was decided yet." if is_running else "How this came about isn't known."
    is_away, where = has_left(run), run.routed.where
    if where == "plan":
        went = f"It went by a plan{', parts of which left this machine' if is_away else ''}"
    elif is_away:
        went = "It left this machine" if where == "cloud" else "It began on this machine"
    else:
        is_meant = where == "cloud"
        went = "It was to leave this machine" if is_meant else "It stayed on this machine"
    strategy = f" (strategy {one_line(run.routed.strategy)})" if run.routed.strategy else ""
    reason = one_line(run.routed.why)
    kept = where == "cloud" and not is_away and run.status != "running"
    return f"{went}{strategy}{f': {reason}' if reason else '.'}{' Nothing left it.' * kept}"


def _planner_texts(run: RunView, name: Naming) -> list[str]:
    """Say who was asked for the plan, or to judge what came of it, and for how much."""
    calls: dict[tuple[str, bool], list[ev.Called]] = {}
    for call in run.calls:
        if call.step == 0 and call.purpose in (Purpose.PLAN, Purpose.VERIFY):
            calls.setdefault((call.worker, call.purpose is Purpose.PLAN), []).append(call)
    lines = []
    for (worker, is_plan), asked in calls.items():
        has_written = any(call.finish is not None or call.tokens_out for call in asked)
        planned = "planned" if has_written else "was asked for a plan, without success"
        lines.append(f"{name(worker)} {planned if is_plan else 'checked'}{_price_text(asked)}.")
    return lines


def _price_text(calls: Iterable[ev.Called]) -> str:
    cost = sum(call.cost for call in calls)
    return f", for {show_usd(cost)}" if cost else ""


def _worker_texts(run: RunView, name: Naming) -> list[str]:
    """Say who did which steps, where, and for how much; and who could not."""
    by_worker: dict[tuple[str, str], list[int]] = {}
    for step in run.steps:
        if step.began is not None and step.status not in ("failed", "skipped"):
            by_worker.setdefault((step.worker, step_place(step, run)), []).append(step.number)
    has_steps, lines = len(run.steps) > 1, []
    for (worker, place), numbers in by_worker.items():
        calls = [c for c in run.calls if c.step in numbers and c.worker == worker]
        verb = f"did {step_numbers(numbers)}" if has_steps else "answered"
        if any(run.steps[n - 1].status != "done" for n in numbers) and run.status != "finished":
            verb = f"began {step_numbers(numbers)}" if has_steps else "began"
        elif not has_steps and run.is_all_thoughts:
            verb = "used its whole length cap for thoughts, and wrote no answer"
        lines.append(f"{name(worker)} ({place}) {verb}{_price_text(calls)}.")
        if most := max((call.expected_tokens for call in calls if call.held), default=0):
            whose = "Each of its texts" if len(numbers) > 1 else "Its text"
            lines[-1] += f" {whose} was expected to have at most {most:,} tokens."
    if kept := [step.number for step in run.steps if step.status == "done" and step.began is None]:
        lines.append(f"What {step_numbers(kept)} wrote was there already, from an earlier run.")
    lines += [
        f"{name(worker)} failed{f' at step {step.number}' * has_steps}: {one_line(reason)}"
        for step in run.steps
        for worker, reason in step.failures
        if worker != step.worker or step.status == "done"
    ]
    return lines + [text for step in run.steps if (text := missing_step_text(step, run, name))]


def missing_step_text(step: StepView, run: RunView, name: Naming) -> str:
    """Say why a step is missing in the answer, or return ""."""
    if step.status == "skipped":
        return _skipped_text(ev.StepSkipped(step.number, step.why, step.most))
    if step.status == "failed" and len(run.steps) > 1:
        author, why = answer_author(run), one_line(step.why)
        if (
            author is not None
            and author.number < step.number
            and step_place(author, run) == "local"
        ):
            return f"{name(step.worker)} could not help, so the local answer stays: {why}"
        return f"Step {step.number}, given to {name(step.worker)}, failed: {why}"
    return ""


def _skipped_text(event: ev.StepSkipped, _: Naming = str) -> str:
    price = f"; it could have cost {shown_rounded_up(event.most)}" if event.most else ""
    return f"Step {event.step} was left out: {one_line(event.why).rstrip('.')}{price}."


def _is_covered(offer: ev.Offered, run: RunView) -> bool:
    """Whether a call already says that the offer was taken, or a step that it wasn't."""
    if offer.decision is ev.Decision.SENT:
        return any(call.worker == offer.worker for call in run.calls)
    return any(missing_step_text(s, run, str) for s in run.steps if s.worker == offer.worker)


_UNFINISHED = {
    "cancelled": "It was stopped before it was done.",
    "lost": "Baton was ended before it was done.",
    "running": "It is still running.",
}


def _ending_text(run: RunView, run_id: str) -> str:
    if run.failure is not None:
        return f"It failed: {one_line(run.failure.message)}"
    progress = resume_hint(run_id, run) if run_id else interruption_text(run)
    return progress or _UNFINISHED.get(run.status, "")


# Single sentences, in the words of every front end


_DECISIONS = {
    ev.Decision.SENT: "was approved",
    ev.Decision.KEPT: "was not asked, as you decided",
    ev.Decision.EDIT: "was not asked, as you want to change the prompt first",
    ev.Decision.CEILING: "was not asked",
    ev.Decision.NEVER: "was not asked",
}


def offer_text(offer: ev.Offered, name: str) -> str:
    """Say what was decided about asking a remote worker, why, and what it costs or would have."""
    message = offer.message.partition(" was not asked: ")[2] or offer.message
    reason = message.partition(". ")[0].rstrip(".")
    because = f": {one_line(reason[:1].lower() + reason[1:])}" if reason else ""
    most = shown_rounded_up(offer.most)
    price = f"; it could have cost {most}" if offer.most else ""
    if offer.decision is ev.Decision.SENT:
        price = f" for at most {most}" if offer.most else " for nothing"
    plan = "" if offer.step else " to plan"
    return f"{one_line(name, 40)} {_DECISIONS[offer.decision]}{plan}{because}{price}."


def _offer_story(offer: ev.Offered, name: Naming) -> str:
    hidden = f", hidden: {one_line(offer.hidden)}" if offer.hidden else ""
    return (
        f"{offer_text(offer, name(offer.worker))} The reason to ask it: {one_line(offer.why)}"
        f" {offer.size:,} bytes of text{hidden}."
    )


def _weighed_text(weighed: ev.Weighed, name: Naming) -> str:
    verdict = "worth asking" if weighed.ok else "not asked"
    return f"{name(weighed.worker)} is {verdict}: {one_line(weighed.why, 300)}"


def _check_text(check: ev.Checked, _: Naming = str) -> str:
    note = f" ({one_line(check.note)})" if check.note else ""
    result = f"{one_line(check.what, 40)}: {check.verdict.value}{note}"
    return f"Step {check.step} was checked, {result}."


def warning_text(warned: ev.Warned) -> str:
    """Return what is shown beside an answer: in full, or as a mark where it is known."""
    if not warned.is_known or warned.kind == ev.FAILED_CHECK:
        return one_line(f"{warned.message} {warned.hint}".strip(), 400)
    if warned.chance is not None:
        return f"{warned.message.partition(':')[0]}: right with a chance of {warned.chance:.0%}."
    return f"{_MARKS.get(warned.kind, warned.kind.replace('_', ' ')).capitalize()}."


_MARKS = {
    "needs_current_data": "not looked up",
    "needs_link": "the link was not opened",
    "needs_this_machine": "this machine was not looked at",
    "needs_personal_data": "nothing is known about you",
    "needs_action": "nothing was done",
    "repetition": "stopped, as it repeated itself",
}


def event_lines(events: Iterable[ev.Event], roster: CardsById = NO_CARDS) -> list[StoryLine]:
    """Return what events say, one line for each that says anything."""
    name, lines = _naming(roster), []
    for event in events:
        if (template := _TEMPLATES.get(type(event))) is not None:
            text = template.format_map(_template_values(event, name))
        elif (write := _WRITERS.get(type(event))) is not None:
            text = write(event, name)
        else:
            continue
        lines.append(StoryLine(type(event), text, getattr(event, "step", 0)))
    return lines


_TEMPLATES: Mapping[type[ev.Event], str] = {
    ev.Started: "The prompt is stored.",
    ev.Planning: "{worker} is asked for a plan.",
    ev.StepStarted: "Step {step} is given to {worker}.",
    ev.StepFailed: "Step {step} failed: {message}",
    ev.Trimmed: "The {turns} oldest turns are left out from here on.",
    ev.Warned: "Warning: {message}",
    ev.Sent: "{whose} sent {size:,} bytes to {worker} ({destination}).",
    ev.Unsent: "{whose} had no connection to {destination}, so that did not leave.",
    ev.Failed: "It failed ({error}): {message}",
    ev.Cancelled: "It was stopped; the text so far was kept.",
    ev.Finished: "It is finished.",
}
"""What an event says in which only its fields differ."""


def _template_values(event: ev.Event, name: Naming) -> dict[str, object]:
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    texts = {key: one_line(value, 400) for key, value in values.items() if isinstance(value, str)}
    if isinstance(event, ev.Unsent):
        texts["destination"] = texts["destination"] or texts["worker"]  # older runs don't name it
    worker = {"worker": name(values["worker"])} if "worker" in values else {}
    whose = f"Step {values['step']}" if values.get("step") else "Planning"
    return values | texts | worker | {"whose": whose}


def _decision_text(event: ev.Routed, _: Naming) -> str:
    by = f" (strategy {one_line(event.strategy)})" if event.strategy else ""
    return f"It goes {event.where}{by}: {one_line(event.why)}"


def _finish_text(event: ev.StepFinished, _: Naming) -> str:
    end = FINISH_WORDS.get(event.finish)
    return f"Step {event.step} is done{f' ({end})' if end else ''}."


def _retry_text(event: ev.StepRetried, name: Naming) -> str:
    if not event.reason:
        return f"Step {event.step} begins its text again: what came so far were thoughts."
    delay = f"in {event.delay:.0f} s" if event.delay else "at once"
    how = f"goes to {name(event.worker)} instead" if event.worker else f"is tried again {delay}"
    return f"Step {event.step} {how}: {one_line(event.reason)}"


def _plan_text(event: ev.Planned, name: Naming) -> str:
    plan = event.plan
    why = f" ({one_line(event.why)})" if event.why else ""
    draft = "" if event.final else "; its answer may still be replaced"
    if len(plan.steps) > 1:
        answer = ", ".join(map(str, plan.answer))
        return f"A plan of {len(plan.steps)} steps, answered by {answer}{draft}.{why}"
    [step] = plan.steps
    sees = access_text(step.access)
    return f"Step 1: {one_line(step.subtask)} By {name(step.worker)}, seeing {sees}{draft}.{why}"


def _call_text(call: ev.Called, name: Naming) -> str:
    """Say what a call read and wrote, how long it took, what it held and was charged."""
    whose = f"Step {call.step} called " if call.step else "Called "
    cached = f" ({call.cached:,} of them cached)" if call.cached else ""
    expected = f" (at most {call.expected_tokens:,} expected)" if call.expected_tokens else ""
    cost = f"charged {show_usd(call.cost)}" if call.cost else "charged nothing" * bool(call.held)
    if call.cost and not call.confirmed:
        cost += f", unconfirmed (`baton budget release {one_line(call.call)}`)"
    parts = [
        f"{whose}{name(call.worker)} ({call.purpose})",
        f"read {call.tokens_in:,} tokens{cached}",
        f"wrote {call.tokens_out:,}{expected}",
        f"{call.seconds:.2f} s in all",
        f"{call.loading:.2f} s loading" if call.loading > 0.05 else "",
        "" if call.first_token is None else f"first word after {call.first_token:.2f} s",
        "" if call.confirmed else "ended early or without a plausible count",
        f"held {shown_rounded_up(call.held)}" if call.held else "",
        cost,
    ]
    return f"{', '.join(filter(None, parts))}."


_WRITERS: Mapping[type[ev.Event], Callable[[Any, Naming], str]] = {
    ev.Routed: _decision_text,
    ev.Planned: _plan_text,
    ev.Weighed: _weighed_text,
    ev.Offered: _offer_story,
    ev.StepRetried: _retry_text,
    ev.StepFinished: _finish_text,
    ev.StepSkipped: _skipped_text,
    ev.Checked: _check_text,
    ev.Called: _call_text,
}


# Steps


FINISH_WORDS = {
    Finish.LENGTH: "cut at its cap",
    Finish.FILTER: "ended by a content filter",
    Finish.TOOL: "ended in the call of a tool",
    Finish.EMPTY: "empty",
    Finish.THOUGHTS: "cut at its cap in its thoughts, without an answer",
}


def step_summary(step: StepView, run: RunView, roster: CardsById = NO_CARDS) -> list[str]:
    """Say who did a step, where, how it stands, for how long and for how much."""
    worker = _naming(roster)(step.worker or step.step.worker)
    calls = [call for call in run.calls if call.step == step.number]
    read, wrote = sum(c.tokens_in for c in calls), sum(c.tokens_out for c in calls)
    cost = sum(call.cost for call in calls)
    doubt = "" if all(call.confirmed for call in calls) else " unconfirmed"
    parts = [
        worker,
        "" if step.began is None else step_place(step, run),
        _status_text(step, run),
        "answers" if run.plan is not None and step.number in run.plan.answer else "",
        f"{read:,} tokens read, {wrote:,} written" if calls else "",
        f"{show_usd(cost)}{doubt}" if cost else "",
    ]
    return [part for part in parts if part]


def _status_text(step: StepView, run: RunView) -> str:
    status = FINISH_WORDS.get(step.finish, step.status) if step.status == "done" else step.status
    if step.status == "done" and step.began is None:
        return f"{status} before"
    if step.began is None or (step.ended is None and run.status != "running"):
        return status
    return f"{status} in {(run.seconds if step.ended is None else step.ended) - step.began:.1f} s"


def step_facts(step: StepView, run: RunView, roster: CardsById = NO_CARDS) -> list[str]:
    """Say of what kind a step is, what it sees, and what went wrong."""
    planned = step.step.worker
    name = _naming(roster)
    marks = [
        need_text(step.step.need),
        "optional" if step.step.optional else "",
        "checks" if step.step.check else "",
        f"in place of {name(planned)}" if planned and step.worker != planned else "",
    ]
    properties = f"{', '.join(filter(None, marks))}; sees {access_text(step.step.access)}"
    why = missing_step_text(step, run, name) or one_line(step.why)
    return [properties, why] if why else [properties]


# Where, and how far


def worker_name(worker: str, roster: CardsById) -> str:
    """Return a worker's name for people, its id before it if another has that name, too.

    It is the id, if it is gone.
    """
    if worker not in roster:
        return worker
    name = roster[worker].name
    is_shared = sum(card.name == name for card in roster.values()) > 1
    return f"{worker} ({name})" if is_shared else name


def worker_place(worker: str, run: RunView, roster: CardsById) -> str:
    """Say where a worker works: local, network or cloud."""
    if (card := roster.get(worker)) is None:
        away = {sent.worker for sent in run.sent} | {offer.worker for offer in run.offers}
        return PLACES[Label.CLOUD if worker in away else Label.LOCAL]
    if not card.remote:
        return PLACES[Label.LOCAL]
    return PLACES[Label.LAN if card.place is Label.LAN else Label.CLOUD]


def step_destination(step: StepView, run: RunView) -> str:
    """Return the host that the request to a step's worker went to, or "": it was done here."""
    mine = (s for s in reversed(run.sent) if (s.step, s.worker) == (step.number, step.worker))
    return next((sent.destination for sent in mine), "")


def step_place(step: StepView, run: RunView) -> str:
    """Say where a step was done: "local", "network (lab.home.arpa)", "cloud (api.openai.com)".

    A worker that money was held for counts as cloud, even behind a program on this machine.
    """
    host = step_destination(step, run)
    if not host:
        return PLACES[Label.LOCAL]
    is_paid = (step.number, step.worker) in _paid_work(run)
    return f"{PLACES[Label.CLOUD if is_paid else _farthest_label(host)]} ({one_line(host)})"


def has_left(run: RunView) -> bool:
    """Whether anything of a run left this machine."""
    paid = _paid_work(run)
    return any(
        (sent.step, sent.worker) in paid or _farthest_label(sent.destination) is not Label.LOCAL
        for sent in run.sent
    )


def _paid_work(run: RunView) -> set[tuple[int, str]]:
    """Return the steps, with their workers, that money was held for."""
    return {(call.step, call.worker) for call in run.calls if call.held}


def _farthest_label(destination: str) -> Label:
    """Return how far the farthest place is that a request passed."""
    on_the_way = {address_label(f"https://{place}") for place in destination.split(" through ")}
    return next(label for label in reversed(Label) if label in on_the_way)


def answer_author(run: RunView) -> StepView | None:
    """Return the step that wrote what stands there: the draft's until its successor has a word."""
    wrote = {call.step for call in run.calls if call.tokens_out}
    wrote |= {step.number for step in run.steps if step.text}
    answering = [run.steps[n - 1] for n in (run.plan.answer if run.plan else ()) if n in wrote]
    if answering:
        return answering[-1]
    drafts = [step for step in run.steps if step.step.is_direct and step.number in wrote]
    if drafts and (run.before or run.status != "running"):
        return next((draft for draft in drafts if draft.text == run.before), drafts[-1])
    return run.steps[0] if len(run.steps) == 1 else None


def record_view(record: RunRecord) -> RunView:
    """Fold a stored run's events; one that is over without saying so was lost, or imported."""
    view = fold_events(record.events)
    is_endless = view.status == "running" and record.status != "running"
    return replace(view, status="lost") if is_endless else view


def run_progress(run: RunView) -> str:
    """Say how far a run came that ended before its plan did, or return ""."""
    if run.status not in ENDED_STATUSES or run.plan is None:
        return ""
    done = [step.number for step in run.steps if step.status == "done"]
    count = len(run.steps)
    if has_not_begun(run):
        return f"plan of {count_text(count, 'step')} kept, not run"
    if count < 2:
        return ""
    if not done:
        return f"interrupted before any of its {count} steps was done"
    if done == list(range(1, len(done) + 1)):
        return f"interrupted after step {done[-1]} of {count}"
    return f"interrupted with {step_numbers(done)} of {count} done"


def resume_hint(run_id: str, run: RunView) -> str:
    """Say how far a run came and which command continues it, or return ""."""
    if not (progress := run_progress(run)):
        return ""
    verb = "runs it" if has_not_begun(run) else "continues it"
    return f"{progress[0].upper()}{progress[1:]}; `baton resume {run_id}` {verb}."


def interruption_text(run: RunView) -> str:
    """Say how far a run came that can be resumed, or return ""."""
    done = [step for step in run.steps if step.status == "done"]
    is_between = 0 < len(done) < len(run.steps)
    if run.is_withdrawn or len(run.steps) < 2 or not (is_between or has_not_begun(run)):
        return ""
    progress = run_progress(run)
    return f"{progress[0].upper()}{progress[1:]}." if progress else ""


def has_not_begun(run: RunView) -> bool:
    """Whether there is a plan of which no step was begun."""
    return run.plan is not None and all(step.status == "waiting" for step in run.steps)
