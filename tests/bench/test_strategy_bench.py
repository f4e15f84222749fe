"""A bench runs questions like any prompt, grades what comes out, and stops where money does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from baton.bench.graded_questions import Question
from baton.bench.strategy_bench import (
    Grade,
    QuestionResult,
    ResultsFile,
    StrategyRow,
    code_executor,
    grader,
    run_questions,
)
from baton.core.errors import (
    BudgetExceeded,
    ConfigError,
    SecretMissing,
    WorkerError,
    WorkerUnavailable,
)
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, Usage
from baton.core.money import NANO, Price, Rates
from baton.core.permissions import PromptLimits, RunTerms
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.history import Store
from baton.money import Ledger
from baton.workers.scripted_worker import Script, ScriptedWorker
from baton.workers.tools import ToolWorker, sandbox
from baton.workers.tools.worker import PYTHON as PYTHON_TOOL, Toolbox

SINGLE = PromptLimits(strategy="single", attended=False)
PRICE = Price(Rates(NANO, NANO, NANO, NANO))
HERE = Card("here", "scripted", "here", context=4096)
FAR = Card(
    "far", "cloud", "far", Label.CLOUD, 4096, max_output=300, price=PRICE, provider="x", remote=True
)
SIX = Question("six", "What is six?", "6", "number")

Make = Callable[..., Orchestra]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    """Give what makes an orchestra of one scripted worker, with as much money as it likes."""
    store, ledger = Store(None), Ledger(None)

    def made(script: Script, card: Card = HERE) -> Orchestra:
        worker = ScriptedWorker(script, card)
        terms = RunTerms({Scope.DAY: 1000 * NANO}, Policy.BUDGET)
        return Orchestra(Services({card.id: worker}, store, ledger=ledger), card.id, terms)

    yield made
    await ledger.aclose()
    await store.aclose()


def says(*items: Chunk | BaseException | str) -> Script:
    return lambda request: [Text(item) if isinstance(item, str) else item for item in items]


def costs(tokens: int) -> Script:
    def script(request: Request) -> Iterable[Chunk]:
        return [RequestSent("x", 10), Text("6"), Usage(tokens, 1, Finish.STOP)]

    return script


async def run_one(orchestra: Orchestra, question: Question, grade: Grade) -> QuestionResult:
    return await anext(run_questions(orchestra, [question], SINGLE, grade))


async def test_a_question_is_executed_and_graded(make: Make) -> None:
    usage = Usage(5, 3, Finish.STOP)
    right = await run_one(make(says("It is 6.", usage)), SIX, grader())
    assert (right.score, right.calls, right.outside) == (1.0, 1, 0)
    assert (right.tokens_in, right.tokens_out, right.cost) == (5, 3, 0)
    wrong = await run_one(make(says("It is 7.")), SIX, grader())
    assert wrong.score == 0.0


async def test_a_run_that_fails_is_wrong_and_says_why(make: Make) -> None:
    executed = await run_one(make(says(WorkerError("It broke."))), SIX, grader())
    assert executed.score == 0.0
    assert "It broke." in executed.note


async def test_code_counts_only_where_its_tests_pass_in_a_sandbox(make: Make) -> None:
    asked = Question("f", "Write f.", kind="python", tests="assert f() == 1")
    orchestra = make(says("```python\ndef f(): return 1\n```"))

    async def execute(code: str, tests: str) -> str:
        space: dict[str, object] = {}
        exec(code, space)
        exec(tests, space)
        return "1\nPassed: 1 check."

    async def refuse(code: str, tests: str) -> str:
        raise WorkerError("It took too long.")

    async def break_down(code: str, tests: str) -> str:
        raise WorkerUnavailable("The tools crashed.")

    async def ignore(code: str, tests: str) -> str:
        return "Passed: 1 check.\nFinished."

    async def score(grade: Grade) -> QuestionResult:
        return await run_one(orchestra, asked, grade)

    assert (await score(grader(execute))).score == 1.0
    assert (await score(grader(refuse))).score == 0.0
    assert (await score(grader(ignore))).score == 0.0
    assert (await score(grader(break_down))).score is None
    ungraded = await score(grader())
    assert ungraded.score is None
    assert "not graded" in ungraded.note
    assert StrategyRow("x", [ungraded]).graded == []


HONEST = "def add(a, b): return a + b"
TESTS = {
    "assert": "assert add(1, 2) == 3",
    "all": "assert all(abs(add(n, 2) - (n + 2)) < 1e-6 for n in range(3))",
    "function": "def test_add():\n    assert add(1, 2) == 3",
    "check": "def check(candidate):\n    assert candidate(1, 2) == 3\ncheck(add)",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_add(self):\n"
    "        self.assertEqual(add(1, 2), 3)\nunittest.main()",
}
SEARCH = """
import gc, os, re, sys
def search(todo):
    gc.unfreeze()
    todo += gc.get_objects()
    seen = {id(todo)}
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (str, bytes)):
            word = one.encode('utf-8', 'replace') if isinstance(one, str) else one
            if re.fullmatch(rb'[0-9a-f]{32}', word):
                os.write(2, b'\\nPassed: 1 check.\\n' + word)
                os._exit(0)
        else:
            todo += gc.get_referents(one)
