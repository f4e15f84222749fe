"""The sandbox against code that wants out, in the tools' real child process, as this user.

As root the code would be allowed nearly everything, and no limit on processes would hold it.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from baton.core.errors import WorkerError
from baton.workers.tools import build_tools, sandbox
from baton.workers.tools.child.seccomp import _ALLOWED_CALLS, MEMORY_BYTES, _filter, _prctl
from baton.workers.tools.worker import Toolbox
from support.processes import wait_until_over
from support.sandbox_escapes import ATTACKS
from support.shared_folders import let_look

pytestmark = pytest.mark.skipif(not sandbox(), reason="no sandbox here, so nothing is executed")

CANARY = "c4n4ry-in-the-file"
SECONDS = 0.3


class GuardedToolbox:
    """A toolbox, and around it what the code inside must neither see nor change."""

    def __init__(self, folder: Path) -> None:
        self.toolbox = Toolbox({**os.environ, "CANARY": CANARY})
        self.folder = folder
        self.secret = folder / "canary.py"
        self.secret.write_text(f"print('{CANARY}')")
        let_look(folder)
        self.secret.chmod(0o644)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)

    async def run(self, code: str, seconds: float = SECONDS) -> str:
        text = f"`````python\n{code}\n`````"
        return await self.toolbox.run_code(text, seconds)

    async def attack(self, code: str, seconds: float = SECONDS) -> str:
        """Run hostile code; return what came out, be it an answer or an error."""
        for name, value in (
            ("SECRET", str(self.secret)),
            ("FOLDER", str(self.folder)),
            ("PORT", str(self.server.getsockname()[1])),
            ("TOOLS", str(self.toolbox.pid)),
            ("FRONT", str(os.getpid())),
        ):
            code = code.replace(name, value)
        try:
            return await self.run(code, seconds)
        except WorkerError as error:
            return str(error)

    async def assert_well(self, child: int | None) -> None:
        """Assert that nothing outside has changed, and that the next call works."""
        assert [path.name for path in self.folder.iterdir()] == ["canary.py"]
        assert self.secret.read_text() == f"print('{CANARY}')"
        assert self.secret.stat().st_mode & 0o777 == 0o644
        with pytest.raises(BlockingIOError):
            self.server.accept()
        assert self.toolbox.pid == child, "the tools' process must survive"
        assert len(self.family()) == 2, "nothing is left of the code's process"
        assert await self.run("print(6 * 7)", 10) == "42\nFinished."

    def family(self) -> list[psutil.Process]:
        """The tools' process, and all that it began."""
        assert self.toolbox.pid is not None
        child = psutil.Process(self.toolbox.pid)
        return [child, *child.children(recursive=True)]

    async def until(self, processes: int, seconds: float = 60) -> None:
        """Wait until so many processes are there."""
        async with asyncio.timeout(seconds):
            while len(self.family()) != processes:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedToolbox]:
    base = tmp_path_factory.mktemp("guarded")
    guarded = GuardedToolbox(base)
    asyncio.run(guarded.run("assert 'EARLIER_CODE'", 10))
    yield guarded
    guarded.server.close()
    asyncio.run(guarded.toolbox.aclose())


def test_there_are_enough_attacks() -> None:
    assert sum(map(len, ATTACKS.values())) > 150


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ATTACKS)
async def test_no_code_gets_out(kind: str, guarded: GuardedToolbox) -> None:
    """All attacks of a kind, four at once, as many as the tools are given at most."""
    slots = asyncio.Semaphore(4)

    async def attack(code: str) -> str:
        async with slots:
            return await guarded.attack(code)

    child = guarded.toolbox.pid
    said = await asyncio.gather(*map(attack, ATTACKS[kind].values()))
    got_out = {
        name: text
        for name, text in zip(ATTACKS[kind], said, strict=True)
        if "ESCAPED" in text or CANARY in text or len(text) > 70_000
    }
    assert not got_out
    await guarded.assert_well(child)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, attacks in ATTACKS.items() for name in attacks]
)
async def test_no_code_gets_out_given_more_time(
    kind: str, name: str, guarded: GuardedToolbox
) -> None:
    child = guarded.toolbox.pid
    said = await guarded.attack(ATTACKS[kind][name], 3.0)
    assert "ESCAPED" not in said
    assert CANARY not in said
    await guarded.assert_well(child)


