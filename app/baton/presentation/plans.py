"""Plans and steps in words: what a step sees, where it is done, how far a run came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from baton.core.events import Called, Checked, Verdict
from baton.core.history_types import RunRecord
from baton.core.hold_decision import shown_rounded_up
from baton.core.labels import Label, address_label
from baton.core.money import show_usd
from baton.core.plan_types import FILE, HISTORY, PROMPT, Need, Step
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView, fold_events
from baton.presentation.words import count_text, join_words

_MAX_SUBTASK_CHARS = 4000
"""An instruction is shown whole: a person decides by it. This many characters are none."""

ENDED_STATUSES = ("lost", "cancelled", "failed")
"""How a run ended that can be resumed."""

_SOURCE_NAMES = {PROMPT: "the prompt", HISTORY: "the conversation"}


def record_view(record: RunRecord) -> RunView:
    """Fold a stored run's events; one that is over without saying so was lost, or imported."""
    view = fold_events(record.events)
    is_endless = view.status == "running" and record.status != "running"
    return replace(view, status="lost") if is_endless else view


def run_progress(view: RunView) -> str:
    """Say how far a run came that ended before its plan did, or return ""."""
    if view.status not in ENDED_STATUSES or view.plan is None:
        return ""
    done = [step.number for step in view.steps if step.status == "done"]
    count = len(view.steps)
    if has_not_begun(view):
        return f"plan of {count_text(count, 'step')} kept, not run"
    if count < 2:
        return ""
    if not done:
        return f"interrupted before any of its {count} steps was done"
    if done == list(range(1, len(done) + 1)):
        return f"interrupted after step {done[-1]} of {count}"
    return f"interrupted with {step_numbers(done)} of {count} done"


def resume_hint(run: str, view: RunView) -> str:
    """Say how far a run came and which command continues it, or return ""."""
    progress = run_progress(view)
    if not progress:
        return ""
    verb = "runs it" if has_not_begun(view) else "continues it"
    return f"{progress[0].upper()}{progress[1:]}; `baton resume {run}` {verb}."


def has_not_begun(view: RunView) -> bool:
    """Whether there is a plan of which no step was begun."""
    return view.plan is not None and all(step.status == "waiting" for step in view.steps)


def access_text(access: Iterable[str]) -> str:
    """Say what a step may see: "the prompt, file a.txt, result 2"."""
    return ", ".join(map(_source_text, access)) or "nothing but its instruction"


def _source_text(name: str) -> str:
    if name.startswith(FILE):
        file, _, piece = name.removeprefix(FILE).rpartition("#")
        number, _, count = piece.partition("/")
        if file and number.isdecimal() and count.isdecimal():
            return f"file {one_line(file)} (piece {number} of {count})"
        return f"file {one_line(name.removeprefix(FILE))}"
    return _SOURCE_NAMES.get(name, f"result {one_line(name)}")


def need_text(need: Need) -> str:
    """Say what kind of task it is, and how difficult: "math, difficulty 3 of 5"."""
    return f"{one_line(need.kind)}, difficulty {need.difficulty} of 5"


def subtask_text(step: Step) -> str:
    """Return a step's instruction on one line."""
    return (
        "Answers the prompt itself."
        if step.is_direct
        else one_line(step.subtask, _MAX_SUBTASK_CHARS)
    )


def step_numbers(numbers: Iterable[int]) -> str:
    """Name steps: "step 2", "steps 1 and 3", "steps 1, 2 and 4"."""
    names = [str(number) for number in numbers]
    return f"step{'s' if len(names) > 1 else ''} {join_words(names)}"


def step_cost_text(step: Step, cost: int | None) -> str:
    """Say what a step can cost at most: about that, where it reads what isn't written yet."""
    if cost is None:
        return "no price"
    return f"at most {'about ' if step.inputs else ''}{shown_rounded_up(cost)}" if cost else ""


def check_text(check: Checked, *, note: bool = True) -> str:
    """Say what a check found: "arithmetic: right (17 + 25 = 42)"."""
    if check.verdict is Verdict.UNCHECKED and not note:
        return "not checked"
    more = f" ({one_line(check.note)})" if check.note and note else ""
    return f"{one_line(check.what, 40)}: {check.verdict.value}{more}"


def call_tokens(call: Called) -> str:
    """Say what a call read and wrote."""
    cached = f" ({call.cached:,} of them cached)" if call.cached else ""
    return f"read {call.tokens_in:,} tokens{cached}, wrote {call.tokens_out:,}"


def call_times(call: Called, digits: int = 1) -> list[str]:
    """Say how long a call took, and of that the loading and the first word."""
    times = [f"{call.seconds:.{digits}f} s in all"]
    if call.loading > 0.05:
        times.append(f"{call.loading:.{digits}f} s loading")
    if call.first_token is not None:
        times.append(f"first word after {call.first_token:.{digits}f} s")
    return times


def call_charge(call: Called) -> str:
    """Say what a call held and was charged, "" where it cost nothing and held nothing."""
    held = [f"held {shown_rounded_up(call.held)}"] if call.held else []
    if not call.cost:
        return ", ".join([*held, "charged nothing"]) if held else ""
    unconfirmed = [] if call.confirmed else ["unconfirmed"]
    return ", ".join([*held, f"charged {show_usd(call.cost)}", *unconfirmed])


def step_destination(step: StepView, view: RunView) -> str:
    """Return the host that the request to a step's worker went to, or "": it was done here."""
    mine = (s for s in reversed(view.sent) if (s.step, s.worker) == (step.number, step.worker))
    return next((sent.destination for sent in mine), "")


def has_left(view: RunView) -> bool:
    """Whether anything of a run left this machine."""
    paid = {(call.step, call.worker) for call in view.calls if call.held}
    return any(
        (sent.step, sent.worker) in paid or _farthest_label(sent.destination) is not Label.LOCAL
        for sent in view.sent
    )


def step_place(step: StepView, view: RunView) -> str:
    """Say where a step was done: "local", "lan (lab.home.arpa)", "cloud (api.openai.com)".

    A worker that money was held for counts as cloud, even behind a program on this machine.
    """
    host = step_destination(step, view)
    if not host:
        return Label.LOCAL.value
    is_paid = any(
        call.held for call in view.calls if (call.step, call.worker) == (step.number, step.worker)
    )
    label = Label.CLOUD if is_paid else _farthest_label(host)
    return f"{label} ({one_line(host)})"


def _farthest_label(destination: str) -> Label:
    """Return how far the farthest place is that a request passed."""
    on_the_way = {address_label(f"https://{place}") for place in destination.split(" through ")}
    return next(label for label in reversed(Label) if label in on_the_way)
