"""What is shown of an answer beside its text: its author, its cost, and what was not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from baton.core.events import FAILED_CHECK, Called, Decision, Offered, Warned, Weighed
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.hold_decision import overcharge_error, shown_rounded_up
from baton.core.labels import Label
from baton.core.messages import Card
from baton.core.money import show_usd
from baton.core.ports import CallOffer
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.presentation.charges import offer_cost_text
from baton.presentation.plans import has_not_begun, run_progress
from baton.presentation.run_objects import MORE_TOKENS_HINT
from baton.presentation.words import count_text

CardsById = Mapping[str, Card]
"""The workers there are, by their ids."""

FROZEN_NOTICE = "That froze the cloud: compare your provider's bill, then lift it in /budget."
UNCONFIRMED_NOTICE = (
    "{names} did not confirm what a call cost, so {cost} is charged, the most it can be. If the "
    "provider's bill does not show it, /budget release gives it back."
)

DECISIONS = {
    Decision.SENT: "sent",
    Decision.KEPT: "kept here",
    Decision.EDIT: "to be changed first",
    Decision.CEILING: "not sent, for the ceiling",
    Decision.NEVER: "not sent",
}


@frozen_dataclass
class AnswerPart:
    """One part of an answer; `remote_author` names a remote worker and its cost ("": local)."""

    text: str
    remote_author: str = ""


@frozen_dataclass
class AnswerSummary:
    """What is known of an answer, and its place among its versions.

    `author` names the worker that wrote it ("": unknown, or several).
    `steps` has for each step that was begun where it was done: local, network or cloud.
    `remote_author` is the remote worker that wrote the answer, with its cost; where several workers
    wrote it, `parts` say which wrote what. `notes` are quiet lines under it, `doubts` say what is
    likely wrong with it, `warnings` are about its charges. `is_withdrawn` is whether the person
    decided not to send the prompt; `interruption` says how far a run came that can be resumed,
    `is_unplayed` that nothing was done.
    """

    seconds: float | None = None
    tokens_per_second: float | None = None
    failure: str = ""
    author: str = ""
    steps: tuple[str, ...] = ()
    cost: int = 0
    remote_author: str = ""
    parts: tuple[AnswerPart, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_withdrawn: bool = False
    interruption: str = ""
    is_unplayed: bool = False
    version: int = 1
    versions: int = 1

    def with_version(self, version: int, versions: int) -> AnswerSummary:
        """Return the summary with the turn's place among its versions."""
        return replace(self, version=version, versions=versions)

    @property
    def steps_text(self) -> str:
        """The steps in words, where there are several: "3 steps · 2 local, 1 cloud"."""
        if len(self.steps) < 2:
            return ""
        places = ", ".join(f"{count} {place}" for place, count in Counter(self.steps).items())
        return f"{len(self.steps)} steps · {places}"


def summarise_answer(run: RunView, roster: CardsById) -> AnswerSummary:
    """Return what is known so far of a run's answer."""
    author, parts = answer_author(run), answer_parts(run, roster)
    begun = [step for step in run.steps if step.status not in ("waiting", "skipped")]
    facts = AnswerSummary(
        author=worker_name(author.worker, roster) if author else "",
        steps=tuple(worker_place(step.worker, run, roster) for step in begun),
        cost=run.cost,
        remote_author=_remote_author(author, run, roster) if author else "",
        parts=parts if len(parts) > 1 else (),
        notes=(*run.substitutions, *_summary_notes(run, roster)),
        doubts=tuple(map(warning_text, run.warnings)),
        warnings=charge_warnings(run, roster),
    )
    if run.status == "running":
        return facts
    failure = run.failure and f"{run.failure.message} {run.failure.hint}".strip()
    calls = [call for call in run.calls if author and call.step == author.number]
    speed = _writing_speed(calls[-1]) if calls and len(begun) == 1 else None
    return replace(
        facts,
        seconds=None if run.is_unplayed or run.status == "lost" else run.worked_seconds,
        tokens_per_second=speed,
        failure=failure or "",
        is_withdrawn=run.is_withdrawn,
        interruption=interruption_text(run),
        is_unplayed=run.is_unplayed,
    )


