"""A run's workflow in words: why it went so, all of one step, what was sent, what to compare."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from baton.core.events import Called
from baton.core.hold_decision import shown_rounded_up
from baton.core.messages import Purpose
from baton.core.money import show_usd
from baton.core.sanitiser import one_line, sanitise
from baton.core.view import RunView, StepView
from baton.presentation.answers import (
    CardsById,
    charge_warnings,
    offer_text,
    weighed_text,
    worker_name,
    worker_place,
)
from baton.presentation.plans import access_text, call_charge, call_times, call_tokens, check_text
from baton.tui.workflow_picture import progress_text, step_name

MAX_QUOTED_CHARS = 800
"""How much of a step's text stands under the steps; Enter shows all of it."""

_MAX_INSTRUCTION_CHARS = 2000
_COLOURS = {"failed": "$error", "skipped": "$warning"}
_ROUTES = {
    "local": "on this machine",
    "plan": "with a plan",
    "cloud": "with remote help",
}


def route_text(run: RunView, roster: CardsById) -> str:
    """Say in one sentence where a prompt went, and why."""
    routed = run.routed
    if routed is None:
        return "It is not known how this came about."
    workers = dict.fromkeys(worker_name(s.worker, roster) for s in run.steps if s.began is not None)
    by = f", by {', '.join(one_line(name, 40) for name in workers)}" if workers else ""
    where = _ROUTES.get(routed.where, one_line(routed.where, 40))
    places = {worker_place(s.worker, run, roster) for s in run.steps if s.began is not None}
    if routed.where == "local" and places - {"", "local"}:
        where = "with remote help"  # it only began here
    how = f" ({one_line(routed.strategy, 40)})" if routed.strategy else ""
    why = one_line(routed.why, 300).rstrip(".")
    return f"Answered {where}{by}{how}: {why}."


def progress_line(run: RunView, roster: CardsById) -> Content:
    """Say on one line why a run went so, and how far it is."""
    if run.planning and run.status == "running":
        return _muted(f"{one_line(worker_name(run.planning, roster), 40)} is planning.")
    why = one_line(run.routed.why, 200) if run.routed else "Nothing is known of this run."
    how_far = f"{progress_text(run)}. " if run.status == "running" and len(run.steps) > 1 else ""
    return Content.assemble(how_far, (why, "$muted"))


def run_summary(run: RunView, roster: CardsById) -> Content:
    """Write why the run went the way it did, and why there were more steps than at first."""
    lines = [Content(sanitise(run.routed.why) if run.routed else "Nothing is known of this run.")]
    lines += [_muted(weighed_text(w, worker_name(w.worker, roster))) for w in run.weighed]
    lines += [_muted(f"Then: {one_line(why)}") for why in run.revisions]
    if run.planning and run.status == "running":
        lines.append(_muted(f"{one_line(worker_name(run.planning, roster), 40)} is planning."))
    elif planning := [call for call in run.calls if call.step == 0]:
        names = ", ".join(
            dict.fromkeys(one_line(worker_name(c.worker, roster), 40) for c in planning)
        )
        plans = any(call.purpose is Purpose.PLAN for call in planning)
        does = "Planned and checked" if plans else "Checked"
        lines.append(_muted(f"{does} by {names}: {_calls_text(planning)}"))
    shown = [step.why for step in run.steps] + ([run.failure.message] if run.failure else [])
    if run.notice and run.notice not in shown:
        lines.append(_muted(one_line(run.notice, 300)))
    return Content("\n").join(lines)


def step_facts(step: StepView, run: RunView, roster: CardsById) -> str:
    """Say on one line who did a step, where, for how long and for how much, and what it sees."""
    calls = [call for call in run.calls if call.step == step.number]
    parts = []
    if step.worker:
        parts += [one_line(step.worker, 30), worker_place(step.worker, run, roster)]
    if step.began is None and step.status == "done":
        parts.append("kept from before")
    if step.began is not None:
        ended = step.ended if step.ended is not None else run.seconds
        parts.append(f"{ended - step.began:.1f} s")
    if written := sum(call.tokens_out for call in calls):
        parts.append(f"{written:,} tok")
    parts += _cost_texts(calls)
    if step.status == "skipped" and step.most:
        parts.append(f"could have cost {shown_rounded_up(step.most)}")
    return " · ".join([*parts, f"sees {access_text(step.step.access)}"])


def _cost_texts(calls: list[Called]) -> list[str]:
    cost = sum(call.cost for call in calls)
    doubt = "" if all(call.confirmed for call in calls) else " unconfirmed"
    return [f"{show_usd(cost)}{doubt}"] if cost else []