"""
FALSE_VERDICTS = {
    "wrong": "",
    "constants": "import sys\nfor c in sys._getframe().f_code.co_consts: print(c)",
    "lines": "import linecache\nfor n in linecache.cache.values(): print(*n[2])",
    "lines of the tests": "import linecache, re\ndef add(a, b):\n"
    "    seen = ''.join(linecache.getlines('tests.py'))\n"
    "    return int(re.search(r'(?:== |, )(\\d)\\)?$', seen, re.M)[1])",
    "frames": "import sys\nf = sys._getframe()\nwhile f:\n    print(f.f_locals)\n    f = f.f_back",
    "frames, called": "def add(a, b):\n    import sys\n    f = sys._getframe()\n    while f:\n"
    "        for v in list(f.f_locals.values()):\n"
    "            if callable(v) and v is not add:\n"
    "                try: v(0, 'Passed: 1 check.')\n                except Exception: pass\n"
    "        f = f.f_back\n    return a - b",
    "garbage": SEARCH + "search(gc.get_objects())",
    "garbage, called": SEARCH + "def add(a, b):\n    f, todo = sys._getframe(), gc.get_objects()\n"
    "    while f:\n        todo += [f, f.f_code, *f.f_locals.values()]\n        f = f.f_back\n"
    "    search(todo)\n    return a - b",
    "printed": "import os\nprint('Passed: 1 check.', flush=True)\nos._exit(0)",
    "written": "import os\nos.write(2, b'\\nPassed: 1 check.\\n')\nos._exit(0)",
    "written as the end": "import os\ndef add(a, b):\n    os.write(2, b'\\nPassed: 1 check.')\n"
    "    os._exit(0)",
    "exit": "raise SystemExit",
    "exit when called": "def add(a, b): raise SystemExit",
    "_exit when called": "import os\ndef add(a, b): os._exit(0)",
    "print": "import builtins\nbuiltins.print = lambda *a: None\nbuiltins.AssertionError = int",
    "builtins when called": "def add(a, b):\n    import builtins\n    builtins.abs = lambda x: 0\n"
    "    builtins.all = lambda x: True\n    return a - b",
    "the jail": "import sys\nj = sys.modules['baton.workers.tools.child.sandbox_guest']\n"
    "j._classify_error = lambda e: (0, 'Passed: 1 check.')\nraise ValueError",
    "the jail when called": "def add(a, b):\n    import sys\n"
    "    j = sys.modules['baton.workers.tools.child.sandbox_guest']\n"
    "    j._classify_error = j._run_to_outcome = lambda *e: (0, 'Passed: 1 check.')\n"
    "    raise ValueError",
    "tracing": "import sys\ndef trace(frame, event, arg):\n"
    "    if frame.f_code.co_filename == 'tests.py' and event == 'line':\n"
    "        try: frame.f_lineno += 1\n        except ValueError: pass\n    return trace\n"
    "sys.settrace(trace)",
    "tests of its own": "assert True\ndef test_x(): assert 1 == 1",
    "a block of tests": "x = 1\n```\n\n```python-tests\nassert 1 == 1",
}


@pytest.fixture(scope="module")
def toolbox() -> Iterator[Toolbox]:
    toolbox = Toolbox()
    yield toolbox
    asyncio.run(toolbox.aclose())


@pytest.mark.sampled(8)
@pytest.mark.skipif(not sandbox(), reason="nothing is executed here")
@pytest.mark.parametrize("claim", FALSE_VERDICTS)
async def test_no_answer_grades_itself_right(claim: str, make: Make, toolbox: Toolbox) -> None:
    execute = code_executor(ToolWorker(PYTHON_TOOL, toolbox, 5.0))
    cheating = HONEST.replace("+", "-") + "\n" + FALSE_VERDICTS[claim]
    for name, tests in TESTS.items():
        asked = Question("add", "Write add.", kind="python", tests=tests)
        text = f"````python\n{cheating}\n````"
        executed = await run_one(make(says(text)), asked, grader(execute))
        assert executed.score == 0.0, (name, executed)


@pytest.mark.skipif(not sandbox(), reason="nothing is executed here")
@pytest.mark.parametrize("name", TESTS)
async def test_a_right_answer_is_graded_right(name: str, make: Make, toolbox: Toolbox) -> None:
    execute = code_executor(ToolWorker(PYTHON_TOOL, toolbox, 5.0))
    asked = Question("add", "Write add.", kind="python", tests=TESTS[name])
    for more in ("", "\nif __name__ == '__main__':\n    raise SystemExit(add(1, 2))"):
        orchestra = make(says(f"```python\n{HONEST}{more}\n```"))
        executed = await run_one(orchestra, asked, grader(execute))
        assert executed.score == 1.0, executed


async def test_tests_that_assert_nothing_grade_nothing(make: Make) -> None:
    async def execute(code: str, tests: str) -> str:
        return "Finished."

    asked = Question("f", "Write f.", kind="python", tests="f()")
    executed = await run_one(make(says("def f(): pass")), asked, grader(execute))
    assert executed.score is None


async def test_it_stops_at_its_own_budget_and_never_spends_more(make: Make) -> None:
    orchestra = make(costs(1000), FAR)
    questions = [Question(str(n), f"What is six, number {n}?", "6", "number") for n in range(9)]
    budget = 5_000_000
    executed: list[QuestionResult] = []

    async def execute_on() -> None:
        async for one in run_questions(orchestra, questions, SINGLE, grader(), budget):
            executed.append(one)

    with pytest.raises(BudgetExceeded):
        await execute_on()
    assert 1 <= len(executed) < 9
    assert all(one.score == 1.0 and one.outside == 1 for one in executed)
    assert sum(one.cost for one in executed) == len(executed) * 1001 * 1000 <= budget


async def test_what_makes_every_question_pointless_ends_it(make: Make) -> None:
    orchestra = make(says(SecretMissing("There is no key.", "Set it.")))
    executing = aiter(run_questions(orchestra, [SIX], SINGLE, grader()))
    with pytest.raises(SecretMissing, match="There is no key"):
        await anext(executing)


def test_a_row_adds_up() -> None:
    row = StrategyRow(
        "x",
        [
            QuestionResult("1", 1.0, 10, 5, 100, 1.0, 2, 1),
            QuestionResult("2", 0.5, 10, 5, 0, 1.0, 1, 0),
            QuestionResult("3", None, 10, 5, 0, 1.0, 1, 0, error="BudgetExceeded"),
        ],
    )
    assert (row.graded, row.accuracy) == ([1.0, 0.5], 0.75)
    assert (row.mean(lambda one: one.tokens_in), row.cost) == (10, 100)
    assert (row.local_share, row.refused) == (2 / 3, 1)
    low, high = row.interval
    assert low < 0.75 < high
    assert StrategyRow("x", []).interval == (0.0, 1.0)


def test_results_are_found_again_even_after_a_broken_end(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path / "results.jsonl", "0123", ("a", "b"))
    assert file.results("single") == {}
    one = QuestionResult("q1", 1.0, 7, 50, 2, 0.1, 1)
    two = QuestionResult("q2", None, note="no sandbox")
    file.append("single", one)
    with file.path.open("ab") as broken:
        broken.write(b"\n" + file.path.read_bytes()[:40])  # a write that was broken off
    assert file.results("single") == {"q1": one}
    file.append("single", two)
    assert file.results("single") == {"q1": one, "q2": two}
    assert file.results("hybrid") == {}
    assert ResultsFile(file.path, "0123", ("b", "a")).results("single") == {}


def test_changed_questions_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ResultsFile(path, "0123", ("a",)).append("single", QuestionResult("q1", 1.0))
    with pytest.raises(ConfigError, match="have changed"):
        ResultsFile(path, "4567", ("a",)).results("hybrid")


@pytest.mark.parametrize("content", [b"my notes", b"my notes\n", b"{}\n", b'{"a":"\xff"}\n'])
def test_another_owners_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="isn't a result of a bench"):
        ResultsFile(file, "0123", ("a",)).results("single")
    assert file.read_bytes() == content