def answer_parts(run: RunView, roster: CardsById) -> tuple[AnswerPart, ...]:
    """Return the answer so far, cut where a local author follows a remote one or the reverse."""
    parts: list[AnswerPart] = []
    for number in run.plan.answer if run.plan else ():
        step = run.steps[number - 1]
        if not step.text:
            continue
        part = AnswerPart(step.text, _remote_author(step, run, roster))
        if parts and not part.remote_author and not parts[-1].remote_author:
            part = AnswerPart(f"{parts.pop().text}\n\n{part.text}")
        parts.append(part)
    if not parts and (author := answer_author(run)) is not None and author.text:
        parts.append(AnswerPart(author.text, _remote_author(author, run, roster)))  # a draft
    return tuple(parts)


def interruption_text(run: RunView) -> str:
    """Say how far a run came that can be resumed, or return ""."""
    if run.is_withdrawn or len(run.steps) < 2:
        return ""
    done = [step for step in run.steps if step.status == "done"]
    if not has_not_begun(run) and len(done) in (0, len(run.steps)):
        return ""
    progress = run_progress(run)
    return f"{progress[0].upper()}{progress[1:]}." if progress else ""


def warning_text(warned: Warned) -> str:
    """Return what is said beside an answer: in full, or as a mark where it is known."""
    if not warned.is_known or warned.kind == FAILED_CHECK:
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


def weighed_text(weighed: Weighed, name: str) -> str:
    """Say whether a worker is worth its price for a prompt, and why."""
    verdict = "worth asking" if weighed.ok else "not asked"
    return f"{one_line(name, 40)} is {verdict}: {one_line(weighed.why, 300)}"


def offer_text(offer: Offered, name: str) -> str:
    """Say what was offered to a remote worker, at what price at most, and what was decided."""
    hidden = f", hidden: {one_line(offer.hidden)}" if offer.hidden else ""
    message = f" ({one_line(offer.message)})" if offer.message else ""
    return (
        f"{one_line(name, 40)}, {offer_cost_text(offer.most)} · {DECISIONS[offer.decision]}"
        f"{message}. {one_line(offer.why)} {offer.size:,} bytes of text{hidden}."
    )


def destination_text(offer: CallOffer) -> str:
    """Say to which address, provider and worker a text would go, and what is hidden in it."""
    hidden = f" (hidden: {one_line(offer.hidden)})" if offer.hidden else ""
    card = offer.card
    whose = one_line(card.address or card.provider, 80)
    if not card.address and (card.kind != "cloud" or not whose):
        whose = "your network" if card.place is Label.LAN else "the cloud"
    names = [f"worker {one_line(card.id, 40)}"] if card.id != card.name else []
    names += (
        [one_line(card.provider, 40)]
        if card.address and card.provider and card.kind == "cloud"
        else []
    )
    who = f" ({', '.join(names)})" if names else ""
    # A program here that is not confirmed may pass it on.
    is_here = card.kind == "server" and card.place is Label.LOCAL
    verb = "Goes to" if is_here else "Leaves this machine for"
    return f"{verb} {whose}{who}{hidden}:"


def instructions_text(offer: CallOffer) -> str:
    """Say how much of Baton's own words goes along with a text."""
    lines = count_text(offer.instructions.count("\n") + 1, "line")
    return f"With Baton's own instructions, {lines}."


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
    card = roster.get(worker)
    if card is None:
        away = {sent.worker for sent in run.sent} | {offer.worker for offer in run.offers}
        return "cloud" if worker in away else "local"
    if not card.remote:
        return "local"
    return "network" if card.place is Label.LAN else "cloud"


def _remote_author(author: StepView, run: RunView, roster: CardsById) -> str:
    """Return the remote worker that wrote a step's text, and its cost; "" before the first word."""
    worker = author.worker
    wrote = author.text or any(c.tokens_out for c in run.calls if c.step == author.number)
    if not wrote or worker_place(worker, run, roster) == "local":
        return ""
    name = worker_name(worker, roster)
    calls = [call for call in run.calls if call.step == author.number]
    cost = sum(call.cost for call in calls)
    if not cost:
        return name
    doubt = "" if all(call.confirmed for call in calls) else " unconfirmed"
    return f"{name} · {show_usd(cost)}{doubt}"


