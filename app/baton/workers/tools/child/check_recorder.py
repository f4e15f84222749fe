"""Which tests of a piece of code ran, and what they checked: the one place that decides it.

What counts is a check: an assertion that was evaluated and held, an `assert...` method of unittest
or of a mock that returned, a doctest example with an expected output. The code's text says which
tests and assertions there are, and each of them must have run. A test that merely ended, was
skipped, was expected to fail, or whose failure was caught, proves nothing.

All of this lives in the process of the code that it watches. It is made for tests that are written
wrongly, not for code that attacks it: `is_tampered` notices what replaces Python's own functions,
but code that searches the frames or the memory for this recorder can have it say anything.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import os
import sys
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, wraps
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CodeType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
)
from typing import Any
from unittest import mock

__unittest = True  # unittest leaves the frames of this module out of its tracebacks

_NEVER_FALSE = (
    FunctionType, MethodType, BuiltinMethodType, partial, type, GeneratorType, AsyncGeneratorType,
    CoroutineType, map, filter, zip, type(NotImplemented),
)  # fmt: skip
"""What is asserted where a call, or a loop over it, was forgotten."""

_Try = (ast.Try, ast.TryStar)
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class _StatementPlace:
    """Where statements stand: whether each must run, and whether a failure in them is caught."""

    must_run: bool = True
    is_test: bool = True
    is_guarded: bool = False
    is_in_class: bool = False
    is_in_function: bool = False


class CheckRecorder:
    """Counts what is checked while code from `file` runs; made before any of it does.

    `owners` are modules whose functions the code may not replace, besides those known here.
    """

    def __init__(self, file: str, *owners: object) -> None:
        self.file = file
        self._marks = [f"\0{name}\0{id(self)}" for name in ("check", "equal", "begin", "end")]
        self._hooks = dict(zip(self._marks, self._recording_functions(), strict=True))
        self._written: dict[int, str] = {}
        self._asserted: dict[int, bool] = {}
        self._ran: set[int] = set()
        self._ended: set[int] = set()
        self._open: list[tuple[int, int, BaseException | None]] = []
        self._lost: list[str] = []
        self._vacuous: list[str] = []
        self._caught: list[tuple[int, bool]] = []
        self._newest: BaseException | None = None
        self.checks = 0
        self.problems: list[tuple[str, BaseException]] = []
        self.started: set[str] = set()
        self._patch_libraries()
        self._pristine = [
            (owner, name, value, getattr(value, "__code__", None))
            for owner, name, value in _protected_functions(owners)
        ]

    def compile(self, code: str) -> CodeType:
        """Compile code so that what it asserts is recorded. Raises what `compile` does."""
        try:
            tree = ast.parse(code, self.file)
            self._instrument(tree)
            compiled = compile(tree, self.file, "exec", dont_inherit=True)
        except RecursionError:  # a tree is deeper than what the compiler builds by itself
            return compile(code, self.file, "exec", dont_inherit=True)
        return self._with_hooks(compiled)

    def is_tampered(self) -> bool:
        """Whether the code has replaced a function that its tests are judged with."""
        return bool(sys.gettrace() or sys.getprofile()) or any(
            vars(owner).get(name) is not value or getattr(value, "__code__", None) is not code
            for owner, name, value, code in self._pristine
        )

    def restore(self) -> None:
        """Put back what was replaced, and forget what was recorded: other code's turn begins."""
        sys.settrace(None)
        sys.setprofile(None)
        for owner, name, value, code in self._pristine:
            if code is not None and getattr(value, "__code__", None) is not code:
                setattr(value, "__code__", code)  # noqa: B010
            if vars(owner).get(name) is not value:
                setattr(owner, name, value)
        self.checks = 0
        self.problems.clear()
        self.started.clear()
        self._lost.clear()
        self._caught.clear()

    def has_ended(self, test: object) -> bool:
        """Whether a test function was run to its end already."""
        return isinstance(test, FunctionType) and test.__code__.co_firstlineno in self._ended

    def add_loss(self, reason: str) -> None:
        """Note why a test can't be counted."""
        self._lost.append(reason)

    def swallowed_line(self) -> int:
        """Return the line of an assertion that failed where the code itself caught that, or 0."""
        return next((line for line, guarded in self._caught if guarded), 0)

    def why_not_tested(self) -> str:
        """Return why what ran is no proof, or "" if it is one."""
        if self.is_tampered():
            return "The code replaces functions that its tests are judged with."
        if self._caught:
            return f"An assertion failed in line {self._caught[0][0]}, and the code went on."
        if self._vacuous:
            return self._vacuous[0]
        if self._lost:
            return self._lost[0]
        missing = {n: name for n, name in self._written.items() if n not in self._ended}
        if missing:
            line, name = next(iter(missing.items()))
            return f"The test {name} (line {line}) did not run to its end."
        if lines := [
            line for line, must in self._asserted.items() if must and line not in self._ran
        ]:
            return f"The assertion in line {lines[0]} did not run."
        return "" if self.checks else "No test ran."

    def record_failure(self, line: int, *, guarded: bool = False) -> None:
        """Note a failure: if the code goes on nevertheless, this was caught."""
        self._caught.append((line, guarded))

    def forgive_newest(self) -> None:
        """Note that the newest failure was what a test expected."""
        del self._caught[-1:]

    def _recording_functions(self) -> Iterator[Callable[..., object]]:
        def check(line: int, guarded: bool, value: object) -> bool:
            self._ran.add(line)
            if isinstance(value, _NEVER_FALSE):
                self.add_loss(f"The assertion in line {line} is always true: nothing is called.")
            held = bool(value)
            if held:
                self.checks += 1
            else:
                self.record_failure(line, guarded=guarded)
            return held

        def equal(line: int, guarded: bool, left: object, right: object) -> bool:
            held = check(line, guarded, left == right)
            if held and (_equals_anything(left) or _equals_anything(right)):
                self.add_loss(f"What is compared in line {line} says that it equals anything.")
            return held

        def begin(line: int) -> None:
            self._open.append((line, self.checks, _handled_error()))

        def end(line: int) -> None:
            opened, before, handled = self._open.pop() if self._open else (0, 0, None)
            if opened == line and self.checks > before and _handled_error() is handled:
                self._ended.add(line)

        yield from (check, equal, begin, end)

    # What is written

    def _instrument(self, tree: ast.Module) -> None:
        todo: list[tuple[list[ast.stmt], _StatementPlace]] = [(tree.body, _StatementPlace())]
        while todo:
            body, place = todo.pop()
            for statement in body:
                if isinstance(statement, ast.Assert):
                    self._instrument_assert(statement, place)
                todo.extend(self._bodies_within(statement, place))
        ast.fix_missing_locations(tree)

    def _bodies_within(
        self, statement: ast.stmt, place: _StatementPlace
    ) -> Iterator[tuple[list[ast.stmt], _StatementPlace]]:
        if isinstance(statement, _Function):
            yield list(statement.body), _place_inside(statement, place)
            if statement.name.startswith("test") and _has_checks(statement):
                self._instrument_test(statement)
            return
        if isinstance(statement, ast.ClassDef):
            yield statement.body, replace(place, is_in_class=True)
            return
        if place.is_in_function and not _always_runs(statement):
            place = replace(place, must_run=False)
        caught = isinstance(statement, _Try) and place.is_test and _catches_failures(statement)
        yield getattr(statement, "body", []), replace(place, is_guarded=place.is_guarded or caught)
        for name in ("orelse", "finalbody"):
            yield getattr(statement, name, []), place
        for handler in getattr(statement, "handlers", ()):
            yield handler.body, replace(place, must_run=False)
        for case in getattr(statement, "cases", ()):
            yield case.body, place

    def _instrument_assert(self, statement: ast.Assert, place: _StatementPlace) -> None:
        test, line, must = statement.test, statement.lineno, place.must_run
        if why := _why_always_true(test):
            self._vacuous.append(f"The assertion in line {line} is always true: {why}.")
            return
        if isinstance(test, ast.Constant):
            if test.value:
                return
            must = False  # a place that must not be reached
        self._asserted[line] = self._asserted.get(line, False) or must
        check, equal = self._marks[:2]
        given: list[ast.expr] = [ast.Constant(line), ast.Constant(place.is_guarded)]
        match test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                call = ast.Call(ast.Constant(equal), [*given, left, right], [])
            case _:
                call = ast.Call(ast.Constant(check), [*given, test], [])
        statement.test = ast.copy_location(call, test)

    def _instrument_test(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Have a test function say when it begins and ends."""
        line = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        self._written[line] = function.name
        begin, end = (
            ast.copy_location(
                ast.Expr(ast.Call(ast.Constant(mark), [ast.Constant(line)], [])), function.body[0]
            )
            for mark in self._marks[2:]
        )
        described = ast.get_docstring(function, clean=False) is not None
        head, rest = function.body[:described], function.body[described:]
        tried = ast.Try(body=rest or [ast.Pass()], handlers=[], orelse=[], finalbody=[end])
        function.body = [*head, begin, ast.copy_location(tried, function.body[0])]

    def _with_hooks(self, code: CodeType) -> CodeType:
        """Put the recorder's own functions where the code calls them: they have no names."""
        constants = tuple(
            self._with_hooks(value)
            if isinstance(value, CodeType)
            else self._hooks.get(value, value)
            if isinstance(value, str)
            else value
            for value in code.co_consts
        )
        return code.replace(co_consts=constants)

    # What libraries check

    def _patch_libraries(self) -> None:
        case = unittest.TestCase()
        for context in (
            case.assertRaises(AssertionError),  # noqa: PT027
            case.assertWarns(UserWarning),
            case.assertLogs(),
        ):
            expecting: Any = type(context)
            expecting.__exit__ = self._wrap_expecting(expecting.__exit__)
        for owner in (unittest.TestCase, mock.NonCallableMock):
            for name in [name for name in vars(owner) if name.startswith("assert")]:
                setattr(owner, name, self._wrap_counting(getattr(owner, name)))
        for name in ("assertEqual", "assertEquals"):
            if hasattr(unittest.TestCase, name):
                setattr(
                    unittest.TestCase, name, self._wrap_comparing(getattr(unittest.TestCase, name))
                )
        for name in ("assertTrue", "assertFalse"):
            setattr(
                unittest.TestCase, name, self._wrap_requiring_text(getattr(unittest.TestCase, name))
            )
        result: Any = unittest.TestResult
        result.startTest = self._wrap_noting(
            result.startTest, lambda test: self.started.add(test.id())
        )
        result.addError = self._wrap_noting(result.addError, self._record_problem)
        result.addFailure = self._wrap_noting(result.addFailure, self._record_problem)
        result.addSubTest = self._wrap_noting(result.addSubTest, self._record_problem)
        for name, why in (
            ("addSkip", "was skipped"),
            ("addExpectedFailure", "is expected to fail"),
            ("addUnexpectedSuccess", "was expected to fail"),
        ):
            setattr(
                result, name, self._wrap_noting(getattr(result, name), self._loss_recorder(why))
            )

    def _record_problem(self, test: unittest.TestCase, *rest: Any) -> None:
        if (error := rest[-1]) is not None:  # of a sub-test that succeeded
            self.problems.append((str(test), error[1]))

    def _loss_recorder(self, why: str) -> Callable[..., object]:
        return lambda test, *_: self.add_loss(f"The test {test} {why}.")

    def _wrap_noting(
        self, method: Callable[..., object], note: Callable[..., object]
    ) -> Callable[..., object]:
        @wraps(method)
        def noted(result: object, *arguments: object) -> object:
            note(*arguments)
            return method(result, *arguments)

        return noted

    def _wrap_counting(self, method: Callable[..., object]) -> Callable[..., object]:
        @wraps(method)
        def counted(*arguments: object, **named: object) -> object:
            before = self.checks
            try:
                returned = method(*arguments, **named)
            except AssertionError as error:
                if error is not self._newest:  # a method that calls another
                    self.record_failure(_running_line(self.file))
                self._newest = error
                raise
            if not hasattr(returned, "__exit__"):  # `with` is not yet left
                self.checks = before + 1
            return returned

        return counted

    def _wrap_comparing(self, method: Callable[..., object]) -> Callable[..., object]:
        @wraps(method)
        def compared(case: object, first: object, second: object, *rest: Any, **named: Any) -> None:
            method(case, first, second, *rest, **named)
            if _equals_anything(first) or _equals_anything(second):
                self.add_loss("What is compared in a test says that it equals anything.")

        return compared

    def _wrap_requiring_text(self, method: Callable[..., object]) -> Callable[..., object]:
        @wraps(method)
        def checked(case: object, value: object, msg: object = None) -> None:
            method(case, value, msg)
            if msg is not None and not isinstance(msg, str):
                self.add_loss(f"{method.__name__} compares nothing with its second argument.")

        return checked

    def _wrap_expecting(self, leave: Callable[..., object]) -> Callable[..., object]:
        @wraps(leave)
        def left(context: object, kind: Any, *rest: object) -> object:
            try:
                answer = leave(context, kind, *rest)
            except AssertionError:
                self.record_failure(_running_line(self.file))
                raise
            if answer or kind is None:
                self.checks += 1
            if answer and kind is not None and issubclass(kind, AssertionError):
                self.forgive_newest()
            return answer

        return left


class ExampleRunner(doctest.DocTestRunner):
    """Runs doctest's examples without a word; those with an expected output count as checks."""

    def __init__(self, recorder: CheckRecorder) -> None:
        super().__init__(verbose=False)
        self._recorder = recorder

    def report_success(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        """Count an example whose output is as expected."""
        if example.want:
            self._recorder.checks += 1

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        """Say nothing: the runner counts it."""

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, error: Any) -> None:
        """Say nothing: the runner counts it."""


class _EqualsItselfOnly:
    """Equals nothing but itself."""


def _equals_anything(value: object) -> bool:
    """Whether a value's own comparison holds with what it can't know."""
    compare = type(value).__eq__
    if not isinstance(compare, FunctionType):
        return False
    try:
        return bool(compare(value, _EqualsItselfOnly()) is not NotImplemented) and bool(
            value == _EqualsItselfOnly()
        )
    except Exception:
        return False


def _handled_error() -> BaseException | None:
    return sys.exception()


def _running_line(file: str) -> int:
    """Return the line of the code in `file` that is being run."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == file:
            return int(frame.f_lineno)
        frame = frame.f_back
    return 0


def _has_checks(function: ast.AST) -> bool:
    """Whether anything is asserted in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Attribute) and node.attr.startswith(("assert", "fail", "raises")):
            return True
    return False


