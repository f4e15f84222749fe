"""Inside the sandbox: confine this process for good, then run the code and its tests.

What runs here is at the code's mercy. That its tests passed is believed only with a word that is
new for each run, is written after the last test, and stands in nothing that the code is given: so
neither an exit status nor anything printed can claim it. Code that searches the raw memory of its
process for that word (ctypes), or that replaces what its tests judge with, can still forge it: the
tests share a process with what they test. So can a value that compares falsely. Nothing but text
comes out, even if it is forged.
"""

from __future__ import annotations

import _thread
import codecs
import io
import linecache
import math
import os
import re
import struct
import sys
import threading
import time
import traceback
import types
import unittest
from asyncio import BaseEventLoop, DefaultEventLoopPolicy, set_event_loop_policy
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import Any, NoReturn

from baton.workers.tools.child import seccomp
from baton.workers.tools.child.code_tests import (
    RECORDER_NAME,
    AssertionRecorder,
    TestsFailed,
    run_examples,
    run_tests,
)

NAME, TESTS = "code.py", "tests.py"
ENDED, FAILED, NOT_HERE = 0, 1, 3
"""How the code ended, as an exit status; the words beside it say more."""

_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Failure)\b.*", re.MULTILINE)

_REFUSED_EVENTS = (
    "open", "os.fork", "os.forkpty", "os.listdir", "os.mkdir", "os.posix_spawn", "os.remove",
    "os.rename", "os.scandir", "os.system", "socket.__new__", "sqlite3.connect", "subprocess.Popen",
)  # fmt: skip
"""What can't be done in here, by the names of Python's audit events."""

_REFUSAL = "The code does something that the sandbox doesn't allow."

_refused_attempts: list[str] = []
"""What the code has tried nevertheless: if it fails, that may be why."""


def run(header: struct.Struct, source: int, out: int, err: int) -> NoReturn:
    """Run the code in a file, with what it prints going to `out` and the last word to `err`.

    `header` is how the file begins: see `sandbox_host.HEADER`.
    """
    with os.fdopen(source, "rb") as file:
        seconds, word, length = header.unpack(file.read(header.size))
        code = file.read(length).decode("utf-8")
        tests = file.read().decode("utf-8")
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(0)
    os.closerange(3, 65536)
    sys.stdin = io.StringIO()
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.stderr = io.StringIO()
    os.environ.clear()
    set_event_loop_policy(_WaitOnlyPolicy())
    # Files can't be read in here, so no module is looked for in them: a missing one is missing.
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]
    write, end, flush = os.write, os._exit, sys.stdout.flush  # for the code may replace them
    words = [word.hex().encode()]
    del word
    try:
        seccomp.confine(math.ceil(seconds) + 1)
    except OSError as error:
        write(2, f"\nThere is no sandbox on this machine: {error.strerror}.\n".encode() + words[0])
        end(NOT_HERE)
    _record_refusals()
    # While the code runs, the word is on the stack of the interpreter alone: in no variable, and in
    # nothing that the garbage collector knows. `map` keeps it from being saved in this frame.
    report = words.pop() + next(map(_run_and_report, (code,), (tests,)))
    with suppress(BaseException):
        flush()
    try:
        write(2, b"\n" + report[33:] + b"\n" + report[:32])
    finally:
        end(report[32])


def _record_refusals() -> None:
    """Note what the code tries that can't be done in here: it may continue, with a wrong result."""

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event in _REFUSED_EVENTS and not (
            event == "open" and _is_opened_by_python(str(arguments[0]))
        ):
            _refused_attempts.append(event)

    ours = (NAME, TESTS, threading.Thread.start.__code__.co_filename)

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: object, **named: object) -> object:
            if sys._getframe(1).f_code.co_filename in ours:
                _refused_attempts.append(function.__name__)
            return function(*arguments, **named)

        return called

    for name in ("exists", "isdir", "isfile", "islink", "lexists"):
        setattr(os.path, name, noted(getattr(os.path, name)))
    setattr(threading, "_start_new_thread", noted(_thread.start_new_thread))  # noqa: B010
    codecs.register(_refused_attempts.append)
    sys.addaudithook(audit)


