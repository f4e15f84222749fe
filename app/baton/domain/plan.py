"""A plan: up to five steps, each with a worker, a need, a subtask and what it may see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Need:
    """What a step asks of a worker: a task kind, and a difficulty from 1 to 5."""

    kind: str = "chat"
    difficulty: int = 1


@dataclass(frozen=True, slots=True)
class Step:
    """One subtask for one worker.

    `access` names everything the worker may see: `prompt`, `history`, `file:NAME` or the number of
    an earlier step, counted from 1. Nothing is implicit.
    """

    worker: str
    subtask: str
    access: tuple[str, ...] = ("prompt", "history")
    need: Need = Need()


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, counted from 1, and the numbers of those whose texts make up the answer."""

    steps: tuple[Step, ...]
    answer: tuple[int, ...]


def single(worker: str, files: tuple[str, ...] = ()) -> Plan:
    """Return the ordinary plan: one worker answers the prompt, seeing all of it."""
    access = ("prompt", "history", *(f"file:{name}" for name in files))
    return Plan((Step(worker, "Answer the prompt.", access),), (1,))
