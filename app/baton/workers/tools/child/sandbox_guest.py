"""Inside the sandbox: confine this process for good, then run the code and its tests.

What runs here is at the code's mercy. That its tests passed is believed only with a word that is
new for each run, is written after the last test, and stands in nothing that the code is given: so
neither an exit status nor anything printed can claim it. Code that searches the raw memory of its
process for that word (ctypes), or that replaces what runs the tests while they run, can still forge
it: the tests share a process with what they test. So can a value that lies about itself in more
than `==`, such as one whose arithmetic always gives what is expected. Nothing but text comes out,
even if it is forged.
"""

from __future__ import annotations

import _thread
import codecs
import doctest
import inspect
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
from asyncio import BaseEventLoop, DefaultEventLoopPolicy, run as run_async, set_event_loop_policy
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import Any, NoReturn

from baton.workers.tools.child import seccomp
from baton.workers.tools.child.check_recorder import CheckRecorder, ExampleRunner

NAME, TESTS = "code.py", "tests.py"
ENDED, FAILED, NOT_HERE = 0, 1, 3
"""How the code ended, as an exit status; the words beside it say more."""

_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Failure)\b.*", re.MULTILINE)
_JUDGING_BUILTINS = """
    abs all any bool callable complex dict enumerate float frozenset getattr hasattr int isinstance
    issubclass iter len list next repr round set sorted str tuple type zip
"""
"""What tests judge with: code under test may not stand in for it."""


_REFUSED_EVENTS = (
    "open", "os.fork", "os.forkpty", "os.listdir", "os.mkdir", "os.posix_spawn", "os.remove",
    "os.rename", "os.scandir", "os.system", "socket.__new__", "sqlite3.connect", "subprocess.Popen",
)  # fmt: skip
"""What can't be done in here, by the names of Python's audit events."""

_REFUSAL = "The code does something that the sandbox doesn't allow."

_refused_attempts: list[str] = []
"""What the code has tried nevertheless: if it fails, that may be why."""


class _TestsFailed(Exception):
    """The code's own tests failed; the text says how."""


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
    """Note what the code tries that can't be done in here: it may go on, with a wrong result."""

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
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    # Others' tests are not among the lines that code can read: they hold what it must return.
    linecache.cache[NAME] = (len(code), None, [*io.StringIO(code, newline="")], NAME)
    recorder = CheckRecorder(TESTS if tests else NAME, sys.modules[__name__])
    judged, doubted = _classify_error, recorder.why_not_tested  # for the code may replace them
    try:
        program = recorder.compile(tests or code)
        if tests:
            _run_answer(module, code, recorder, set(re.findall(r"\w+", tests)))
        _run_program(module, program, recorder)
        if ">>>" in code and not tests:
            _run_examples(module, recorder)
        if line := recorder.swallowed_line():
            raise _TestsFailed(f"An assertion failed in line {line}, and the code went on.")
    except _TestsFailed as error:
        return FAILED, str(error)
    except BaseException as error:
        return judged(error)
    if not recorder.checks and not tests and not _has_tests(code):
        return ENDED, "Finished."
    if doubt := doubted():
        return ENDED, f"Not tested: {doubt}"
    return ENDED, f"Passed: {recorder.checks} check{'s' * (recorder.checks != 1)}."


def _has_tests(code: str) -> bool:
    return bool(re.search(r"\bassert|\bdef test|>>>", code))


def _run_answer(
    module: types.ModuleType, code: str, recorder: CheckRecorder, words: set[str]
) -> None:
    """Run code that others' tests are for: none of its own count. `words` are those of the tests.

    Raises _Wrong where the code puts its own in the place of what its tests judge with.
    """
    restore, judges = recorder.restore, words.intersection(_JUDGING_BUILTINS.split())
    try:
        exec(compile(code, NAME, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        pass
    finally:
        restore()
    if taken := sorted(judges.intersection(vars(module))):
        raise _TestsFailed(f"The code replaces {taken[0]}, which its tests use.")


def _run_program(
    module: types.ModuleType, program: types.CodeType, recorder: CheckRecorder
) -> None:
    """Run a program and the tests in it that it doesn't run itself. Raises what they raise."""
    try:
        exec(program, module.__dict__)
    except SystemExit as end:
        _raise_problem(recorder)
        if end.code not in (None, 0, False):
            raise _TestsFailed(_last_error() or f"SystemExit: {end.code}") from end
    _raise_problem(recorder)
    _run_tests(module, recorder)


def _raise_problem(recorder: CheckRecorder) -> None:
    """Raise what the first test that failed did, under unittest's name for it."""
    if recorder.problems:
        test, error = recorder.problems[0]
        status, words = _classify_error(error)
        if status == NOT_HERE:
            raise error
        raise _TestsFailed(f"{test}: {words}")


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


def _run_tests(module: types.ModuleType, recorder: CheckRecorder) -> None:
    """Run the tests that the code has, but did not run itself. Raises what they raise."""
    cases = unittest.defaultTestLoader.loadTestsFromModule(module)
    suite = unittest.TestSuite(c for c in _flatten(cases) if c.id() not in recorder.started)
    if suite.countTestCases():
        unittest.TextTestRunner(stream=io.StringIO()).run(suite)
        _raise_problem(recorder)
    _call_plain(module, "setup_module")
    for name, test in list(vars(module).items()):
        if not name.startswith("test") and not name.startswith("Test"):
            continue
        if isinstance(test, types.FunctionType) and not recorder.has_ended(test):
            _call_plain(module, "setup_function")
            _run_function(test)
            _call_plain(module, "teardown_function")
        elif isinstance(test, type) and not issubclass(test, unittest.TestCase):
            _run_class(test, recorder)


def _flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


def _run_class(kind: type, recorder: CheckRecorder) -> None:
    """Run the tests of a class as pytest does: each on an object of its own."""
    for name in dir(kind):
        test = getattr(kind, name)
        if name.startswith("test") and callable(test) and not recorder.has_ended(test):
            if "__init__" in vars(kind):  # pytest leaves out such a class, too
                return
            item = kind()
            _call_plain(item, "setup_class")
            _call_plain(item, "setup_method")
            _run_function(getattr(item, name))
            _call_plain(item, "teardown_method")


def _call_plain(owner: object, name: str) -> None:
    function = getattr(owner, name, None)
    if callable(function) and _takes_nothing(function):
        function()


def _run_function(test: Callable[..., object]) -> None:
    """Run a test that takes nothing; the recorder notices those that are left out."""
    if _takes_nothing(test):
        result = test()
        if inspect.iscoroutine(result):
            run_async(result)


def _run_examples(module: types.ModuleType, recorder: CheckRecorder) -> None:
    runner = ExampleRunner(recorder)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=lambda text: None)
    if runner.failures:
        raise _TestsFailed(f"{runner.failures} of {runner.tries} examples (doctest) failed.")


def _takes_nothing(test: Callable[..., object]) -> bool:
    """Whether a test takes nothing that must be given; a decorator may give it."""
    own, inner = (
        list(inspect.signature(test, follow_wrapped=follow).parameters.values())
        for follow in (False, True)
    )
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    passes_on = any(p.kind in variable for p in own) and not hasattr(test, "patchings")
    return not any(
        p.default is p.empty and p.kind not in variable for p in (inner if passes_on else own)
    )


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