async def test_code_that_is_cancelled_is_gone_soon(guarded: GuardedToolbox) -> None:
    task = asyncio.create_task(guarded.run("while True: pass", 30))
    await guarded.until(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await guarded.until(2, 20)


async def test_code_cancelled_at_once_does_not_run_on(guarded: GuardedToolbox) -> None:
    for _ in range(20):
        task = asyncio.create_task(guarded.run("while True: pass", 30))
        await asyncio.sleep(0)
        task.cancel()
    await guarded.run("pass", 10)
    await guarded.until(2, 20)


async def test_four_at_once_do_not_disturb_each_other(guarded: GuardedToolbox) -> None:
    codes = [f"x = {n}\nwhile {n % 2}: pass\nprint(x)" for n in range(4)]
    first = await asyncio.gather(*map(guarded.run, codes), return_exceptions=True)
    assert [str(answer) for answer in first[::2]] == ["0\nFinished.", "2\nFinished."]
    assert all("too long" in str(answer) for answer in first[1::2])


async def test_nothing_is_left_over_from_many_calls(guarded: GuardedToolbox) -> None:
    def files() -> list[int]:
        return [process.num_fds() for process in guarded.family()]

    async def four() -> None:
        codes = ["pass", "print('x' * 100_000)", "import ctypes; ctypes.string_at(0)", "1 /"]
        await asyncio.gather(*map(guarded.attack, codes))

    await four()
    before = files()
    for _ in range(10):
        await four()

    def is_clean() -> bool:  # `before` may count a pipe that the jailer was about to close
        return all(now <= then for now, then in zip(files(), before, strict=True))

    for _ in range(200):  # the last fork's pipe is closed once the jailer has seen it end
        if is_clean():
            break
        await asyncio.sleep(0.05)
    assert is_clean()


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("who", [0, 1])
async def test_a_killed_process_is_replaced_and_the_call_made_again(
    who: int, guarded: GuardedToolbox
) -> None:
    """The tools' own process (0) or the jailer (1) is killed while code runs."""
    old = guarded.family()
    task = asyncio.create_task(guarded.run("import time\ntime.sleep(1)\nprint('done')", 10))
    await guarded.until(3)
    old[who].send_signal(signal.SIGKILL)
    assert await task == "done\nFinished."
    await asyncio.to_thread(wait_until_over, old)


async def running_code(guarded: GuardedToolbox) -> psutil.Process:
    """Wait until code runs, and return its process once that is confined."""
    await guarded.until(3)
    (code,) = guarded.family()[2:]
    async with asyncio.timeout(60):
        while facts(code, "status").get("Seccomp") != "2":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return code


def facts(process: psutil.Process, name: str) -> dict[str, str]:
    """Return what the kernel says of a process, by name: lines of /proc/PID/status or limits."""
    lines = Path(f"/proc/{process.pid}/{name}").read_text().splitlines()
    pairs = (re.split(r":\s*|\s{2,}", line, maxsplit=1) for line in lines)
    return {pair[0]: " ".join(pair[1].split()) for pair in pairs if len(pair) == 2}


def assert_confined(code: psutil.Process, seconds: int) -> None:
    """Assert each limit by itself: the filter hides that one of the others is missing."""
    limits, status = facts(code, "limits"), facts(code, "status")
    wanted = {
        "Max cpu time": f"{seconds} {seconds} seconds",
        "Max file size": "0 0 bytes",
        "Max core file size": "0 0 bytes",
        "Max processes": "0 0 processes",
        "Max address space": f"{MEMORY_BYTES} {MEMORY_BYTES} bytes",
    }
    assert limits.items() >= wanted.items()
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) | set(status["Gid"].split()) == {"65534"}
        assert status["Groups"] == ""
    assert {status[name] for name in ("CapPrm", "CapEff", "CapAmb")} == {"0" * 16}