def _summary_notes(run: RunView, roster: CardsById) -> list[str]:
    if run.status == "running":
        return _waiting_notes(run, roster)
    notes = []
    if run.failure is None:
        direct = run.status == "cancelled"
        offer_texts = (
            declined_offer_text(offer, worker_name(offer.worker, roster), direct)
            for offer in run.offers
        )
        more = MORE_TOKENS_HINT if run.is_all_thoughts else ""
        lack = f"{run.incomplete_reason} {more}" if run.incomplete_reason else ""
        notes += [line for line in (*offer_texts, lack.rstrip()) if line]
        notes += [line for step in run.steps if (line := _missing_step_text(step, run, roster))]
    return notes


def charge_warnings(run: RunView, roster: CardsById) -> tuple[str, ...]:
    """Say which calls cost more than was held for them, and what was charged unconfirmed."""
    errors = [
        overcharge_error(worker_name(c.worker, roster), c.cost, c.held)
        for c in run.overcharged_calls
    ]
    over = [f"{error.message} {FROZEN_NOTICE}" for error in errors]
    calls = [call for call in run.calls if call.cost and not call.confirmed]
    if not calls:
        return tuple(over)
    names = ", ".join(dict.fromkeys(worker_name(call.worker, roster) for call in calls))
    cost = show_usd(sum(call.cost for call in calls))
    return (*over, UNCONFIRMED_NOTICE.format(names=names, cost=cost))


def without_released_charges(run: RunView, released: Collection[str]) -> RunView:
    """Return a run as it stands after the charges of these calls were given back."""
    return replace(
        run,
        calls=tuple(replace(c, cost=0) if c.call in released else c for c in run.calls),
    )


def _missing_step_text(step: StepView, run: RunView, roster: CardsById) -> str:
    """Say that a step is missing in the answer, unless an offer says so already, or return ""."""
    name = worker_name(step.worker, roster)
    if step.status == "skipped" and all(offer.worker != step.worker for offer in run.offers):
        most = f"; it could have cost {shown_rounded_up(step.most)}" if step.most else ""
        return f"Step {step.number} was left out: {step.why.rstrip('.')}{most}."
    if step.status != "failed":
        return ""
    author = answer_author(run)
    if (
        author is not None
        and not _remote_author(author, run, roster)
        and author.number < step.number
    ):
        return f"{name} could not help, so the local answer stays: {step.why}"
    return f"Step {step.number} failed: {step.why}"


def _waiting_notes(run: RunView, roster: CardsById) -> list[str]:
    """Say that a draft is what stands there, as long as that is so."""
    current, author = run.current_step, answer_author(run)
    if author is None or not author.text or run.plan is None:
        return []
    if author.number in run.plan.answer:
        replaceable = run.draft and author.is_over
        return ["This is a draft: it may still be replaced."] if replaceable else []
    if current is None or current.number <= author.number:
        return []
    if len(run.steps) > 2:
        return ["This is a draft; the next steps will replace it."]
    name = worker_name(current.worker, roster)
    return [f"This is the local draft; {name} was asked and will replace it."]


def declined_offer_text(offer: Offered, name: str, direct: bool) -> str:
    """Say in one line what was not sent, why, and what it could have cost, or return "".

    `direct` is whether the prompt was for that worker alone, so that there is no local answer.
    """
    price = f"; it could have cost {shown_rounded_up(offer.most)}" if offer.most else ""
    match offer.decision:
        case Decision.KEPT:
            why = "nothing was sent" if direct else "you kept the local answer"
            return f"{name} was not asked: {why}{price}."
        case Decision.EDIT:
            return f"{name} was not asked: the prompt is to be changed first."
        case Decision.CEILING:
            why = _first_sentence(offer.message)
            why = why[:1].lower() + why[1:]
            return f"{name} was not asked: {why}{price}. /budget changes that."
        case Decision.NEVER:
            return f"{_first_sentence(offer.message)}{price}. /budget changes that."
        case Decision.SENT:
            return ""


def _first_sentence(message: str) -> str:
    """Leave out what to do about it on the command line."""
    return message.partition(". ")[0].rstrip(".")


def _writing_speed(call: Called) -> float | None:
    """Return the tokens per second of a call, counted from its first word (None: too few)."""
    writing = call.seconds - (call.first_token or 0)
    return (call.tokens_out - 1) / writing if call.tokens_out > 1 and writing > 0.05 else None
