"""What the user did with answers, and what is known of them by that and by their runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import msgspec

from baton.core.errors import ConfigError
from baton.core.history_types import RATINGS, AnswerSignals, Signal
from baton.core.judging.short_answer import announced_answer, answers_agree, short_answer
from baton.core.labels import Label
from baton.core.messages import TurnStatus
from baton.core.view import RunView, StepView, fold_events
from baton.history import rows
from baton.platform.sqlite import Connection, Row

_FINISHED = (TurnStatus.DONE, TurnStatus.CUT)
"""Answers that were written to their end: asking again after another one isn't a complaint."""


def add_signal(connection: Connection, turn: str, signal: Signal) -> None:
    """Record what was done with an answer just now. Raises ConfigError."""
    added = connection.execute(
        "INSERT OR REPLACE INTO signals "
        "SELECT id, ?, ? FROM turns WHERE id = ? AND role = 'assistant'",
        [signal, time.time(), turn],
    )
    if added.rowcount == 0:
        raise ConfigError(f"There is no answer {turn!r}.")


def set_rating(connection: Connection, turn: str, rating: Signal | None) -> None:
    """Record whether an answer is good or bad, in place of what was said before (None: nothing)."""
    connection.execute("DELETE FROM signals WHERE turn = ? AND kind IN (?, ?)", [turn, *RATINGS])
    if rating is not None:
        add_signal(connection, turn, rating)


def signals_of_turns(
    connection: Connection, turns: Sequence[str]
) -> dict[str, dict[Signal, float]]:
    """Return what was done with these answers, and when; those without anything are not there."""
    found: dict[str, dict[Signal, float]] = {}
    query = """SELECT turn, kind, at FROM signals
        WHERE turn IN (SELECT value FROM json_each(?)) ORDER BY turn, kind"""
    with rows.reject_bad_values():
        for row in connection.execute(query, [msgspec.json.encode(list(turns)).decode()]):
            found.setdefault(row["turn"], {})[Signal(row["kind"])] = row["at"]
    return found


_ANSWERS_WITH_FEEDBACK = """
    WITH known (answer) AS (
        SELECT turn FROM signals
        UNION
        SELECT answer FROM runs WHERE id IN (
            SELECT run FROM events WHERE kind = 'Planned' GROUP BY run HAVING count(*) > 1
        )
    )
    SELECT turns.id, turns.worker, turns.text, turns.status, turns.run, turns.created
    FROM known
    CROSS JOIN turns ON turns.id = known.answer AND turns.role = 'assistant'
    JOIN conversations AS c ON c.id = turns.conversation AND c.hidden_at IS NULL
    WHERE turns.label = ?
    ORDER BY turns.key DESC LIMIT ?
"""


def answers_with_feedback(connection: Connection, limit: int) -> list[AnswerSignals]:
    """Return the newest answers that may leave this machine and have feedback, newest first.

    Feedback is what the user did with them, and for local drafts that a remote worker replaced,
    whether both agree.
    """
    listed = connection.execute(_ANSWERS_WITH_FEEDBACK, [Label.CLOUD, limit]).fetchall()
    done = signals_of_turns(connection, [row["id"] for row in listed])
    return [
        known for row in listed for known in _feedback_of(connection, row, done.get(row["id"], {}))
    ]


def _feedback_of(
    connection: Connection, row: Row, signals: dict[Signal, float]
) -> Iterator[AnswerSignals]:
    """Return what is known of an answer, and of the drafts before it."""
    view = fold_events(rows.events(connection, row["run"]) if row["run"] else ())
    author = _author_step(view)
    if row["status"] not in _FINISHED:
        signals = {kind: at for kind, at in signals.items() if kind in RATINGS}
    has_author = author is not None or view.plan is None
    if signals and has_author and row["worker"] and row["text"].strip():
        kind = author.step.need.kind if author is not None else ""
        alone = author is None or author.step.is_direct
        yield AnswerSignals(row["id"], row["worker"], signals, kind, alone)
    if author is not None and author.step.is_direct and _ran_remotely(view, author):
        for draft in view.steps:
            if (found := _compare_with_draft(view, draft, author, row["text"])) is not None:
                known = {found: row["created"]}
                kind = draft.step.need.kind
                yield AnswerSignals(row["id"], draft.worker, known, kind)


def _author_step(view: RunView) -> StepView | None:
    """Return the step that wrote the answer, if it was one alone."""
    numbers = view.plan.answer if view.plan is not None else ()
    wrote = [view.steps[n - 1] for n in numbers if view.steps[n - 1].status == "done"]
    if wrote:
        return wrote[0] if len(wrote) == 1 else None
    drafts = [step for step in view.steps if step.step.is_direct and step.status == "done"]
    return drafts[-1] if drafts else None


def _ran_remotely(view: RunView, step: StepView) -> bool:
    return any(sent.step == step.number for sent in view.sent)


def _compare_with_draft(
    view: RunView, draft: StepView, author: StepView, answer: str
) -> Signal | None:
    """Say whether a local draft and the answer in its place agree, if both have a result."""
    is_draft = draft.step.is_direct and draft.status == "done" and not draft.is_cut
    if not is_draft or draft.number == author.number or _ran_remotely(view, draft):
        return None
    if not (short_answer(draft.text) and short_answer(answer)):
        return None
    if answers_agree(draft.text, answer):
        return Signal.AGREED
    # The last number of a text is no more than a guess at its result.
    return Signal.DIFFERED if announced_answer(draft.text) and announced_answer(answer) else None
