"""`baton trace` and `baton why`: what happened in one run, and what made it so."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict

import click

from baton.cli.completion import complete_run
from baton.cli.json_output import event_object
from baton.cli.output import emit, emit_json, iso_time, wrap_lines
from baton.cli.stores import find_run, format_time, with_ledger, with_store
from baton.core import events as ev
from baton.core.errors import ConfigError
from baton.core.history_types import RunRecord
from baton.core.ledger_types import Egress
from baton.core.money import format_usd, show_usd
from baton.core.plan_types import FILE, HISTORY, PROMPT
from baton.core.sanitiser import one_line
from baton.core.view import RunView, StepView
from baton.history import Store
from baton.presentation.answers import route_object
from baton.presentation.plans import need_text, plan_tree, subtask_text
from baton.presentation.run_story import (
    event_lines,
    record_view,
    resume_hint,
    run_story,
    step_destination,
    step_facts,
    step_place,
    step_summary,
)

_UNLIMITED_COLUMNS = 10**6
"""How wide lines may be where they don't go to a terminal."""

_HANGING_INDENT = " " * 12
"""What continues a line stands under its text, not under its time."""


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--texts", is_flag=True, help="Show what each step wrote, in full.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every event.")
@click.option("--mermaid", is_flag=True, help="Print a flowchart of the steps for Mermaid.")
@click.option("--otel", is_flag=True, help="Print spans as OpenTelemetry's JSON Lines.")
def trace(run: str | None, texts: bool, as_json: bool, mermaid: bool, otel: bool) -> None:
    """Show what happened in RUN: its id, the beginning of it, or without one the last run.

    What programs log of it is understood, too: chatcmpl-…, resp_…, msg_…, req_….

    \b
      baton trace --texts
      baton trace 3f2a --mermaid > run.mmd
      baton trace 3f2a --otel > run.jsonl       for a collector's otlpjsonfile receiver
    """
    if sum((texts, as_json, mermaid, otel)) > 1:
        raise ConfigError(
            "--texts, --json, --mermaid and --otel exclude each other.", "Choose one."
        )
    record, answer = with_store(lambda store: _find_run(store, run, texts))
    if mermaid:
        emit(flowchart(record_view(record)))
    elif otel:
        from baton.cli.otel import span_lines

        emit("\n".join(span_lines(record)))
    elif as_json:
        emit_json(trace_object(record, _sent_requests(record)))
    else:
        width = (
            shutil.get_terminal_size().columns - 1 if sys.stdout.isatty() else _UNLIMITED_COLUMNS
        )
        text = trace_text(record, _sent_requests(record), width)
        emit(f"{text}\n\n{step_texts(record_view(record), answer)}" if texts else text)


async def _find_run(store: Store, named: str | None, with_answer: bool) -> tuple[RunRecord, str]:
    """Return a run and the answer's text, which no event holds where one step wrote it."""
    record = await find_run(store, named)
    if not with_answer:
        return record, ""
    turns = await store.thread(record.conversation, record.answer)
    return record, next((turn.text for turn in turns if turn.id == record.answer), "")


def _sent_requests(record: RunRecord) -> list[Egress]:
    """Return what the run sent, as the egress log has it."""
    if not any(isinstance(event, ev.Sent) for event in record.events):
        return []
    return with_ledger(lambda ledger: ledger.egress(record.id))[::-1]


def trace_object(record: RunRecord, left: Sequence[Egress] = ()) -> dict[str, object]:
    """Return a run's events as `trace --json` prints them."""
    return {
        "schema": 1,
        "run_id": record.id,
        "conversation_id": record.conversation,
        "status": record.status,
        "created": iso_time(record.created),
        "events": [event_object(event) for event in record.events],
        "egress": [one.key for one in left],
    }


