"""The Protocols through which the engine meets the world."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from baton.domain.chat import Card, Chunk, Prompt, Request, Turn, TurnStatus
from baton.domain.events import Event
from baton.domain.labels import Label


class Worker(Protocol):
    """Whatever can be given a subtask."""

    @property
    def card(self) -> Card:
        """What is known of the worker right now."""
        ...

    def warm(self) -> None:
        """Begin whatever takes long before a first word, and return at once. Never raises."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Answer the request: progress and text as they come, then exactly one Usage.

        Closing the generator (or cancelling its consumer) stops the work within 2 s. Raises
        ModelFileError, WorkerUnavailable, ContextTooLong (before any text) or WorkerError.
        """
        ...

    async def aclose(self) -> None:
        """Let go of processes and memory. The worker may be used again."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree of turns a prompt goes.

    `conversation` None is a new one. `after` None is the conversation's newest turn, "" its very
    beginning. With `again`, the id of a prompt, that prompt is answered once more.
    """

    conversation: str | None = None
    after: str | None = None
    again: str | None = None


NEW = Place()
"""A new conversation."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What the store recorded before anything was called: ids, and what the worker will see."""

    run: str
    conversation: str
    prompt: str
    answer: str
    label: Label
    system: str | None
    turns: tuple[Turn, ...]


class Store(Protocol):
    """Keeps what happened. Every method returns only when its change is on disk."""

    async def begin(self, prompt: Prompt, place: Place, label: Label) -> Begun:
        """Record a prompt, its run and its empty answer; the conversation too, if it is new."""
        ...

    async def append(self, run: str, event: Event) -> None:
        """Record one event of a run; a terminal one ends the run's row as well."""
        ...

    async def write(self, turn: str, text: str, status: TurnStatus, worker: str = "") -> None:
        """Record an answer's text as far as it is."""
        ...

    async def trim(self, conversation: str, first: str) -> None:
        """From now on send only the turns from `first` on; the earlier ones stay in history."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer a person may give."""

    id: str
    label: str


@dataclass(frozen=True, slots=True)
class Question:
    """Something only the person can decide. `default` is the safe choice, taken without them."""

    text: str
    choices: tuple[Choice, ...]
    default: str


Ask = Callable[[Question], Awaitable[str]]
"""How a front end puts a question to the person: returns the id of the choice."""


async def take_default(question: Question) -> str:
    """Answer for a person who isn't there."""
    return question.default