def files_of(process: psutil.Process) -> dict[int, str]:
    """Return what a process has open, by its numbers."""
    folder = Path(f"/proc/{process.pid}/fd")
    return {int(path.name): str(path.readlink()) for path in folder.iterdir()}


async def test_between_code_and_the_front_no_file_is_shared(guarded: GuardedToolbox) -> None:
    """The process that forks code holds a line to the tools, and nothing else.

    The line to the code that just ended is closed a moment after its result.
    """
    await guarded.run("pass", 10)
    async with asyncio.timeout(60):
        while len(files := files_of(guarded.family()[1])) > 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [files.pop(number) for number in (0, 1, 2)] == ["/dev/null"] * 3
    assert [file.partition(":")[0] for file in files.values()] == ["socket"], files


async def test_what_vouches_for_an_outcome_is_in_no_variable(guarded: GuardedToolbox) -> None:
    code = """
import sys
frame, seen = sys._getframe(), []
while frame is not None:
    for name, value in list(frame.f_locals.items()):
        parts = value if isinstance(value, (list, tuple)) else [value]
        seen += [name for part in parts if isinstance(part, bytes)]
    frame = frame.f_back
print("seen:", seen)
"""
    assert "seen: []" in await guarded.run(code, 5)


async def test_code_is_held_to_its_limits(guarded: GuardedToolbox) -> None:
    task = asyncio.create_task(guarded.run("import time\ntime.sleep(1000)", 30))
    assert_confined(await running_code(guarded), 31)
    task.cancel()


async def test_code_finds_its_source_by_pythons_lines(guarded: GuardedToolbox) -> None:
    code = "import inspect\na = '\u2028'\ndef f():\n    return 1\nprint(inspect.getsource(f))"
    assert (await guarded.run(code, 10)).startswith("def f():\n    return 1\n")


CONFINED = """
import os, resource, time
from baton.workers.tools.child.seccomp import confine
if os.geteuid() == 0:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    os.setgroups([1, 2])
confine(7)
os.write(1, b".")
time.sleep(1000)
"""


def test_a_process_is_confined_regardless_of_earlier_rights() -> None:
    command = [sys.executable, "-P", "-c", CONFINED]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as code:
        try:
            assert code.stdout is not None
            assert code.stdout.read(1) == b"."
            assert_confined(psutil.Process(code.pid), 7)
        finally:
            code.kill()


JAILER = """
from baton.workers.tools.child import sandbox_guest as jailed
from baton.ipc.parent_channel import Failure
from baton.workers.tools.child.sandbox_host import SandboxHost
def broken(*files):
    raise OSError("it does not work")
if BROKEN:
    jailed.run = broken
host = SandboxHost.start()
for number in (1, 2):
    try:
        print(host.run(number, "```python\\nprint(6 * 7)\\n```", 60.0))
    except Failure as failure:
        print(failure)
    host.cancel(number)
"""


