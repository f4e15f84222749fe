"""Asking a local worker, for tests."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baton.core.messages import AnswerFormat, Card, Chunk, Message, Request, Role, Text, Usage
from baton.workers.local import (
    GenerationSettings,
    LoadSettings,
    LocalWorker,
    Memory,
    ModelProcess,
    starter,
)

SYSTEM = Message(Role.SYSTEM, starter().card.system)
CAPITAL = "What is the capital of France?"
CITY = AnswerFormat(r'root ::= "{\"city\": \"" [A-Z] [a-z]{2,12} "\"}"', "{}")


@dataclass
class Answer:
    """What a worker yielded."""

    text: str = ""
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def usage(self) -> Usage:
        last = self.chunks[-1]
        assert isinstance(last, Usage)
        return last


def request(
    *texts: str, max_tokens: int | None = None, temperature: float | None = None
) -> Request:
    """Return a request of alternating prompts and answers, beginning with a prompt."""
    roles = [Role.USER, Role.ASSISTANT] * len(texts)
    messages = (Message(role, text) for role, text in zip(roles, texts, strict=False))
    return Request((SYSTEM, *messages), max_tokens=max_tokens, temperature=temperature)


async def listen(worker: LocalWorker, asked: Request) -> Answer:
    """Listen to the end."""
    answer = Answer()
    async with aclosing(worker.stream(asked)) as chunks:
        async for chunk in chunks:
            answer.chunks.append(chunk)
            answer.text += chunk.text if isinstance(chunk, Text) else ""
    return answer


async def ask(worker: LocalWorker, *texts: str, max_tokens: int | None = None) -> Answer:
    """Ask and listen to the end."""
    return await listen(worker, request(*texts, max_tokens=max_tokens))


def local_worker(
    card: Card,
    path: Path,
    memory: Memory | None = None,
    settings: GenerationSettings | None = None,
    **process: Any,
) -> LocalWorker:
    """Return a worker with a model of its own; `process` is for its LoadSettings or its process.

    One thread by default: where tests share the cores, more would mostly wait for each other.
    """
    process = {"threads": 1} | process
    names = LoadSettings.__dataclass_fields__.keys() & process.keys()
    loading = LoadSettings(**{"context": card.context, **{n: process.pop(n) for n in names}})
    model = ModelProcess(path, memory or Memory(), loading, **process)
    return LocalWorker(card, model, settings)


def small(memory: Memory | None = None, **process: Any) -> LocalWorker:
    """Return a worker with the starter model."""
    model = starter()
    settings = GenerationSettings(model.temperature)
    return local_worker(model.card, model.path, memory, settings, **process)
