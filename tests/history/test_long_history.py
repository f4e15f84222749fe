"""What is looked up takes no more work in a long history than in a short one.

SQLite counts the instructions of its own machine, so that no clock is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from baton.core import events as ev
from baton.core.history_types import Signal
from baton.core.labels import Label
from baton.core.messages import Prompt, TurnStatus
from baton.core.ports import NEW, ConversationPosition
from baton.history import changes, feedback_store, queries
from baton.history.store import open_history
from baton.platform.sqlite import Connection

FEW, MANY = 60, 600
Work = Callable[[Connection], object]


def add_runs(connection: Connection, count: int, place: ConversationPosition = NEW) -> str:
    """Record prompts with answers; return the first of these runs."""
    first = ""
    for number in range(count):
        begun = changes.begin_run(connection, Prompt(f"Question {number}"), place, Label.CLOUD)
        ids = begun.run, begun.conversation, begun.prompt, begun.answer
        steps: list[ev.Event] = [ev.StepStarted(1, "small")] * 5
        for event in (ev.Started(*ids), *steps, ev.Finished(at=1.0)):
            changes.append_events(connection, begun.run, [event])
        changes.write_answer(connection, begun.answer, "Yes.", TurnStatus.DONE, "small")
        first = first or begun.run
    return first


def instructions(connection: Connection, work: Work) -> int:
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1

    connection.set_progress_handler(tick, 1)
    work(connection)
    connection.set_progress_handler(None, 1)
    return count


def first_prompt(connection: Connection) -> str:
    return str(connection.execute("SELECT id FROM turns ORDER BY key LIMIT 1").fetchone()[0])


LOOKUPS: dict[str, Callable[[Connection, str], object]] = {
    "a run": queries.run,
    "the last run": lambda c, _: queries.last_run(c, None),
    "the newest runs": lambda c, _: queries.runs(c, 20),
    "a prompt's versions": lambda c, _: queries.siblings(c, first_prompt(c)),
    "two turns": lambda c, _: queries.turns(c, [first_prompt(c)]),
    "runs of a conversation": lambda c, run: queries.runs_of(c, [queries.run(c, run).conversation]),
    "when help was weighed": lambda c, _: queries.recent_weighings(c),
    "graded answers": lambda c, _: feedback_store.answers_with_feedback(c, 10),
    "speeds": lambda c, _: queries.worker_usage(c),
    "conversations": lambda c, _: queries.conversations(c, 20),
    "the home": lambda c, _: queries.recent_conversations(c, 5),
    "prompts": lambda c, _: queries.recent_prompts(c, 5),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_lookup_takes_no_more_steps_in_a_long_history(name: str) -> None:
    with closing(open_history(None).connection) as connection:
        run = add_runs(connection, FEW)
        answer = queries.run(connection, run).answer
        feedback_store.add_signal(connection, answer, Signal.GOOD)

        def look_up(connection: Connection) -> object:
            return LOOKUPS[name](connection, run)

        few = instructions(connection, look_up)
        add_runs(connection, MANY - FEW)
        most = (
            10 * few if name == "speeds" else 2 * few
        )  # of up to 500 runs, however many there are
        assert instructions(connection, look_up) <= most


def test_the_versions_of_many_turns_are_those_of_each() -> None:
    with closing(open_history(None).connection) as connection:
        add_runs(connection, 3)
        where = queries.conversations(connection, 1)[0].id
        add_runs(connection, 3, ConversationPosition(where))
        thread = queries.thread(connection, where, None)
        again = ConversationPosition(where, again=thread[2].id)
        add_runs(connection, 2, again)
        ids = [turn.id for turn in queries.thread(connection, where, None)]
        expected = {id: queries.siblings(connection, id) for id in ids}
        assert queries.versions(connection, [*ids, "gone"]) == expected | {"gone": ("gone",)}
        assert max(map(len, expected.values())) == 3


def test_a_prompt_reads_the_warnings_of_its_conversation_alone() -> None:
    """Not all events of its runs: a conversation may have thousands."""
    with closing(open_history(None).connection) as connection:
        run = add_runs(connection, 1)
        where = queries.run(connection, run).conversation

        def warned(connection: Connection) -> object:
            return changes._warned(connection, where)

        add_runs(connection, 50, ConversationPosition(where))
        few_events = instructions(connection, warned)
        for _ in range(50):
            changes.append_events(connection, run, [ev.StepStarted(1, "small")])
        assert instructions(connection, warned) == few_events