def _is_opened_by_python(path: str) -> bool:
    """Return whether Python itself opens a file: to show the lines of an error, or for doctest."""
    return path.startswith("<") or path.endswith((".py", ".pdbrc"))


def _run_and_report(code: str, tests: str) -> bytes:
    status, words = _run_to_outcome(code, tests)
    if status == FAILED and _refused_attempts:
        status, words = NOT_HERE, _REFUSAL
    return bytes([status]) + " ".join(words.split())[:500].encode("utf-8", "replace")


def _run_to_outcome(code: str, tests: str) -> tuple[int, str]:
    """Run the code, then its tests; return how it ended."""
    classify = _classify_error  # the code may replace it
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    # Others' tests are not among the lines that code can read: they hold what it must return.
    linecache.cache[NAME] = (len(code), None, [*io.StringIO(code, newline="")], NAME)
    recorder = AssertionRecorder(TESTS if tests else NAME)
    setattr(module, RECORDER_NAME, recorder.record)
    unittest.main = lambda *_, **__: None  # type: ignore[assignment]  # they are run below
    try:
        program = recorder.compile(tests or code)
        if tests:
            with suppress(SystemExit):
                exec(compile(code, NAME, "exec", dont_inherit=True), module.__dict__)
        _run_program(module, program)
        if ">>>" in code and not tests:
            recorder.checks += run_examples(module)
        if line := recorder.swallowed_line():
            raise TestsFailed(f"An assertion failed in line {line}, and the code continued.")
    except TestsFailed as error:
        return FAILED, str(error)
    except BaseException as error:
        return classify(error)
    if not recorder.checks and not tests and not _has_tests(code):
        return ENDED, "Finished."
    if doubt := recorder.why_not_tested():
        return ENDED, f"Not tested: {doubt}"
    return ENDED, f"Passed: {recorder.checks} check{'s' * (recorder.checks != 1)}."


def _has_tests(code: str) -> bool:
    return bool(re.search(r"\bassert|\bdef test|>>>", code))


def _run_program(module: types.ModuleType, program: types.CodeType) -> None:
    """Run a program, then the tests in it. Raises what they raise."""
    try:
        exec(program, module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0, False):
            raise TestsFailed(_last_error() or f"SystemExit: {end.code}") from end
    run_tests(module)


def _classify_error(error: BaseException) -> tuple[int, str]:
    """Return how the code ended, by its error: its own, or what can't be done in here."""
    match error:
        case ModuleNotFoundError():
            return NOT_HERE, f"There is no module {error.name!r} in the sandbox."
        case PermissionError():
            return NOT_HERE, _REFUSAL
        case MemoryError():
            return NOT_HERE, "The code needs more memory than the sandbox has."
        case unittest.SkipTest():
            return NOT_HERE, "Its tests are skipped."
        case EOFError():
            return NOT_HERE, "The code waits for input."
        case RuntimeError() if "new thread" in str(error):
            return NOT_HERE, "The code starts threads, which the sandbox doesn't allow."
    words = traceback.format_exception_only(error)[-1].strip()
    trace = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in trace if f.filename in (NAME, TESTS)]
    return FAILED, f"{words} (line {lines[-1]})" if lines else words


def _last_error() -> str:
    """Return the last line that names an error, of what was printed as errors."""
    printed: Any = sys.stderr
    found = _ERROR.findall(printed.getvalue()) if isinstance(printed, io.StringIO) else []
    return found[-1] if found else ""


class _WaitOnlyLoop(BaseEventLoop):
    """An event loop without files and sockets: it can only wait."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, seconds: float | None) -> list[object]:
        """Wait; for nothing at all, until the code's time is over."""
        time.sleep(3600 if seconds is None else max(0.0, seconds))
        return []

    def _process_events(self, events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _WaitOnlyPolicy(DefaultEventLoopPolicy):
    _loop_factory = _WaitOnlyLoop
