"""A run as a Mermaid flowchart: its steps, and what each of them could see."""

from __future__ import annotations

from baton.cli.step_text import need_text, step_destination, step_place, subtask_text
from baton.core.plan.plan import FILE, HISTORY, PROMPT
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView

_SAFE_CHARS = frozenset(" ,.:?!()/'_+-=")
"""Besides letters and digits: what means nothing to Mermaid between quotes."""

_MAX_LABEL_CHARS = 120

_STYLES = (
    "classDef elsewhere stroke-dasharray: 5 5",
    "classDef failed stroke:#c00",
    "classDef left_out stroke:#999,color:#999",
)


def flowchart(view: RunView) -> str:
    """Return the flowchart of a run, or of a plan that nothing was played of."""
    lines, sources = [], _source_ids(view)
    for name, id in sources.items():
        title = {PROMPT: "the prompt", HISTORY: "the conversation"}.get(name)
        lines.append(f'{id}(["{_escape(title or f"file {name.removeprefix(FILE)}")}"])')
    for step in view.steps:
        lines.append(f'{_step_id(step.number)}["{_step_label(step, view)}"]')
    lines.append('answer(["the answer"])')
    for step in view.steps:
        for name in step.step.access:
            start = _step_id(int(name)) if name.isdecimal() else sources[name]
            lines.append(f"{start} --> {_step_id(step.number)}")
    for number in view.plan.answer if view.plan is not None else ():
        lines.append(f"{_step_id(number)} --> answer")
    lines += [*_STYLES, *(line for step in view.steps for line in _step_classes(step, view))]
    return "\n".join(["flowchart TD", *(f"  {line}" for line in lines)])


def _source_ids(view: RunView) -> dict[str, str]:
    """Return the ids of what steps see that isn't a step's text, by the names in access lists."""
    names = dict.fromkeys(n for s in view.steps for n in s.step.access if not n.isdecimal())
    files = [name for name in names if name.startswith(FILE)]
    known = {PROMPT: "prompt", HISTORY: "history"}
    return {name: known.get(name) or f"file{files.index(name) + 1}" for name in names}


def _step_id(number: int) -> str:
    return f"step{number}"


def _step_label(step: StepView, view: RunView) -> str:
    worker = step.worker or step.step.worker
    place = f" ({step_place(step, view)})" if step.began is not None else ""
    head = f"step {step.number}: {worker}{place}, {step.status}"
    told = (head, need_text(step.step.need), subtask_text(step.step))
    return "<br/>".join(_escape(line) for line in told)


def _escape(text: str) -> str:
    """Write a text so that no letter of it is more than that: others as `#NN;`."""
    line = one_line(text, _MAX_LABEL_CHARS)
    return "".join(
        c if not c.isascii() or c.isalnum() or c in _SAFE_CHARS else f"#{ord(c)};" for c in line
    )


def _step_classes(step: StepView, view: RunView) -> list[str]:
    names = {"failed": "failed", "skipped": "left_out"}
    found = ["elsewhere"] * bool(step_destination(step, view))
    if step.status in names:
        found.append(names[step.status])
    return [f"class {_step_id(step.number)} {name}" for name in found]
