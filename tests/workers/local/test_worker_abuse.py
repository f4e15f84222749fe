"""Deaths, hostile files and misbehaving children: the front lives, says so and continues."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from baton.core.errors import BatonError, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.messages import Loading, Reading, Retrying, Text
from baton.ipc import process, supervisor
from baton.workers.local import GenerationSettings, LocalWorker, Memory, starter
from support import fake_children
from support.local_worker_calls import CAPITAL, ask, local_worker, request, small

pytestmark = pytest.mark.local_model

STORY = "Write a very long story about a river."
LONG = "The quick brown fox jumps over the lazy dog. " * 600

# A front that streams an answer until it is killed, saying its child's id and each phase.
FRONT = """
import asyncio, sys, psutil
sys.path.insert(0, {tests!r})
from support.local_worker_calls import request, small
async def main():
    worker = small()
    worker.warm()
    print(psutil.Process().children()[0].pid, flush=True)
    async for chunk in worker.stream(request({prompt!r})):
        print(type(chunk).__name__, flush=True)
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


BEFORE: set[int] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    """Note whose parent these tests are already: other tests leave a server for their processes."""
    BEFORE.update(child.pid for child in psutil.Process().children())


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children() if child.pid not in BEFORE]


async def survive(worker: LocalWorker, number: signal.Signals, delay: float) -> None:
    """Kill the child a while after asking; the next prompt works, at any moment."""

    async def kill() -> None:
        await asyncio.sleep(delay)
        for pid in children():
            os.kill(pid, number)
            # Else the next request would be taken for the cause.
            while worker.process == pid:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)

    killing = asyncio.create_task(kill())
    text, message = "", ""
    try:
        async with aclosing(worker.stream(request(STORY, max_tokens=60))) as chunks:
            async for chunk in chunks:
                text += chunk.text if isinstance(chunk, Text) else ""
    except WorkerError as error:
        message = error.message
    await killing
    if message:
        assert number.name in message or "killed from outside" in message
        assert ("kept" if text else "isn't tried again") in message
    assert "Paris" in (await ask(worker, CAPITAL)).text


SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]
"""How a child ends. A crash while the model is loaded would be the file's fault."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "loaded"), [(signal.SIGKILL, False), *((number, True) for number in SIGNALS)]
)
async def test_a_killed_child_is_survived(number: signal.Signals, loaded: bool) -> None:
    worker = small()
    if loaded:
        await ask(worker, CAPITAL, max_tokens=1)
    await survive(worker, number, random.Random(f"{number} {loaded}").uniform(0, 1.2))
    await worker.aclose()
    assert children() == []


@pytest.mark.long
async def test_a_hundred_killed_children_are_survived() -> None:
    rng = random.Random(100)
    worker = small()
    for turn in range(100):
        if turn % 2:
            await worker.aclose()
        else:
            await ask(worker, CAPITAL, max_tokens=1)
        number = signal.SIGKILL if turn % 2 else SIGNALS[turn % 3]
        await survive(worker, number, rng.uniform(0, 1.2))
    await worker.aclose()
    assert children() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("phase", ["start", "Loading", "Reading", "Text"])
def test_a_child_ends_with_its_front(phase: str) -> None:
    prompt = LONG if phase == "Reading" else STORY
    tests = str(Path(__file__).parents[2])
    code = FRONT.format(tests=tests, prompt=prompt)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        pid = int(front.stdout.readline())
        assert alive(pid)
        if phase != "start":
            while front.stdout.readline().strip() != phase:
                assert front.poll() is None
        front.kill()
    deadline = time.monotonic() + 30
    while alive(pid):
        assert time.monotonic() < deadline, "the child outlived its front"
        time.sleep(0.02)


async def load_mutated(file: Path, rng: random.Random) -> str:
    """Change some bytes of a model's header, ask, change them back; return how it went."""
    with file.open("r+b") as model:
        changes = []
        for _ in range(rng.randint(1, 8)):
            # The numbers and names of the first kilobytes, seldom the vocabulary after them.
            at = rng.randrange(4, rng.choice([64, 1024, 4096, 1_700_000]))
            model.seek(at)
            changes.append((at, model.read(1)))
            model.seek(at)
            model.write(bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])]))
    worker = local_worker(starter().card, file, Memory(), settings=GenerationSettings(0))
    try:
        async with asyncio.timeout(60):
            await ask(worker, CAPITAL, max_tokens=4)
        return "answered"
    except BatonError as error:
        return type(error).__name__ if error.message else "nothing said"
    finally:
        await worker.aclose()
        with file.open("r+b") as model:
            for at, byte in reversed(changes):
                model.seek(at)
                model.write(byte)


