"""The tests in code: which are run, and which of their assertions prove something.

All of it runs inside the sandbox, at the mercy of the code.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import types
import unittest
from asyncio import run as run_async
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


class TestsFailed(Exception):
    """The code's own tests failed; the text says how."""


def run_tests(module: types.ModuleType) -> None:
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


def run_examples(module: types.ModuleType) -> int:
    """Run doctest's examples; return how many had an expected output. Raises TestsFailed."""
    runner, checks = doctest.DocTestRunner(verbose=False), 0
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=lambda text: None)
        checks += sum(bool(e.want) and doctest.SKIP not in e.options for e in test.examples)
    if runner.failures:
        raise TestsFailed(f"{runner.failures} of {runner.tries} examples (doctest) failed.")
    return checks


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
