"""What is shown of an answer beside its text: its author, its cost, and what was not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from baton.core.events import Called, Decision, Offered, Routed
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.hold_decision import overcharge_error
from baton.core.labels import Label
from baton.core.money import format_usd, show_usd
from baton.core.ports import CallOffer
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.presentation.run_story import (
    CardsById,
    answer_author,
    interruption_text,
    missing_step_text,
    offer_text,
    warning_text,
    worker_name,
    worker_place,
)
from baton.presentation.words import count_text

FROZEN_NOTICE = "That froze the cloud: compare your provider's bill, then lift it in /budget."
UNCONFIRMED_NOTICE = (
    "{names} did not confirm what a call cost, so {cost} is charged, the most it can be. If the "
    "provider's bill does not show it, /budget release gives it back."
)

ASK_AGAIN_HINT = "Ask another worker, or put it differently."
"""What helps where an answer is empty, or ended otherwise than it should."""

MORE_TOKENS_HINT = (
    "`max_output` in the worker's entry (`baton config edit`) allows more, and `cloud.effort` sets"
    " how much a cloud model thinks."
)
"""What helps where the length cap went into thoughts."""

MIN_SUGGESTED_TOKENS = 4096

DEADLINE_HINT = "`--deadline` with more seconds allows more."
"""What helps where the time was up."""


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
    likely wrong with it, `warnings` are about its charges. `is_withdrawn` is whether the user
    decided not to send the prompt; `interruption` says how far a run came that can be resumed,
    `is_unstarted` that nothing was done.
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
    is_unstarted: bool = False
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
    summary = AnswerSummary(
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
        return summary
    failure = run.failure and f"{run.failure.message} {run.failure.hint}".strip()
    calls = [call for call in run.calls if author and call.step == author.number]
    speed = _writing_speed(calls[-1]) if calls and len(begun) == 1 else None
    return replace(
        summary,
        seconds=None if run.is_unstarted or run.status == "lost" else run.worked_seconds,
        tokens_per_second=speed,
        failure=failure or "",
        is_withdrawn=run.is_withdrawn,
        interruption=interruption_text(run),
        is_unstarted=run.is_unstarted,
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
    """Say how many lines of Baton's own instructions go along with a text."""
    lines = count_text(offer.instructions.count("\n") + 1, "line")
    return f"With Baton's own instructions, {lines}."


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
    if run.failure is not None:
        return []
    offered = {offer.worker for offer in run.offers}
    missing = [
        missing_step_text(step, run, lambda worker: worker_name(worker, roster))
        for step in run.steps
        if not (step.status == "skipped" and step.worker in offered)  # the offer says it
    ]
    more = MORE_TOKENS_HINT if run.is_all_thoughts else ""
    lack = f"{run.incomplete_reason} {more}".rstrip() if run.incomplete_reason else ""
    notes = [*(declined_text(offer, roster) for offer in run.offers), lack, *missing]
    return [note for note in notes if note]


def declined_text(offer: Offered, roster: CardsById) -> str:
    """Say in one line what was not sent, why, and what it could have cost, or return ""."""
    if offer.decision is Decision.SENT:
        return ""
    is_adjustable = offer.decision in (Decision.CEILING, Decision.NEVER)
    text = offer_text(offer, worker_name(offer.worker, roster))
    return f"{text} /budget changes that." if is_adjustable else text


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


def _writing_speed(call: Called) -> float | None:
    """Return the tokens per second of a call, counted from its first word (None: too few)."""
    writing = call.seconds - (call.first_token or 0)
    return (call.tokens_out - 1) / writing if call.tokens_out > 1 and writing > 0.05 else None


# For machines


def run_warnings(view: RunView) -> list[dict[str, str]]:
    """Return what the user must learn though there may be an answer."""
    lack = {
        "kind": "deadline" if view.deadline else "incomplete",
        "message": view.incomplete_reason,
        "hint": incomplete_hint(view),
    }
    substituted = [
        {"kind": "substituted", "message": sentence, "hint": "`baton workers test` tries a worker."}
        for sentence in view.substitutions
    ]
    quality = [{"kind": w.kind, "message": w.message, "hint": w.hint} for w in view.warnings]
    incomplete = [lack] if view.incomplete_reason else []
    return [*overcharge_warnings(view), *substituted, *incomplete, *quality]


def incomplete_hint(view: RunView) -> str:
    """Return what helps where an answer isn't whole."""
    if view.is_all_thoughts and not view.deadline:
        written = max((call.tokens_out for call in view.calls), default=0)
        more = max(2 * written, MIN_SUGGESTED_TOKENS)
        return f"Try `--max-tokens {more}`. {MORE_TOKENS_HINT}"
    return DEADLINE_HINT if view.deadline else ASK_AGAIN_HINT


def overcharge_warnings(view: RunView) -> list[dict[str, str]]:
    """Return the warnings about calls that cost more than was held for them."""
    errors = [
        overcharge_error(call.worker, call.cost, call.held) for call in view.overcharged_calls
    ]
    return [{"kind": "overcharge", "message": e.message, "hint": e.hint} for e in errors]


def route_object(routed: Routed) -> dict[str, Any]:
    """Return where the prompt went, and why; by which strategy ("" in runs of old)."""
    return {
        "where": routed.where,
        "why": routed.why,
        "scores": routed.scores,
        "strategy": routed.strategy,
        "decided_by": routed.decided_by,
    }


def call_object(call: Called) -> dict[str, Any]:
    """Return one use of one worker; times in seconds, `first_token_s` from the call on.

    `step` 0 isn't a step of the plan: the plan itself was drawn, or judged.
    """
    return {
        "step": call.step,
        "worker": call.worker,
        "purpose": call.purpose.value,
        "tokens_in": call.tokens_in,
        "tokens_out": call.tokens_out,
        "cost_usd": format_usd(call.cost),
        "confirmed": call.confirmed,
        "seconds": call.seconds,
        "first_token_s": call.first_token,
    }


def offer_object(offer: Offered) -> dict[str, Any]:
    """Return an offer of remote help: what could have left, at what price at most."""
    return {
        "worker": offer.worker,
        "why": offer.why,
        "most_usd": format_usd(offer.most),
        "bytes": offer.size,
        "hidden": offer.hidden,
        "decision": offer.decision.value,
        "message": offer.message,
        "step": offer.step,
    }
