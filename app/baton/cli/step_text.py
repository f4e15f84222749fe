"""A plan's steps as a person reads them: what they see, where they are done, what they took."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from baton.core.history_types import RunRecord
from baton.core.labels import Label, address_label
from baton.core.plan.plan import FILE, HISTORY, PROMPT, Need, Step
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView, fold_events

_MAX_SUBTASK_CHARS = 4000
"""An instruction is shown whole: a person decides by it. This many characters are none."""

_SOURCE_NAMES = {PROMPT: "the prompt", HISTORY: "the conversation"}


def record_view(record: RunRecord) -> RunView:
    """Return what a stored run came to."""
    return fold_events(record.events)


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
    if len(names) < 2:
        return f"step {''.join(names)}"
    return f"steps {', '.join(names[:-1])} and {names[-1]}"


def step_destination(step: StepView, view: RunView) -> str:
    """Return the host that a step's request went to last, or "": it was done on this machine."""
    return next((s.destination for s in reversed(view.sent) if s.step == step.number), "")


def step_place(step: StepView, view: RunView) -> str:
    """Say where a step was done: "local", "lan (lab.home.arpa)", "cloud (api.openai.com)".

    What money was held for is a cloud, whatever stands before it on this machine.
    """
    host = step_destination(step, view)
    if not host:
        return Label.LOCAL.value
    is_paid = any(call.held for call in view.calls if call.step == step.number)
    on_the_way = {address_label(f"https://{place}") for place in host.split(" through ")}
    farthest = next(label for label in reversed(Label) if label in on_the_way)
    label = Label.CLOUD if is_paid else farthest
    return f"{label} ({one_line(host)})"


def wrap_lines(text: str, indent: str) -> list[str]:
    """Break a text into lines that fit the terminal, all of them indented."""
    width = max(40, min(shutil.get_terminal_size().columns, 100) - 1)
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
