"""Checks of a text, computed by the real tools in their child process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from baton.core.errors import WorkerError
from baton.core.events import Verdict
from baton.core.judging.checks import Compute, Finding, check_text
from baton.core.judging.claims import claimed_sums
from baton.core.messages import Message, Request, Role, Text
from baton.workers.tools import build_tools, sandbox
from baton.workers.tools.computation.written_expression import judge_line

RIGHT, WRONG, UNCHECKED = Verdict.RIGHT, Verdict.WRONG, Verdict.UNCHECKED

needs_sandbox = pytest.mark.skipif(not sandbox(), reason="nothing is executed here")


@pytest.fixture(scope="module")
def compute() -> Iterator[Compute]:
    tools = build_tools(seconds=1.0)

    async def compute(tool: str, text: str) -> str:
        request = Request((Message(Role.USER, text),))
        return "".join([c.text async for c in tools[tool].stream(request) if isinstance(c, Text)])

    yield compute
    asyncio.run(tools["calculator"].aclose())


async def verdicts(
    text: str, compute: Compute | None, prompt: str = ""
) -> list[tuple[str, Verdict]]:
    return [
        (found.what, found.verdict)
        for found in await check_text(text, prompt, compute, judge if compute else None)
    ]


async def alone(tool: str, text: str) -> str:
    """No tool at all."""
    raise LookupError(tool)


async def judge(claims: Sequence[str]) -> Sequence[str]:
    """The calculator without its thread."""
    return [judge_line(claim) for claim in claims]


def python(code: str) -> str:
    return f"Here it is:\n\n```python\n{code}\n```\n"


GOOD = "def add(a, b):\n    return a + b\n\nassert add(2, 3) == 5"
BAD = GOOD.replace("a + b", "a - b")


@needs_sandbox
@pytest.mark.parametrize(
    ("text", "what", "verdict"),
    [
        (python(GOOD), "Python and its tests", RIGHT),
        (python(BAD), "Python and its tests", WRONG),
        (python("def add(a, b):\n    return a + b"), "Python", RIGHT),
        (python("def add(a, b)\n    return a + b"), "Python", WRONG),
        (python("    return self.x"), "Python", RIGHT),
        (python("%pip install x\nx = 1"), "Python", RIGHT),
        (python(">>> 1 + 1\n2"), "Python and its tests", RIGHT),
        (python(">>> 1 + 1\n3"), "Python and its tests", WRONG),
        (python("def add(a, b):\n    return a + b") + python("assert add(1, 1) == 2"),
         "Python and its tests", RIGHT),
        (python("assert add(1, 1) == 2"), "Python and its tests", UNCHECKED),
        (python("import numpy\nassert numpy"), "Python and its tests", UNCHECKED),
        (python("while True: pass\nassert True"), "Python and its tests", UNCHECKED),
        (python('def f(a):\n    b = "\u2028c"\n    assert a\n    return b'), "Python", RIGHT),
        (python('def f(a):\n    b = "\x85c"\n    assert a\n    return b'), "Python", RIGHT),
        (python("def f(a):\n    assert a\n\x0c\n    return a"), "Python", RIGHT),
        (python("def f():\n    return 1\n  \x0cassert f()"), "Python and its tests", RIGHT),
        (python("def f():\r    return 1\rassert f()"), "Python and its tests", RIGHT),
        (python("assert open('x')"), "Python and its tests", UNCHECKED),
        (python("x = (" * 5000), "Python", WRONG),
        ("```toml\na = 1\n```", "TOML", RIGHT),
        ("```toml\na = \n```", "TOML", WRONG),
        ("```yaml\na: [1, 2]\n```", "YAML", RIGHT),
        ("```yaml\na: [1, 2\n```", "YAML", WRONG),
    ],
)  # fmt: skip
async def test_code_is_run_or_parsed(
    text: str, what: str, verdict: Verdict, compute: Compute
) -> None:
    assert await verdicts(text, compute) == [(what, verdict)]


@needs_sandbox
async def test_a_failed_test_says_why(compute: Compute) -> None:
    (found,) = await check_text(python(BAD), "", compute, judge)
    assert found == Finding("Python and its tests", WRONG, "AssertionError (line 4)")


@needs_sandbox
async def test_tests_may_be_of_code_in_the_prompt(compute: Compute) -> None:
    prompt = "Write a test for\n```python\ndef add(a, b):\n    return a + b\n```"
    assert await verdicts(python("assert add(1, 1) == 2"), compute, prompt) == [
        ("Python and its tests", RIGHT)
    ]


WRONG_ADD = "def add(a, b):\n    return a - b\n\n"
CASE = "import unittest\nclass TestAdd(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n"  # noqa: E501
WAYS_TO_FAIL = {
    "plain assert": "assert add(1, 2) == 3",
    "unittest.main": CASE + "if __name__ == '__main__':\n    unittest.main()",
    "unittest.main in a notebook": CASE + "unittest.main(argv=['x'], exit=False)",
    "unittest.main in a comment": CASE + "# run with unittest.main()",
    "own runner": CASE + "unittest.TextTestRunner().run("
    "unittest.defaultTestLoader.loadTestsFromTestCase(TestAdd))",
    "runner that swallows": CASE + "try:\n    unittest.main()\nexcept SystemExit:\n    print('OK')",
    "subTest": CASE.replace("        self.", "        with self.subTest('a'):\n            self."),
    "async": "async def test_add():\n    assert add(1, 2) == 3",
    "async that waits": "import asyncio\nasync def test_add():\n"
    "    await asyncio.sleep(0)\n    assert add(1, 2) == 3",
    "async TestCase": CASE.replace("TestCase", "IsolatedAsyncioTestCase").replace(
        "    def", "    async def"
    ),
    "asyncio.run": "import asyncio\nasync def main():\n    assert add(1, 2) == 3\n\n\n"
    "def test_main():\n    asyncio.run(main())",
    "main that exits": "import sys\ndef test_add():\n    assert add(1, 2) == 3\n"
    "def main():\n    sys.exit(0)\nmain()",
    "swallowed at once": "try:\n    assert add(1, 2) == 3\n"
    "except AssertionError:\n    print('test failed')",
    "swallowed by a bare except": "try:\n    assert add(1, 2) == 3\nexcept:\n    pass\nassert 1",
    "swallowed in a loop": "for case in [(1, 2, 3), (1, 0, 1)]:\n    try:\n"
    "        assert add(*case[:2]) == case[2]\n    except Exception as error:\n"
    "        print('FAIL', error)",
    "pytest's class": "class TestAdd:\n    def test_add(self):\n        assert add(1, 2) == 3",
    "pytest's class with setup": "class TestAdd:\n    def setup_method(self):\n        self.x = 1\n"
    "    def test_add(self):\n        assert add(self.x, 2) == 3",
    "runner of its own": "def test_add():\n    assert add(1, 2) == 3\ntry:\n    test_add()\n"
    "except AssertionError:\n    print('failed')",
    "after another statement": "x = 1; assert add(x, 2) == 3",
    "assertRaises swallowed": CASE.replace(
        "        self.",
        "        try:\n            with self.assertRaises(TypeError):\n"
        "                add(1, None if add(1, 2) == 3 else 1)\n"
        "        except AssertionError:\n            pass\n        self.",
    ),
    "doctest": "def f():\n    '''\n    >>> add(1, 2)\n    3\n    '''",
    "printed as JSON's schema": "print('unusable')\nassert add(1, 2) == 3",
    "test in a subclass": CASE + "class TestMore(TestAdd):\n    pass",
    "setUp fails": CASE + "    def setUp(self):\n        raise ValueError('no')",
    "unittest.main replaced": "import unittest\nunittest.main = lambda: None\n"
    + CASE
    + "unittest.main()\nassert add(0, 0) == 0",
    "end forged in a line": "import os\nos.write(2, '\\nno\\u2028Passed: 9 checks.'.encode())\n"
    "os._exit(1)\nassert add(1, 2) == 3",
}
FAIRLY_WRITTEN = len(WAYS_TO_FAIL) - 3
"""All but the last three pass where the code is right."""
WAYS_NOT_TO_TEST = {
    "a function": "def holds():\n    return add(1, 2) == 3\nassert holds",
    "a lambda": "assert (lambda: add(1, 2) == 3)",
    "a generator expression": "assert (add(1, 2) == 3 for _ in range(1))",
    "a coroutine": "async def holds():\n    return add(1, 2) == 3\n"
    "held = holds()\nassert held\nheld.close()",
    "a parameter": "def test_add(a):\n    assert add(1, 2) == 3",
    "a generator": "def test_add():\n    yield\n    assert add(1, 2) == 3",
    "exit before": "exit()\nassert add(1, 2) == 3",
    "raise SystemExit before": "raise SystemExit\nassert add(1, 2) == 3",
    "os._exit before": "import os\nos._exit(0)\nassert add(1, 2) == 3",
    "os._exit in the code": "import os\nadd = lambda a, b: os._exit(0)\nassert add(1, 2) == 3",
    "os._exit with a forged end": "import os\nos.write(2, b'\\nPassed: 3 checks.')\n"
    "os._exit(0)\nassert add(1, 2) == 3",
    "exit at the end": "import atexit, os\natexit.register(os._exit, 0)\nimport sys\n"
    "sys.exit(0)\nassert add(1, 2) == 3",
    "pytest": "import pytest\ndef test_add():\n    assert add(1, 2) == 3\npytest.main()",
    "swallowed by a caller": "def check():\n    assert add(1, 2) == 3\n"
    "def run():\n    try:\n        check()\n    except AssertionError:\n        print('failed')\n"
    "run()\nassert add(0, 0) == 0",
    "suppressed": "import contextlib\nwith contextlib.suppress(AssertionError):\n"
    "    assert add(1, 2) == 3\nassert add(0, 0) == 0",
    "skip": CASE.replace("    def", "    @unittest.skip('later')\n    def"),
    "one of two skipped": CASE.replace("    def", "    @unittest.skip('later')\n    def")
    + "    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)",
    "skipped by hand": "import unittest\ndef test_add():\n    raise unittest.SkipTest('later')\n"
    "    assert add(1, 2) == 3",
    "expectedFailure": CASE.replace("    def", "    @unittest.expectedFailure\n    def"),
    "if False": "if False:\n    def test_add():\n        assert add(1, 2) == 3\nassert True",
    "if not __debug__": "if not __debug__:\n    assert add(1, 2) == 3\ndef test(): pass",
    "nested": "def tests():\n    def test_add():\n        assert add(1, 2) == 3\n"
    "assert add(0, 0) == 0",
    "no test called": "def test_add():\n    return add(1, 2) == 3",
    "an empty test": "def test_add():\n    pass",
    "a pair": "assert (add(1, 2) == 3, 'wrong')",
    "a pair and more": "assert (add(1, 2) == 3, 'wrong')\nassert add(0, 0) == 0",
    "a constant": "add(1, 2)\nassert True",
    "recursion swallowed": "def deep():\n    try:\n        deep()\n    except RecursionError:\n"
    "        raise SystemExit\ndeep()\nassert add(1, 2) == 3",
    "a thread": "import threading\ndef test_add():\n    assert add(1, 2) == 3\n"
    "threading.Thread(target=test_add).start()",
    "a file, handled": "def save(text):\n    try:\n        open('x', 'w').write(text)\n"
    "        return True\n    except OSError:\n        return False\nassert save('a')",
    "a path that can't be seen": "import os\nassert os.path.isdir('/')",
    "a thread, handled": "import threading\ndone = []\ntry:\n"
    "    threading.Thread(target=lambda: done.append(1)).start()\n"
    "except RuntimeError:\n    pass\nassert done",
    "a temporary file": "import tempfile\nwith tempfile.TemporaryFile() as file:\n    assert file",
    "an encoding that isn't there": "assert '\u3042'.encode('shift_jis')",
    "a program": "import os\nassert os.system('true') == 0",
    "a list": "assert [add(1, 2) == 3]\nassert add(0, 0) == 0",
    "a dict": "assert {'same': add(1, 2) == 3}\nassert add(0, 0) == 0",
    "a set": "assert {add(1, 2) == 3}\nassert add(0, 0) == 0",
    "a text": "assert f'{add(1, 2) == 3}'\nassert add(0, 0) == 0",
    "a method of a text": "assert str(add(1, 2)).isdigit",
    "a class": "class Same:\n    def __init__(self): self.same = add(1, 2) == 3\nassert Same",
    "a map": "assert map(lambda x: add(*x) == 3, [(1, 2)])",
    "a filter": "assert filter(None, [add(1, 2) == 3])",
    "a zip": "assert zip([add(1, 2)], [3])",
    "a partial": "from functools import partial\nassert partial(lambda: add(1, 2) == 3)",
    "an asynchronous generator": "async def same():\n    yield add(1, 2) == 3\nassert same()",
    "checks that are never called": "def check_add():\n    assert add(1, 2) == 3\n"
    "assert add(0, 0) == 0",
    "checks that are never awaited": "async def run_tests():\n    assert add(1, 2) == 3\n"
    "run_tests()\nassert add(0, 0) == 0",
    "after the end of a test": "def test_add():\n    assert add(0, 0) == 0\n    return\n"
    "    assert add(1, 2) == 3",
    "a loop over nothing in a test": "def test_add():\n    assert add(0, 0) == 0\n"
    "    for a, b, c in []:\n        assert add(a, b) == c",
    "a file in a TestCase": CASE.replace("self.assertEqual", "open('x'); self.assertEqual"),
    "doctest of nothing": "def f():\n    '''\n    >>> add(1, 2)  # doctest: +SKIP\n    3\n    '''",
}  # fmt: skip


@needs_sandbox
@pytest.mark.parametrize("way", WAYS_TO_FAIL)
async def test_a_failing_test_is_found_however_it_is_written(way: str, compute: Compute) -> None:
    text = python(WRONG_ADD + WAYS_TO_FAIL[way])
    assert await verdicts(text, compute) == [("Python and its tests", WRONG)]


@needs_sandbox
@pytest.mark.parametrize("way", WAYS_NOT_TO_TEST)
async def test_a_test_that_did_not_run_is_not_passed(way: str, compute: Compute) -> None:
    text = python(WRONG_ADD + WAYS_NOT_TO_TEST[way])
    assert await verdicts(text, compute) == [("Python and its tests", UNCHECKED)]


RIGHT_ADD = "def add(a, b):\n    return a + b\n\n"
HONEST = {
    "assertRaises": "import unittest\ndef root(x):\n    assert x >= 0\n    return x ** 0.5\n"
    "class T(unittest.TestCase):\n    def test_root(self):\n"
    "        with self.assertRaises(AssertionError):\n            root(-1)\n"
    "        self.assertEqual(root(4), 2)",
    "should raise": "def test_add():\n    try:\n        add(1, None)\n"
    "        assert False, 'it must refuse'\n    except TypeError as error:\n        assert error",
    "an __eq__ of its own": "class Point:\n    def __init__(self, x): self.x = x\n"
    "    def __eq__(self, other): return isinstance(other, Point) and self.x == other.x\n"
    "assert Point(1) == Point(1)\nassert Point(1) != Point(2)",
    "an __eq__ that trusts": "class Point:\n    def __init__(self, x): self.x = x\n"
    "    def __eq__(self, other): return self.x == other.x\nassert Point(1) == Point(1)",
    "a mock": "from unittest import mock\ndef test_add():\n    f = mock.Mock()\n    f(1)\n"
    "    f.assert_called_once_with(1)",
    "patched for a while": "import builtins\nfrom unittest import mock\ndef test_add():\n"
    "    with mock.patch('builtins.print') as printed:\n        print(1)\n"
    "    assert printed.called",
    "a decorator with cases": "import functools\ndef cases(*all):\n    def decorate(f):\n"
    "        @functools.wraps(f)\n        def inner():\n            for one in all: f(*one)\n"
    "        return inner\n    return decorate\n@cases((1, 2, 3), (2, 2, 4))\n"
    "def test_add(a, b, c):\n    assert add(a, b) == c",
    "a patch as decorator": "from unittest.mock import patch\n@patch('builtins.print')\n"
    "def test_print(printed):\n    print(add(1, 2))\n    printed.assert_called_once_with(3)",
    "future": "'''About.'''\nfrom __future__ import annotations\ndef test_add():\n"
    "    '''Add.'''\n    global seen\n    seen = max(1, 3)\n    assert seen == 3",
    "main that exits": "import sys\ndef test_add():\n    assert add(1, 2) == 3\n"
    "def main():\n    test_add()\n    sys.exit(0)\nif __name__ == '__main__':\n    main()",
    "called with parameters": "def test_add(a, b, c):\n    assert add(a, b) == c\n"
    "test_add(1, 2, 3)",
    "one branch of a test": "def test_add():\n    if add(1, 2) == 3:\n"
    "        assert add(0, 0) == 0\n"
    "    else:\n        assert add(1, 2) == 3",
    "one who raises": "def test_add():\n    try:\n        sum_ = add(1, None)\n"
    "        assert sum_ is None\n    except TypeError:\n        pass\n    assert add(1, 2) == 3",
    "a method of the code": "class Engine:\n    def run(self):\n        assert False\n"
    "    def check(self):\n        assert self\nassert add(1, 2) == 3",
    "a message": CASE.replace("assertEqual(add(1, 2), 3)", "assertTrue(add(1, 2) == 3, 'sum')"),
    "warnings and logs": "import logging, unittest, warnings\nclass T(unittest.TestCase):\n"
    "    def test_warns(self):\n        with self.assertWarns(UserWarning):\n"
    "            warnings.warn('x')\n"
    "    def test_logs(self):\n        with self.assertLogs():\n"
    "            logging.warning('x')",
    "encodings": "import codecs\nassert codecs.encode('a', 'rot13') == 'n'\n"
    "assert 'b\u00fccher'.encode('idna') and 'a'.encode('utf-16-le') == b'a\\0'",
    "a method that is async": "import unittest\nclass T(unittest.IsolatedAsyncioTestCase):\n"
    "    async def test_add(self):\n        self.assertEqual(add(1, 2), 3)",
    "an assertion handled in the code": "def valid(x):\n    try:\n        assert x > 0\n"
    "    except AssertionError:\n        return False\n    return True\nassert not valid(-1)",
    "a failure that is expected": "def root(x):\n    assert x >= 0\n    return x ** 0.5\n"
    "def test_root():\n    try:\n        root(-1)\n    except AssertionError as error:\n"
    "        assert error",
}


@needs_sandbox
@pytest.mark.parametrize("way", [*list(WAYS_TO_FAIL)[:FAIRLY_WRITTEN], *HONEST])
async def test_a_test_that_ran_is_passed(way: str, compute: Compute) -> None:
    code = {**WAYS_TO_FAIL, **HONEST}[way]
    text = python(code if way == "future" else RIGHT_ADD + code)
    assert await verdicts(text, compute) == [("Python and its tests", RIGHT)]


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


@needs_sandbox
@pytest.mark.parametrize(
    ("value", "schema", "what", "verdict"),
    [
        ({"name": "Ada", "age": 36}, SCHEMA, "JSON and its schema", RIGHT),
        ({"name": "Ada", "age": "old"}, SCHEMA, "JSON and its schema", WRONG),
        ({"age": 3}, SCHEMA, "JSON and its schema", WRONG),
        ({"a": 1}, {"type": "invalid", "$schema": "x"}, "JSON", RIGHT),
        ({"a": 1}, {"$schema": "x", "$ref": "http://127.0.0.1:9/x"}, "JSON", RIGHT),
        ("a" * 40 + "b", {"type": "string", "pattern": "(a+)+$"}, "JSON and its schema", UNCHECKED),
    ],
)
async def test_json_is_held_against_the_prompts_schema(
    value: object, schema: object, what: str, verdict: Verdict, compute: Compute
) -> None:
    for prompt in (
        f"Answer as {json.dumps(schema)}.",
        f"```json\n{json.dumps(schema, indent=1)}\n```",
    ):
        text = f"```json\n{json.dumps(value)}\n```"
        assert await verdicts(text, compute, prompt) == [(what, verdict)]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('```json\n{"a": [1, 2]}\n```', RIGHT),
        ('{"a": [1, 2]}', RIGHT),
        ('```json\n{"a": [1, 2}\n```', WRONG),
        ("```json\n{'a': 1}\n```", WRONG),
        ('```json\n{"a": NaN}\n```', WRONG),
        (f"```json\n{'[' * 100_000}\n```", UNCHECKED),
        (f"```json\n{'9' * 50_000}\n```", UNCHECKED),
    ],
)
async def test_json_is_parsed_even_without_tools(text: str, verdict: Verdict) -> None:
    assert await verdicts(text, None) == [("JSON", verdict)]


async def test_what_cant_be_checked_is_said_once() -> None:
    assert await verdicts("The sea is blue.", alone) == [("text", UNCHECKED)]
    assert await verdicts("", None) == [("text", UNCHECKED)]
    (found,) = await check_text("```js\nlet x\n```\n```rust\nfn f() {}\n```", "", alone, judge)
    assert found == Finding("code", UNCHECKED, "There is no parser here for js, rust.")


async def test_without_tools_nothing_is_executed() -> None:
    text = python(GOOD) + "\n17 + 25 = 42"
    for compute in (None, alone):
        found = dict(await verdicts(text, compute))
        assert found["Python and its tests"] is UNCHECKED


async def test_a_tool_that_fails_is_not_a_verdict() -> None:
    async def broken(tool: str, text: str) -> str:
        raise WorkerError(f"The {tool} crashed.")

    async def broken_judge(claims: Sequence[str]) -> Sequence[str]:
        raise WorkerError("The calculator crashed.")

    text = python(GOOD) + "\n17 + 25 = 43"
    found = await check_text(text, "", broken, broken_judge)
    assert [each.verdict for each in found] == [UNCHECKED, UNCHECKED]


@pytest.mark.parametrize(
    "text",
    [
        "17 + 25 = 43",
        "So we get 17 + 25 = 43 apples.",
        "**17 + 25 = 43**",
        "1. First, 12 \u00d7 12 = 142.",
        "The total is $19.99 * 3 = $49.97.",
        "Therefore $12 \\times 12 = 142$",
        "(12 + 8) / 4 = 6",
        "100 / 8 = 12.4",
        "10 - 3 = 7 and 7 - 9 = 2",
        "x = 3 + 4 = 8",
        "15% * 80 = 13",
        "7 * 8 = 54, so it is 54.",
        "1,234 + 1 = 1,236",
        "(12 / 20) x 100 = 55%.",
        "She sells 16 - 3 - 4 = 8 eggs.",
        "so 9 * $2 = $19 every day",
    ],
)
async def test_a_wrong_sum_is_found(text: str) -> None:
    assert ("sums", WRONG) in await verdicts(text, alone)


async def test_a_wrong_sum_says_what_it_is() -> None:
    (found,) = await check_text("Well, 17 + 25 = 43.", "", alone, judge)
    assert found.note == "17 + 25 = 43, but 17 + 25 = 42"


@pytest.mark.parametrize(
    "text",
    [
        "17 + 25 = 42",
        "2/3 = 0.67, or 2/3 = 0.66",
        "100 / 3 = 33",
        "17 / 5 = 3 remainder 2",
        "10 / 4 = 2 R 2",
        "200 + 10% = 220",
        "30 / 120 = 25%",
        "30 / 120 * 100 = 25%",
        "3 + 4 = 7 + 1 = 8",
        "2x + 3 = 7",
        "2x + 3 + 4 = 7",
        "x - 3 + 4 = 9",
        "x + y = 3 + 4 = 7",
        "f(3) + 2 = 5",
        "1 1/2 + 1/2 = 2",
        "4/3 = 1 1/3",
        "Read chapters 3-4 = 20 pages.",
        "2024-01-15 - 2024-01-10 = 5 days",
        "12:30 + 0:45 = 13:15",
        "11 + 3 = 2 o'clock",
        "7 + 8 = 3 (mod 12)",
        "It is not true that 2 + 2 = 5.",
        "If 1 + 1 = 3, then pigs fly.",
        "1 + 1 = 10 in binary",
        "5 * 1000 = 5 thousand",
        "8 * 30 minutes = 4 hours",
        "8 * 30 = 4 hours",
        "5 * 12 = 60 inches = 5 feet",
        "half of 10 + 2 = 7",
        "- 3 + 2 = -1",
        "- 3 + 2 = 5",
        "1) 3 + 2 = 5",
        "The total is 5. 3 + 2 = 5",
        "Then 5, 3 + 2 = 5",
        "1234567 * 1000 = 1.23 \u00d7 10^9",
        "1234 * 5678 \u2248 7,000,000",
        "2 ** 3 = 8 and **2 + 3** = 5",
        "\\frac{1}{2} + 3 = 3.5",
        "\\frac{x}{2} + 3 = 9",
        "\u221a 9 + 7 = 10",
        "sin 3 + 2 = 2.14",
        "a3 + 2 = 9",
        "5 - 3 != 3",
        "assert 3 + 4 == 8",
        "y >= 3 + 4 = 9",
        "Version 2.1 - 3 = beta",
        "1.5 + 1,5 = 3",
        "1 234 + 1 = 1 235",
        "$5 + $3 = $8",
        "5 + 3 = 8,000 grams",
        "10:30 - 9 = 1.5",
        "(3 + 2) = 5 (five)",
        "3 + 2 = 5 (3+2)",
        "3 \u2212 5 = \u22122",
        "6 x 7 = 42",
        "0.1 + 0.2 = 0.3...",
        "2 + 2 = 5 is wrong",
        "|3 - 5| = 2",
        "5! + 1 = 121",
        "10^-3 * 5 = 0.005",
        "a_1 + 2 = 4",
        "24/7 = always",
        "3/4 = 18/24",
        "Odds of 1/2 = 2 to 1",
        "20 + 22 = forty-two",
        "9 = 3 * 3",
        "20% of 20 students = 0.20 * 20 = 4 students",
        "200 / 100 \\* 40 = 80",
        "8 x $5 x 60% = $24",
        "60 (first month) + 180 (second month) + 126 (third) = 366 downloads",
        "5 hours * $12/hour = $60",
        "since 4 - 2 - 0.5 = 1.5, fine",
        "Perimeter = 2(5 + 3) = 16",
        "3x - 2 + 5 = 8",
        "Step 2 - 5 + 3 = 8",
        "Item 1 \u2013 3 \u00d7 4 = 12",
        "1 + 2 + ... + 10 = 55",
        "9 + 3 = 12:00",
        "8 + 5 = 1 p.m.",
        "1.000 + 500 = 1.500",
        "1,234 - 0,234 = 1",
        "1,00,000 + 1 = 1,00,001",
        "In boolean algebra 1 + 1 = 1",
        "Is 3 + 4 = 8?",
        "Try x = 2: 2 + 3 = 7 fails",
        "12/25 - 12/20 = 5",
        "5 squared + 3 = 28",
        "x\u00b2 - 4 = 0",
        "\u00bd + \u00bd = 1",
        "25% of 80 + 10 = 30",
        "(20 - 4) / 20 * 100 = 80%",
        "2,400 \u00f7 12 = 200 per month",
    ],
)
async def test_a_true_statement_is_never_called_wrong(text: str) -> None:
    for shown in (text, f"So {text}", f"We know: {text}.", f"- {text}", f"**{text}**"):
        for found in await check_text(shown, "", alone, judge):
            assert found.verdict is not WRONG, (shown, found)


NUMBERS = st.one_of(
    st.integers(0, 10**6).map(Decimal),
    st.decimals(0, 10**5, places=2, allow_nan=False, allow_infinity=False),
)
SIGNS = {
    "+": ("+", " + ", " plus "),
    "-": (" - ", " \u2212 ", "-"),
    "*": ("*", " * ", " \u00d7 ", " x ", " \\times "),
    "/": ("/", " / ", " \u00f7 "),
}
FRAMES = (
    "{}", "So {}.", "**{}**", "- {}", "1. {}", "We get {} apples.", "Total: {}", "({})", "${}$",
    "First {}, then more.", "\\[ {} \\]", "| {} |", "{}!", "> {}", "`{}`", "x = {}",
)  # fmt: skip


@st.composite
def true_sums(draw: st.DrawFn) -> str:
    """A true sum, as people and models write it: rounded, grouped, in some frame."""
    count = draw(st.integers(2, 4))
    numbers = [draw(NUMBERS) for _ in range(count)]
    signs = [draw(st.sampled_from("+-*/")) for _ in range(count - 1)]
    value, written = Fraction(numbers[0]), ""
    terms = [Fraction(numbers[0])]
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign == "/" and not number:
            return "1 + 1 = 2"
        if sign in "*/":
            terms[-1] = (
                terms[-1] * Fraction(number) if sign == "*" else terms[-1] / Fraction(number)
            )
        else:
            terms.append(Fraction(number) if sign == "+" else -Fraction(number))
    value = sum(terms, Fraction(0))
    grouped = draw(st.booleans())

    def show(number: Decimal) -> str:
        return f"{number:,f}" if grouped else f"{number:f}"

    written = show(numbers[0])
    for sign, number in zip(signs, numbers[1:], strict=True):
        written += draw(st.sampled_from(SIGNS[sign])) + show(number)
    places = draw(st.integers(0, 6))
    rounding = draw(st.sampled_from([ROUND_HALF_EVEN, ROUND_DOWN]))
    if value.denominator == 1:
        result = show(Decimal(value.numerator))
    else:
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        result = show(exact.quantize(Decimal(1).scaleb(-places), rounding=rounding))
    equals = draw(st.sampled_from([" = ", "=", " \u2248 "]))
    return draw(st.sampled_from(FRAMES)).format(f"{written}{equals}{result}")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(true_sums())
def test_no_true_sum_is_called_wrong(text: str) -> None:
    assert_not_called_wrong(text)


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=5_000, deadline=None)
@given(true_sums())
def test_no_true_sum_of_many_is_called_wrong(text: str) -> None:
    assert_not_called_wrong(text)


def assert_not_called_wrong(text: str) -> None:
    for found in asyncio.run(check_text(text, "", alone, judge)):
        assert found.verdict is not WRONG, (text, found)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 1000))
def test_every_plain_wrong_sum_is_found(a: int, b: int, off: int) -> None:
    (found,) = asyncio.run(check_text(f"The answer: {a} + {b} = {a + b + off}.", "", alone, judge))
    assert found.verdict is WRONG


@given(st.text(max_size=200))
def test_no_text_breaks_a_check(text: str) -> None:
    assert asyncio.run(check_text(text, text, alone, judge))


@pytest.mark.parametrize(
    "text",
    [
        "1 + " * 50_000 + "1 = 2",
        "1+1=" * 50_000,
        "1 + 1 = 2\n" * 50_000,
        "```python\n" * 50_000,
        "{" * 100_000,
        '{"a":' * 20_000,
        "`" * 100_000,
        "\n".join(["```json", '{"a": 1}', "```"] * 5_000),
        " " * 100_000 + "= 5",
        ("(" * 70 + "=") * 1000,
    ],
)
async def test_a_huge_text_is_checked_in_bounded_work(text: str) -> None:
    async with asyncio.timeout(20):
        assert len(await check_text(text, text, alone, judge)) < 50


def test_only_so_many_sums_are_taken() -> None:
    assert len(claimed_sums("1 + 1 = 2\n" * 1000)) == 40


async def test_what_the_prompt_claims_is_a_puzzle_not_a_mistake() -> None:
    prompt = "Given 5 + 3 = 28 and 9 + 1 = 810, what is 8 + 6?"
    assert await verdicts("They wrote: 5 + 3 = 28.", alone, prompt) == [("text", UNCHECKED)]
    assert await verdicts("They wrote: 5 + 3 = 29.", alone, prompt) == [("sums", WRONG)]
