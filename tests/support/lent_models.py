"""A background process with the starter model in it, and Batons that use it, each a real process.

python -m support.lent_models hand-over FOLDER IDLE    load, answer, hand over, end
python -m support.lent_models ask FOLDER PROMPT        answer, and print each piece at once
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import psutil

from baton.core.messages import Text
from baton.ipc.borrower import Borrower, start_lender
from baton.ipc.lending_protocol import Description
from baton.workers.local import (
    GenerationSettings,
    LoadSettings,
    LocalWorker,
    Memory,
    ModelProcess,
    starter,
)
from support.local_worker_calls import CAPITAL, ask, request
from support.processes import is_over

STORY = "Write a long story about a lighthouse keeper and the sea."
STORY_TOKENS = 150
TESTS = Path(__file__).parents[1]


def borrowing_process(folder: Path | None, path: Path | None = None) -> ModelProcess:
    """Return the starter's process, borrowed where a background process of that folder lends it."""
    model = starter()
    settings = LoadSettings(model.card.context)
    return ModelProcess(
        path or model.path,
        Memory(),
        settings,
        find_borrower=lambda: None if folder is None else Borrower(folder),
    )


def borrowing_worker(folder: Path | None, path: Path | None = None) -> LocalWorker:
    """Return the starter as a worker of such a process."""
    how = GenerationSettings(temperature=0.0, repeat_penalty=1.1)
    return LocalWorker(starter().card, borrowing_process(folder, path), how)


def front(*args: str) -> subprocess.Popen[str]:
    """Start a Baton in a process of its own."""
    code = (
        f"import sys; sys.path.append({str(TESTS)!r}); from support.lent_models import main; main()"
    )
    command = [sys.executable, "-P", "-c", code, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def lender(folder: Path, idle: float = 300, model: Path | None = None) -> Iterator[Description]:
    """Have a Baton load the starter, hand it over and end; end the background process after."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with front("hand-over", str(folder), str(idle), str(model or "")) as first:
        assert first.wait() == 0
    try:
        yield await_lender(folder)
    finally:
        Borrower(folder).stop()


def await_lender(folder: Path, seconds: float = 60) -> Description:
    """Wait until a background process lends in that folder. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while (found := Borrower(folder).description()) is None:
        if time.monotonic() > deadline:
            raise TimeoutError("no background process came")
        time.sleep(0.02)
    return found


def processes_of(found: Description) -> list[psutil.Process]:
    """Return the background process and its children."""
    return [psutil.Process(pid) for pid in (found.pid, *(child.pid for child in found.children))]


def have_ended(processes: list[psutil.Process], seconds: float = 2) -> bool:
    """Whether all have ended by then."""
    deadline = time.monotonic() + seconds
    while not all(map(is_over, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def _hand_over(folder: Path, idle: float, model: Path | None) -> None:
    process = borrowing_process(None, model)
    await ask(LocalWorker(starter().card, process), CAPITAL, max_tokens=1)
    child = process.release()
    assert child is not None
    assert start_lender(folder, idle, [child])


async def _ask(folder: Path, prompt: str) -> None:
    worker = borrowing_worker(folder)
    async with aclosing(worker.stream(request(prompt, max_tokens=STORY_TOKENS))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                print(worker.process, chunk.text.replace("\n", " "), flush=True)


def main() -> None:
    """Do what the arguments say."""
    what, folder, *rest = sys.argv[1:]
    if what == "hand-over":
        model = Path(rest[1]) if rest[1] else None
        asyncio.run(_hand_over(Path(folder), float(rest[0]), model))
    else:
        asyncio.run(_ask(Path(folder), rest[0]))
