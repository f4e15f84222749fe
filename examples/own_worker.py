"""A worker of your own: it answers with the lines of a file that hold the prompt's words.

PYTHONPATH=app python examples/own_worker.py README.md ceiling
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import baton


class LineFinder:
    """Finds lines of a text; it is a `Worker` by its methods, with no base class."""

    def __init__(self, text: str) -> None:
        self.card = baton.Card("finder", "scripted", "Line finder")
        self._lines = text.splitlines(keepends=True)

    def warm(self) -> None:
        """Begin what takes long before a first word: nothing does here."""

    async def stream(self, request: baton.Request) -> AsyncGenerator[baton.Text | baton.Usage]:
        """Yield each line as it is found, then once what was read and written, in tokens."""
        words = request.messages[-1].text.lower()
        found = [line for line in self._lines if words in line.lower()]
        for line in found:
            yield baton.Text(line)
        yield baton.Usage(len(self._lines), len(found), baton.Finish.STOP)

    async def aclose(self) -> None:
        """Let go of processes and memory: there are none."""


async def main(text: str, words: str) -> None:
    """Ask the worker, and print what it writes as it comes."""
    workers: dict[str, baton.Worker] = {"finder": LineFinder(text)}
    store = baton.Store(None)  # in memory; a path keeps the history
    orchestra = baton.Orchestra(baton.Services(workers, store), default="finder")
    async with orchestra.run(baton.Prompt(words), limits=baton.PromptLimits(alone=True)) as run:
        async for event in run:
            match event:
                case baton.StepText(text=piece):
                    print(piece, end="")
                case baton.Finished(at=seconds):
                    print(f"Finished after {seconds:.1f} s.", file=sys.stderr)
                case baton.Failed(message=message):
                    print(message, file=sys.stderr)
    await orchestra.aclose()
    await store.aclose()


asyncio.run(main(Path(sys.argv[1]).read_text("utf-8"), sys.argv[2]))
