"""Inside the jail: confine this process for good, then run the code and its tests.

What runs here is at the code's mercy, and so is what it reports: nothing but text comes out.
"""

from __future__ import annotations

import doctest
import io
import linecache
import math
import os
import re
import struct
import sys
import traceback
import types
import unittest
from importlib.machinery import BuiltinImporter, FrozenImporter
from inspect import signature
from typing import Any, NoReturn

from baton.children import sandbox

NAME = "code.py"
PASSED, FAILED, NOT_HERE = 0, 1, 3

_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Failure)\b.*", re.MULTILINE)


class _Wrong(Exception):
    """The code's own tests failed; the text says how."""


def run(source: int, out: int, err: int) -> NoReturn:
    """Run the code in a file, with what it prints going to `out` and the last word to `err`."""
    with os.fdopen(source, "rb") as file:
        (seconds,) = struct.unpack("d", file.read(8))
        code = file.read().decode("utf-8")
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(0)
    os.closerange(3, 65536)
    sys.stdin = io.StringIO()
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.stderr = io.StringIO()
    os.environ.clear()
    # Files can't be read in here, so no module is looked for in them: a missing one is missing.
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]
    try:
        sandbox.confine(math.ceil(seconds) + 1)
    except OSError as error:
        _leave(NOT_HERE, f"The sandbox does not work on this machine: {error.strerror}.")
    _leave(*_outcome(code))


def _leave(status: int, words: str) -> NoReturn:
    try:
        sys.stdout.flush()
    finally:
        os.write(2, b"\n" + " ".join(words.split())[:500].encode("utf-8", "replace"))
        os._exit(status)


def _outcome(code: str) -> tuple[int, str]:
    """Run the code, then its tests; return how it ended."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    try:
        try:
            exec(compile(code, NAME, "exec", dont_inherit=True), module.__dict__)
        except SystemExit as end:
            if end.code not in (None, 0, False):
                raise _Wrong(_last_error() or f"SystemExit: {end.code}") from end
        else:
            _test(module, code)
    except _Wrong as error:
        return FAILED, str(error)
    except BaseException as error:
        return _judged(error)
    return PASSED, ""


def _judged(error: BaseException) -> tuple[int, str]:
    """Tell an error of the code's from what can't be done in here."""
    match error:
        case ModuleNotFoundError():
            return NOT_HERE, f"There is no module {error.name!r} in the sandbox."
        case PermissionError():
            return NOT_HERE, "The code does something that the sandbox doesn't allow."
        case MemoryError():
            return NOT_HERE, "The code needs more memory than the sandbox has."
        case EOFError():
            return NOT_HERE, "The code waits for somebody to type something."
        case RuntimeError() if "new thread" in str(error):
            return NOT_HERE, "The code starts threads, which the sandbox doesn't allow."
    words = traceback.format_exception_only(error)[-1].strip()
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == NAME]
    return FAILED, f"{words} (line {lines[-1]})" if lines else words


def _test(module: types.ModuleType, code: str) -> None:
    """Run the tests that the code has, but doesn't run itself. Raises what they raise."""
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    if tests.countTestCases() and "unittest.main(" not in code:
        result = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
        if broken := [*result.errors, *result.failures]:
            raise _Wrong(f"{broken[0][0]}: {_last_error(broken[0][1])}")
    for name, test in list(vars(module).items()):
        if name.startswith("test") and isinstance(test, types.FunctionType) and _is_plain(test):
            test()
    if ">>>" in code:
        results = doctest.testmod(module, report=False)
        if results.failed:
            raise _Wrong(f"{results.failed} of {results.attempted} examples (doctest) failed.")


def _is_plain(test: types.FunctionType) -> bool:
    return not any(p.default is p.empty for p in signature(test).parameters.values())


def _last_error(text: str = "") -> str:
    """Return the last line that names an error, of a text or of what was printed as errors."""
    printed: Any = sys.stderr
    if not text and isinstance(printed, io.StringIO):
        text = printed.getvalue()
    found = _ERROR.findall(text)
    return found[-1] if found else ""
