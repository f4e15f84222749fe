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
import ast
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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.machinery import BuiltinImporter, FrozenImporter
from typing import Any, NoReturn

from baton.workers.tools.child import seccomp

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
            recorder.checks += _run_examples(module)
        if line := recorder.swallowed_line():
            raise _TestsFailed(f"An assertion failed in line {line}, and the code continued.")
    except _TestsFailed as error:
        return FAILED, str(error)
    except BaseException as error:
        return _classify_error(error)
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
            raise _TestsFailed(_last_error() or f"SystemExit: {end.code}") from end
    _run_tests(module)


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


def _run_tests(module: types.ModuleType) -> None:
    """Run the tests that the code has. Raises what they raise."""
    unittest.defaultTestLoader.loadTestsFromModule(module).run(_RaisingResult())
    _call_plain(module, "setup_module")
    for name, test in list(vars(module).items()):
        if isinstance(test, types.FunctionType) and name.startswith("test"):
            _call_plain(module, "setup_function")
            _run_function(test)
            _call_plain(module, "teardown_function")
        elif isinstance(test, type) and name.startswith(("test", "Test")):
            _run_class(test)


class _RaisingResult(unittest.TestResult):
    """Raises what the first test does that doesn't succeed."""

    def addError(self, test: object, err: Any) -> None:
        """Raise an error, or a failed assertion."""
        raise err[1]

    addFailure = addError

    def addSubTest(self, test: object, subtest: object, err: Any) -> None:
        """Raise what a part of a test raised."""
        if err is not None:
            raise err[1]

    def addSkip(self, test: object, reason: str = "") -> None:
        """Leave a test that is skipped, or expected to fail, without a verdict."""
        raise unittest.SkipTest(reason)

    def addExpectedFailure(self, test: object, err: object) -> None:
        """Leave it so as well."""
        self.addSkip(test)

    addUnexpectedSuccess = addSkip


def _run_class(kind: type) -> None:
    """Run the tests of a class as pytest does: each on an object of its own."""
    for name in dir(kind):
        if name.startswith("test") and callable(getattr(kind, name)):
            if issubclass(kind, unittest.TestCase) or "__init__" in vars(kind):
                return  # it ran already, or pytest leaves it out, too
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
    """Run a test that takes nothing; the assertions of others are missed as not run."""
    if _takes_nothing(test):
        result = test()
        if inspect.iscoroutine(result):
            run_async(result)


def _run_examples(module: types.ModuleType) -> int:
    """Run doctest's examples; return how many had an expected output. Raises _TestsFailed."""
    runner, checks = doctest.DocTestRunner(verbose=False), 0
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=lambda text: None)
        checks += sum(bool(e.want) and doctest.SKIP not in e.options for e in test.examples)
    if runner.failures:
        raise _TestsFailed(f"{runner.failures} of {runner.tries} examples (doctest) failed.")
    return checks


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


RECORDER_NAME = "__record__"
"""By which name the program calls its recorder."""

_TEST_NAMES = ("test", "check", "main", "run", "verify")
"""How functions with tests begin; in a class only the first counts."""

_DISPLAYS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr)
"""What is true by the way it is written: `assert (a == b, "text")` compares nothing."""