async def survive_mutations(folder: Path, times: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    file = folder / "mutated.gguf"
    shutil.copy(starter().path, file)
    outcomes = [await load_mutated(file, rng) for _ in range(times)]
    assert "ModelFileError" in outcomes
    assert set(outcomes) <= {"answered", "ModelFileError", "WorkerError", "WorkerUnavailable"}
    worker = local_worker(starter().card, file, Memory(), settings=GenerationSettings(0))
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()
    assert children() == []


async def test_mutated_headers_never_kill_the_front(tmp_path: Path) -> None:
    await survive_mutations(tmp_path, 8)


@pytest.mark.long
@pytest.mark.parametrize("quarter", range(4))
async def test_a_thousand_mutated_headers_never_kill_the_front(
    tmp_path: Path, quarter: int
) -> None:
    await survive_mutations(tmp_path, 250, seed=quarter)


@pytest.mark.sampled(0.5)
async def test_nothing_leaks_however_a_child_ends() -> None:
    me = psutil.Process()
    worker = small()
    await ask(worker, CAPITAL, max_tokens=1)
    await worker.aclose()
    await asyncio.sleep(0.5)  # threads end a moment after their child
    before = (me.num_fds(), me.num_threads())
    for life in range(4):
        async with aclosing(worker.stream(request(CAPITAL, max_tokens=1))) as chunks:
            async for chunk in chunks:
                if life % 4 == 1 and isinstance(chunk, Loading):
                    break
                if life % 4 == 2 and isinstance(chunk, Reading):
                    break
                if life % 4 == 3 and isinstance(chunk, Text):
                    os.kill(children()[0], signal.SIGKILL)
                    break
        await worker.aclose()
    assert children() == []
    for _ in range(100):
        if (me.num_fds(), me.num_threads()) <= before:
            break
        await asyncio.sleep(0.1)
    assert (me.num_fds(), me.num_threads()) <= before


def pretend(monkeypatch: pytest.MonkeyPatch, code: str) -> LocalWorker:
    """Return a worker whose child runs that code instead of the runner."""
    monkeypatch.setattr(process, "command", lambda _: fake_children.command(code))
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", (0.01, 0.02, 0.03))
    monkeypatch.setattr(process, "SILENT_SECONDS", 2)
    return small()


async def test_a_child_that_dies_again_and_again_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = pretend(monkeypatch, "receive(); sys.exit('no such luck')")
    chunks = worker.stream(request(CAPITAL))
    for delay in (0.01, 0.02, 0.03):
        retrying = await anext(chunks)
        assert isinstance(retrying, Retrying)
        assert retrying.delay == delay
    with pytest.raises(WorkerUnavailable, match=r"exit code 1\): no such luck"):
        await anext(chunks)
    with pytest.raises(WorkerUnavailable, match="is not started for now") as quarantined:
        await ask(worker, CAPITAL)
    assert "try again in 10 minutes" in quarantined.value.hint
    monkeypatch.undo()
    await worker.aclose()
    assert "Paris" in (await ask(worker, CAPITAL)).text
    await worker.aclose()


async def test_each_death_over_loading_leaves_less_to_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = """
share = receive()["gpu_share"]
print("share", share, file=sys.stderr, flush=True)
if share: os.abort()
send(type="failed", error="ModelFileError", message="None on the GPU.", hint="")
"""
    worker = pretend(monkeypatch, code)
    with pytest.raises(ModelFileError, match="None on the GPU"):
        await ask(worker, CAPITAL)
    await worker.aclose()


@pytest.mark.sampled(0.5)
async def test_a_silent_child_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = pretend(monkeypatch, "send(type='loading', fraction=0.5); time.sleep(600)")
    monkeypatch.setattr(process, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", ())
    with pytest.raises(WorkerUnavailable, match="stopped answering"):
        await ask(worker, CAPITAL)
    assert children() == []


@pytest.mark.sampled(0.5)
async def test_a_child_that_will_not_stop_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
loaded = dict(parameters=1, context=8192, bytes=1, hardware="CPU only", licence="", note="")
send(type="loaded", **loaded)
while True:
    send(type="text", id=1, text="on and on ", tokens=3); time.sleep(0.05)
"""
    worker = pretend(monkeypatch, code)
    async with aclosing(worker.stream(request(CAPITAL))) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
    assert children() == []


@pytest.mark.parametrize(
    "output",
    [
        "send(type='text', text=7, tokens=1)",
        "send(type='loaded', parameters='many')",
        "send(type='done', tokens_in=1)",
        "send(type='text', text='before anything was asked', tokens=1)",
        "send(type=['text'])",
        "send()",
        "print('hello from a library', flush=True)",
        "sys.stdout.buffer.write(b'\\xff' * 1000)",
        "[send(type='text', text='', tokens=1) for _ in range(20000)]",
    ],
)
async def test_invalid_output_from_a_child_is_a_death(
    monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    worker = pretend(monkeypatch, f"{output}; sys.stdout.flush(); time.sleep(600)")
    monkeypatch.setattr(supervisor, "BACKOFF_SECONDS", ())
    with pytest.raises(WorkerUnavailable):
        async with asyncio.timeout(60):
            await ask(worker, CAPITAL)
    assert children() == []


async def test_python_that_cannot_be_started_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "command", lambda _: ["/no/such/python"])
    with pytest.raises(WorkerUnavailable, match="can't be started"):
        await ask(small(), CAPITAL)