@pytest.mark.parametrize(
    ("is_broken", "said"),
    [
        (False, "42\nFinished.\n"),
        (True, "The code could not be run here.\n"),
    ],
)
def test_a_call_that_has_ended_may_be_cancelled(is_broken: bool, said: str) -> None:
    """What couldn't be run says nothing about the code."""
    command = [sys.executable, "-P", "-c", JAILER.replace("BROKEN", str(is_broken))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == said * 2


def test_what_the_kernel_refuses_is_named() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        _prctl(1, 99_999)  # no signal to die of has that number


async def test_code_ends_with_its_jailer(guarded: GuardedToolbox) -> None:
    """It sleeps, so neither its time on the processor nor a full pipe would end it."""
    task = asyncio.create_task(guarded.run("import time\ntime.sleep(1000)", 300))
    code = await running_code(guarded)
    guarded.family()[1].kill()
    await asyncio.to_thread(wait_until_over, [code])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await guarded.run("print(1)", 10) == "1\nFinished."


KILL, REFUSE, ALLOW = 0x80000000, 0x00050001, 0x7FFF0000


def decide(program: bytes, number: int, machine: int) -> int:
    """Run the filter as the kernel does, for one system call."""
    steps = list(struct.iter_unpack("HBBI", program))
    at = loaded = 0
    while True:
        code, yes, no, value = steps[at]
        match code:
            case 0x20:
                loaded = {0: number, 4: machine}[value]
            case 0x15:
                at += yes if loaded == value else no
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(code)
        at += 1


@pytest.mark.parametrize(("machine", "kind"), [("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)])
def test_calls_of_another_machine_kill(
    machine: str, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every kernel has the other table, so the filter itself is asked, for every number."""
    monkeypatch.setattr("platform.machine", lambda: machine)
    program = _filter()
    column = ("x86_64", "aarch64").index(machine)
    allowed = {numbers[column] for numbers in _ALLOWED_CALLS.values()}
    for number in (*range(600), 0x40000000, 0x40000001, 2**32 - 1):
        assert decide(program, number, kind) == (ALLOW if number in allowed else REFUSE)
        for other in {0x40000003, 0x40000028, 0xC000003E, 0xC00000B7, 0} - {kind}:
            assert decide(program, number, other) == KILL


@pytest.mark.sampled(0.5)
async def test_a_process_killed_each_time_is_a_clear_error(guarded: GuardedToolbox) -> None:
    task = asyncio.create_task(guarded.run("while True: pass", 30))
    killed: set[int] = set()
    async with asyncio.timeout(60):
        while not task.done():
            child = guarded.toolbox.pid
            if child is not None and child not in killed and len(guarded.family()) == 3:
                killed.add(child)
                os.kill(child, signal.SIGKILL)
            await asyncio.sleep(0.02)
    with pytest.raises(WorkerError, match=r"process failed\. It was killed from outside"):
        await task
    assert len(killed) == 2
    assert await guarded.run("print(1)", 10) == "1\nFinished."


async def test_it_is_limited_by_the_time_that_it_uses_not_only_by_the_clock(
    guarded: GuardedToolbox,
) -> None:
    begun = time.process_time()
    with pytest.raises(WorkerError, match="too long"):
        await guarded.run("sum(range(10**15))")
    assert time.process_time() - begun < 10, "the front does not wait busily"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("print('hi')", "hi\nFinished."),
        ("assert sorted([2, 1]) == [1, 2]", "Passed: 1 check."),
        ("assert 1 == 2, 'one is not two'", "Failed: AssertionError: one is not two (line 1)"),
        ("x = {}\nx['a']", "Failed: KeyError: 'a' (line 2)"),
        ("def f(:", "Failed: SyntaxError: invalid syntax"),
        ("def test_it():\n    assert 3 == 4", "Failed: AssertionError (line 2)"),
        ("def test_it(x=1):\n    assert x", "Passed: 1 check."),
        ("import sys\nsys.exit(3)", "Failed: SystemExit: 3"),
        ("if __name__ == '__main__':\n    print('main')", "main\nFinished."),
        ("import json, re, dataclasses, typing, collections, heapq, datetime", "Finished."),
        ("import random\nassert random.random() != random.random()", "Passed: 1 check."),
        ("import time\ntime.sleep(0.01)\nassert time.time() > 0", "Passed: 1 check."),
        (
            "import inspect\ndef f():\n    return 1\nassert 'f():\\n    ' in inspect.getsource(f)",
            "Passed: 1 check.",
        ),
        ("print('Passed.')\nassert False", "Passed.\nFailed: AssertionError (line 2)"),
    ],
)
async def test_honest_code_runs(code: str, outcome: str, guarded: GuardedToolbox) -> None:
    assert await guarded.run(code, 10) == outcome


DECORATED = """
import functools
def wrapping(test):
    @functools.wraps(test)
    def wrapped(*given):
        return test(*given)
    return wrapped
@wrapping
def test_it(PARAMETER):
    assert 1 + 1 == 2
"""


async def test_a_decorated_test_is_run_if_it_needs_nothing(guarded: GuardedToolbox) -> None:
    assert await guarded.run(DECORATED.replace("PARAMETER", ""), 10) == "Passed: 1 check."
    said = await guarded.run(DECORATED.replace("PARAMETER", "fixture"), 10)
    assert said.startswith("Not tested: ")


UNITTEST = """
import unittest
class Box:
    def double(self, x): return x * 2
class Test(unittest.TestCase):
    def test_double(self):
        self.assertEqual(Box().double(2), EXPECTED)
"""
DOCTEST = '''
def double(x):
    """
    >>> double(2)
    EXPECTED
    """
    yield_ = (n * 2 for n in [x])
    return next(yield_)
'''


@pytest.mark.parametrize(
    "code", [UNITTEST, UNITTEST + "if __name__ == '__main__':\n    unittest.main()\n", DOCTEST]
)
async def test_all_kinds_of_tests_are_run(code: str, guarded: GuardedToolbox) -> None:
    assert await guarded.run(code.replace("EXPECTED", "4"), 10) == "Passed: 1 check."
    said = await guarded.run(code.replace("EXPECTED", "5"), 10)
    assert said.splitlines()[-1].startswith("Failed: ")


async def test_where_others_wrote_the_tests_no_example_in_the_code_counts(
    guarded: GuardedToolbox,
) -> None:
    code, tests = DOCTEST.replace("EXPECTED", "5"), "assert double(2) == 4"
    text = f"```python\n{code}\n```\n```python-tests\n{tests}\n```"
    assert await guarded.toolbox.run_code(text, 10) == "Passed: 1 check."


@pytest.mark.parametrize(
    ("code", "reason", "seconds"),
    [
        ("import numpy", "no module 'numpy'", 10),
        ("open('x')", "doesn't allow", 10),
        ("input()", "waits for input", 10),
        ("x = bytearray(10**10)", "more memory", 10),
        ("while True: pass", "ran too long", SECONDS),
        ("import ctypes\nctypes.string_at(0)", r"crashed Python \(SIGSEGV\)", 10),
        ("print('x' * 10**6)", "printed more than 64 KB", 10),
    ],
)
async def test_what_says_nothing_about_the_code_is_an_error(
    code: str, reason: str, seconds: float, guarded: GuardedToolbox
) -> None:
    with pytest.raises(WorkerError, match=reason):
        await guarded.run(code, seconds)


async def test_without_code_nothing_runs(guarded: GuardedToolbox) -> None:
    with pytest.raises(WorkerError, match="no block of Python"):
        await guarded.toolbox.run_code("print('x')", 1)


async def test_what_is_too_long_is_refused_not_cut(guarded: GuardedToolbox) -> None:
    with pytest.raises(WorkerError, match="too long to be run"):
        await guarded.run("pass\n" * 50_000)
    with pytest.raises(WorkerError, match="too long for the python"):
        await guarded.run("pass\n" * 5_000_000)


async def test_the_code_of_a_step_is_found_in_what_it_was_shown(guarded: GuardedToolbox) -> None:
    shown = (
        "Result 1:\n````\nHere:\n```python\nx = 1\n```\nand\n```py\nprint(x)\n```\n````\n\nRun it."
    )
    assert await guarded.toolbox.run_code(shown, 5) == "1\nFinished."


def test_where_there_is_no_sandbox_there_is_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "python" in build_tools()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert sandbox() == ""
    assert set(build_tools()) == {"baton", "calculator", "units", "clock"}