_ITERATOR_METHODS = ("__next__", "__anext__", "__await__")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where statements are: in a class, where each must run, where a failure is caught."""

    is_in_class: bool = False
    must_run: bool = True
    is_guarded: bool = False


class AssertionRecorder(ast.NodeTransformer):
    """Has the assertions of a program report what they found; `checks` counts those that held.

    Assertions are `assert`, and the methods `assert...` of unittest and of mocks; recorded are
    those outside functions and those in tests. Outside branches and `try`, each must run. This is
    made for tests that are written wrongly, not for code that attacks it.
    """

    def __init__(self, file: str) -> None:
        self.checks = 0
        self._file = file
        self._place = _Place()
        self._written: list[int] = []
        self._held: set[int] = set()
        self._failed: list[tuple[int, bool]] = []

    def compile(self, code: str) -> types.CodeType:
        """Compile a program that calls `record` as RECORDER_NAME. Raises what `compile` does."""
        try:
            tree = ast.fix_missing_locations(self.visit(ast.parse(code, self._file)))
            return compile(tree, self._file, "exec", dont_inherit=True)
        except RecursionError:  # a tree is deeper than what the compiler builds by itself
            return compile(code, self._file, "exec", dont_inherit=True)

    def record(self, line: int, is_guarded: bool, value: object) -> object:
        """Note the value of an assertion, and return it.

        What can't be false (a function that isn't called, an iterator) isn't a check.
        """
        if not value:
            self._failed.append((line, is_guarded))
        elif not (callable(value) or any(hasattr(value, name) for name in _ITERATOR_METHODS)):
            self._held.add(line)
            self.checks += 1
        return value

    def swallowed_line(self) -> int:
        """Return the line of an assertion that failed where the test itself caught that, or 0."""
        return next((line for line, is_guarded in self._failed if is_guarded), 0)

    def why_not_tested(self) -> str:
        """Return why what ran isn't proof, or "" if it is one."""
        if self._failed:
            return f"An assertion failed in line {self._failed[0][0]}, and the code continued."
        if lines := [line for line in self._written if line not in self._held]:
            return f"The assertion in line {lines[0]} did not run, or can't fail."
        return "" if self.checks else "No test ran."

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        """Have an assertion report its value."""
        if isinstance(node.test, ast.Constant):  # a place that must not be reached
            return node
        call = self._call(node.lineno, node.test)
        node.test = node.test if isinstance(node.test, _DISPLAYS) else call
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Report the call of a method `assert...` that returned."""
        return self._reported(node, node.value)

    def visit_With(self, node: ast.With) -> Any:
        """Report `with self.assertRaises(...)` and its like that were left."""
        self.generic_visit(node)
        return self._reported(node, *(item.context_expr for item in node.items))

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        """Look into a function with tests."""
        names = _TEST_NAMES[:1] if self._place.is_in_class else _TEST_NAMES
        return self._visit_inside(node) if node.name.startswith(names) else node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Look into a class."""
        return self._visit_inside(node, is_in_class=True)

    def visit_If(self, node: ast.If | ast.Match) -> ast.AST:
        """Look into a branch."""
        return self._visit_inside(node, must_run=False)

    visit_Match = visit_If

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        """Look into a `try`, which may catch that an assertion fails."""
        caught = self._place.is_guarded or _catches_failures(node)
        return self._visit_inside(node, must_run=False, is_guarded=caught)

    visit_TryStar = visit_Try

    def _visit_inside(self, node: ast.AST, **changes: bool) -> ast.AST:
        outer, self._place = self._place, replace(self._place, **changes)
        self.generic_visit(node)
        self._place = outer
        return node

    def _reported(self, node: ast.stmt, *values: ast.expr) -> ast.stmt | list[ast.stmt]:
        """Return a statement, with a report behind it where it calls a method `assert...`."""
        for value in values:
            function = value.func if isinstance(value, ast.Call) else None
            if isinstance(function, ast.Attribute) and function.attr.startswith("assert"):
                return [node, ast.Expr(self._call(node.lineno, ast.Constant(True)))]
        return node

    def _call(self, line: int, value: ast.expr) -> ast.Call:
        if self._place.must_run:
            self._written.append(line)
        arguments = [ast.Constant(line), ast.Constant(self._place.is_guarded), value]
        return ast.Call(ast.Name(RECORDER_NAME, ast.Load()), arguments, [])


def _catches_failures(statement: ast.Try | ast.TryStar) -> bool:
    """Whether a failed assertion is caught for good by a statement that tries."""
    for handler in statement.handlers:
        named = ast.unparse(handler.type) if handler.type is not None else "BaseException"
        if any(name in named for name in ("AssertionError", "Exception")):
            return not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return False