def trace_text(
    record: RunRecord, left: Sequence[Egress] = (), width: int = _UNLIMITED_COLUMNS
) -> str:
    """Write a run's story for a person: its steps, a line for each event, what it all took."""
    started = format_time(record.created)
    head = f"Run {record.id} · {started} · {record.status}\nConversation {record.conversation}"
    view = record_view(record)
    steps = ["", *_step_lines(view)] if len(view.steps) > 1 else []
    lines = [
        wrapped
        for event in record.events
        for line in event_lines([event])
        for wrapped in textwrap.wrap(
            f"{event.at:8.2f} s  {line.text}",
            width,
            subsequent_indent=_HANGING_INDENT,
            break_on_hyphens=False,
        )
    ]
    tokens = sum(call.tokens_in for call in view.calls), sum(call.tokens_out for call in view.calls)
    cost = f", {show_usd(view.cost)}" if view.cost else ""
    total = f"{view.seconds:.1f} s, {tokens[0]:,} tokens read, {tokens[1]:,} written{cost}"
    ways = [way for way in (resume_hint(record.id, view),) if way]
    if left:
        numbers = ", ".join(str(one.key) for one in left)
        ways.insert(0, f"What left, byte for byte: `baton egress show N` with N = {numbers}")
    return "\n".join([head, *steps, "", *lines, "", total, *ways])


_TREE_COLUMNS = 20
"""How wide the stems of the tree may be: a terminal has 80 columns."""


def _step_lines(view: RunView) -> list[str]:
    """Return the tree of the steps, with all that is known of each."""
    lines = []
    for branch in plan_tree([step.step for step in view.steps], _TREE_COLUMNS):
        step = view.steps[branch.number - 1]
        lines.append(f"{branch.stem}{step.number} {', '.join(step_summary(step, view))}")
        checks = [line.text for line in event_lines(step.checks)]
        for fact in (subtask_text(step.step), *step_facts(step, view), *checks):
            lines += wrap_lines(fact, f"{branch.below:{len(branch.stem) + 2}}")
    return lines


_SAFE_CHARS = frozenset(" ,.:?!()/'_+-=")
"""Besides letters and digits: what means nothing to Mermaid between quotes."""

_MAX_LABEL_CHARS = 120

_STYLES = (
    "classDef remote stroke-dasharray: 5 5",
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
    parts = (head, need_text(step.step.need), subtask_text(step.step))
    return "<br/>".join(_escape(line) for line in parts)


def _escape(text: str) -> str:
    """Write a text so that no letter of it is more than that: others as `#NN;`."""
    line = one_line(text, _MAX_LABEL_CHARS)
    return "".join(
        c if not c.isascii() or c.isalnum() or c in _SAFE_CHARS else f"#{ord(c)};" for c in line
    )


def _step_classes(step: StepView, view: RunView) -> list[str]:
    names = {"failed": "failed", "skipped": "left_out"}
    found = ["remote"] * (not step_place(step, view).startswith("local"))
    if step.status in names:
        found.append(names[step.status])
    return [f"class {_step_id(step.number)} {name}" for name in found]


def step_texts(view: RunView, answer: str) -> str:
    """Return what every step wrote, each under its own heading."""
    parts = []
    for step in view.steps:
        text = step.text or (answer if len(view.steps) == 1 else "")
        if text:
            worker = one_line(step.worker or step.step.worker)
            parts.append(f"--- step {step.number}, {worker} ---\n{text.rstrip()}")
    return "\n\n".join(parts) or "No step wrote anything."


@click.command()
@click.argument("run", required=False, shell_complete=complete_run)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(run: str | None, as_json: bool) -> None:
    """Say who did what in RUN, and why: its id, the beginning of it, or without one the last run.

    What programs log of it is understood, too: chatcmpl-…, resp_…, msg_…, req_….
    `baton trace` shows all of it.
    """
    record = with_store(lambda store: find_run(store, run))
    emit_json(why_object(record)) if as_json else emit("\n".join(_reasons(record)))


def why_object(record: RunRecord) -> dict[str, object]:
    """Return a run's route as `why --json` prints it."""
    view = record_view(record)
    return {
        "schema": 1,
        "run_id": record.id,
        "status": record.status,
        "route": route_object(view.routed) if view.routed else None,
        "revisions": list(view.revisions),
        "weighed": [_weighed_object(weighed) for weighed in view.weighed],
        "steps": [
            {
                "step": step.number,
                "worker": step.worker,
                "destination": step_destination(step, view),
                "status": step.status,
            }
            for step in view.steps
        ],
        "reasons": _reasons(record),
    }


def _reasons(record: RunRecord) -> list[str]:
    return [line.text for line in run_story(record_view(record), record.id)]


def _weighed_object(weighed: ev.Weighed) -> dict[str, object]:
    fields = asdict(weighed)
    cost = format_usd(fields.pop("cost"))
    return {name: fields[name] for name in ("worker", "gain", "bar", "ok", "why")} | {
        "cost_usd": cost
    }