def _place_inside(
    function: ast.FunctionDef | ast.AsyncFunctionDef, place: _StatementPlace
) -> _StatementPlace:
    """Return what holds in a function: only tests must run all that they assert."""
    is_test = function.name.startswith("test")
    is_top = not (place.is_in_class or place.is_in_function)
    runs = is_test or (is_top and function.name.startswith(("run", "main")))
    checks = is_top and function.name.startswith(("check", "verify"))
    return _StatementPlace(must_run=runs or checks, is_test=runs, is_in_function=True)


def _always_runs(statement: ast.stmt) -> bool:
    """Return whether what a statement holds should run in each test that has it."""
    if isinstance(statement, ast.If):
        return isinstance(statement.test, ast.Constant)
    return not isinstance(statement, (*_Try, ast.Match))


def _why_always_true(test: ast.expr) -> str:
    """Return why an assertion can't fail by the way it is written, or ""."""
    match test:
        case ast.Tuple(elts=[_, *_]):
            return "it asserts a pair"
        case ast.List(elts=[_, *_]) | ast.Set() | ast.Dict(keys=[_, *_]):
            return "what it asserts isn't empty"
        case ast.JoinedStr():
            return "it asserts a text"
        case ast.BoolOp(op=ast.Or(), values=values):
            constants = [value.value for value in values if isinstance(value, ast.Constant)]
            return "one of its alternatives always holds" if any(constants) else ""
    return ""


def _catches_failures(statement: ast.Try | ast.TryStar) -> bool:
    """Whether a failed assertion is caught for good by a statement that tries."""
    for handler in statement.handlers:
        named = ast.unparse(handler.type) if handler.type is not None else "BaseException"
        if any(name in named for name in ("AssertionError", "Exception")):
            return not any(isinstance(node, ast.Raise) for node in ast.walk(handler))
    return False


def _protected_functions(others: Iterable[Any]) -> Iterator[tuple[Any, str, object]]:
    """Return the functions that tests are judged with, by where they stand."""
    owners: tuple[Any, ...] = (
        builtins, unittest, unittest.TestCase, unittest.TestResult, unittest.TextTestResult,
        unittest.TextTestRunner, unittest.TestSuite, unittest.TestLoader, unittest.case,
        unittest.suite, unittest.result, mock.NonCallableMock, doctest, doctest.DocTestRunner,
        doctest.OutputChecker, CheckRecorder, *others,
    )  # fmt: skip
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if callable(value) and name != "sortTestMethodsUsing":  # that is often set to None
                yield owner, name, value
    yield os, "_exit", os._exit
    yield os, "write", os.write