def _calls_text(calls: list[Called]) -> str:
    seconds, tokens = sum(c.seconds for c in calls), sum(c.tokens_out for c in calls)
    return " · ".join([f"{seconds:.1f} s", f"{tokens:,} tok", *_cost_texts(calls)])


def step_detail(step: StepView, run: RunView, text: str, roster: CardsById) -> Content:
    """Write all that is known of a step; `text` is what it has written."""
    calls = [call for call in run.calls if call.step == step.number]
    lines = [Content(sanitise(_truncate(step.step.subtask, _MAX_INSTRUCTION_CHARS)).strip())]
    lines.append(_muted(step_facts(step, run, roster)))
    if step.why:
        lines.append(Content.styled(one_line(step.why, 400), _COLOURS.get(step.status, "")))
    lines += [_muted(f"Checked: {check_text(check)}") for check in step.checks]
    if text.strip():
        replaced = run.plan is not None and step.number not in run.plan.answer
        draft = replaced and step.step.is_direct and len(run.steps) > 1
        lines += [
            _muted("Its draft:" if draft else "It wrote:"),
            Content(sanitise(_quote_text(step, text)).strip("\n")),
        ]
    lines += [
        _muted(f"Offered: {offer_text(o, worker_name(o.worker, roster))}")
        for o in run.offers
        if o.step == step.number
    ]
    return Content("\n").join(
        [*lines, *(_muted(line) for call in calls for line in _call_lines(call))]
    )


def _quote_text(step: StepView, text: str) -> str:
    """Quote the end of what is being written, and the beginning of what is."""
    if step.is_over or len(text) <= MAX_QUOTED_CHARS:
        return _truncate(text, MAX_QUOTED_CHARS)
    return "…" + text[-MAX_QUOTED_CHARS:]


def _call_lines(call: Called) -> list[str]:
    ending = "" if call.confirmed else "ended before the worker was done"
    lines = (
        f"{one_line(call.worker, 30)} {call_tokens(call)}",
        ", ".join(call_times(call)),
        ending,
        call_charge(call),
    )
    return [line for line in lines if line]


def run_totals(run: RunView, roster: CardsById) -> Content:
    """Write what went wrong, and what a run held and was charged."""
    lines = []
    if run.failure is not None:
        lines.append(Content.styled(one_line(run.failure.message, 400), "$error"))
    lines += [Content.styled(warning, "$warning") for warning in charge_warnings(run, roster)]
    if held := sum(call.held for call in run.calls):
        lines.append(Content(f"Held {shown_rounded_up(held)}, charged {show_usd(run.cost)}."))
    return Content("\n").join(lines)


def sent_text(run: RunView, roster: CardsById) -> Content:
    """Write what left this machine in a run, to where, and what was offered and didn't."""
    lines = []
    for sent in run.sent:
        name = one_line(worker_name(sent.worker, roster), 40)
        what = f"step {sent.step}" if sent.step else "planning"
        where = one_line(sent.destination, 80)
        lines.append(
            Content.assemble(("▎", "$accent"), f"{name} · {what} · {where} · {sent.size:,} bytes")
        )
    if run.sent:
        size = sum(sent.size for sent in run.sent)
        hosts = ", ".join(dict.fromkeys(one_line(sent.destination, 80) for sent in run.sent))
        lines.append(Content(f"Sent to {hosts}: {size:,} bytes (e shows them)."))
    else:
        lines.append(Content("Nothing of this answer has left this machine."))
    lines += [
        _muted(
            f"Offered ({f'step {offer.step}' if offer.step else 'planning'}): "
            f"{offer_text(offer, worker_name(offer.worker, roster))}"
        )
        for offer in run.offers
    ]
    return Content("\n").join(lines)


@dataclass(frozen=True, slots=True)
class StepOutput:
    """A text of a run, with who wrote it."""

    title: str
    text: str


def comparable_texts(
    run: RunView, roster: CardsById, answer: str
) -> tuple[list[StepOutput], StepOutput]:
    """Return what the steps wrote beside the answer, the newest last, and the answer itself."""
    numbers = run.plan.answer if run.plan else ()
    drafts = [
        StepOutput(_output_title(step, roster), step.text)
        for step in run.steps
        if step.text.strip() and step.number not in numbers
    ]
    writers = ", ".join(
        dict.fromkeys(one_line(worker_name(run.steps[n - 1].worker, roster), 40) for n in numbers)
    )
    return drafts, StepOutput(f"The answer · {writers}".rstrip(" ·"), run.answer or answer)


def _output_title(step: StepView, roster: CardsById) -> str:
    kind = "draft" if step.step.is_direct else step_name(step)
    return f"{step.number} {kind} · {one_line(worker_name(step.worker, roster), 40)}"


def _muted(text: str) -> Content:
    return Content.styled(text, "$muted")


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
