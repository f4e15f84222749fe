"""Calculator, units and clock: what they answer, and their real child process."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest
from hypothesis import given, strategies as st

from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.messages import Message, Request, Role, Text, Usage, fenced
from baton.core.money import FREE
from baton.core.planning.plan_lines import parse_lines
from baton.workers.tools import RequestReader, ToolWorker, build_tools, sandbox
from baton.workers.tools.computation import CannotCompute
from baton.workers.tools.computation.plan_steps import compute
from baton.workers.tools.worker import Toolbox
from support.processes import wait_until_over


@pytest.fixture(scope="module")
def workers() -> Iterator[Mapping[str, ToolWorker]]:
    """The tools of this machine, whose child is started once."""
    workers = build_tools()
    yield workers
    asyncio.run(workers["clock"].aclose())


async def ask(worker: ToolWorker, text: str) -> str:
    request = Request((Message(Role.SYSTEM, "Be brief."), Message(Role.USER, text)))
    chunks = [chunk async for chunk in worker.stream(request)]
    (usage,) = (chunk for chunk in chunks if isinstance(chunk, Usage))
    assert (usage.tokens_in, usage.tokens_out) == (0, 0)
    assert chunks[-1] is usage
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))


def pid(worker: ToolWorker) -> int:
    child = worker.toolbox.pid
    assert child is not None
    return child


def test_cards_are_free_local_tools() -> None:
    for name, worker in build_tools().items():
        card = worker.card
        assert (card.id, card.kind, card.is_tool, card.uses_gateway) == (name, "tool", True, False)
        assert (card.privacy, card.price, card.slots) == (Label.LOCAL, FREE, 4)
    assert build_tools()["calculator"].card.skills == {"calculation": 5}


def test_there_is_a_sandbox_wherever_the_kernel_has_one() -> None:
    """Tests of what it holds in are skipped without it."""
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    is_known = platform.machine() in ("x86_64", "aarch64") and actions.exists()
    assert bool(sandbox()) is (is_known and "errno" in actions.read_text().split())
    assert ("python" in build_tools()) is bool(sandbox())


def test_nothing_is_started_before_the_first_call() -> None:
    assert all(worker.toolbox.pid is None for worker in build_tools().values())


@pytest.mark.parametrize(
    ("tool", "question", "answer"),
    [
        ("calculator", "What is 17 + 25?", "17 + 25 = 42"),
        ("calculator", "17+25=", "17 + 25 = 42"),
        ("calculator", "Calculate 1,234,567 \u00d7 2.", "1234567 \u00d7 2 = 2,469,134"),
        ("calculator", "Combien font 3 * 2,5 ?", "3 \u00d7 2,5 = 7,5"),
        ("calculator", "1.234.567,5 \u00f7 0,5", "1234567,5 \u00f7 0,5 = 2.469.135"),
        ("calculator", "What is 15% of 80?", "15% \u00d7 80 = 12"),
        ("calculator", "200 + 10%", "200 + 10% = 220"),
        ("calculator", "1/3", "1 \u00f7 3 \u2248 0.3333333333"),
        ("calculator", "0.1 + 0.2", "0.1 + 0.2 = 0.3"),
        ("calculator", "5 - -2", "5 \u2212 \u22122 = 7"),
        ("calculator", "7--3", "7 \u2212 \u22123 = 10"),
        ("calculator", "6 / -2", "6 \u00f7 \u22122 = \u22123"),
        ("calculator", "\u221a144", "sqrt(144) = 12"),
        ("calculator", "5!", "5! = 120"),
        ("calculator", "-2^2", "-2^2 = \u22124"),
        ("calculator", "1 + 1\n\nWhat is 2 * 4?", "2 \u00d7 4 = 8"),
        ("calculator", "Is 17 + 25 = 43?", "No: 17 + 25 = 42"),
        ("calculator", "1 + 1 = 2\n10/4 = 2", "Yes: 1 + 1 = 2\nNo: 10/4 = 2.5"),
        ("units", "42 km in miles", "42 km are ≈ 26.1 miles."),
        ("units", "Wie viel sind 42 km in Meilen?", "42 km sind ≈ 26,1 Meilen."),
        ("units", "What is 100 \u00b0F in \u00b0C?", "100 \u00b0F are ≈ 37.78 \u00b0C."),
        ("units", "60 mph to km/h", "60 mph are 96.56064 km/h."),
        ("clock", "days(2024-02-28, 2024-03-01)", "2 days. (days(2024-02-28, 2024-03-01))"),
    ],
)  # fmt: skip
def test_what_is_written_as_an_expression_is_answered(
    tool: str, question: str, answer: str
) -> None:
    assert compute(tool, question) == answer


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What time is it?", r"It is \d\d:\d\d\."),
        ("Wie viel Uhr ist es jetzt?", r"Es ist \d\d:\d\d Uhr\."),
        ("Che ore sono?", r"Sono le \d\d:\d\d\."),
        ("现在几点了\uff1f", r"It is \d\d:\d\d\."),
        ("What's the date today?", r"Today is \w+, \d+ \w+ \d{4}\."),
        ("quel jour est-on aujourd'hui", r"Aujourd\W?hui, nous sommes le \w+ \d+ \w+ \d{4}\."),
        ("今天几号", r"Today is \w+, \d+ \w+ \d{4}\."),
    ],
)
def test_the_clock_says_the_time_and_the_date(question: str, said: str) -> None:
    assert re.fullmatch(said, compute("clock", question))


@pytest.mark.parametrize(
    ("tool", "question", "answer"),
    [
        ("calculator", "9**9**9", "too large to be computed"),
        ("calculator", "9^9^9^9^9", "too large"),
        ("calculator", "was ist 9^9^9", "zu groß"),
        ("calculator", "(1+1e-9)^1e12", "too large"),
        ("calculator", "2^9999 * 2^9999", "too large"),
        ("calculator", "10000000000!", "too large"),
        ("calculator", "10!!", "two ways"),
        ("calculator", "((((1e900)^2)^2)^2)^2", "too large"),
        ("calculator", "What is " + "(" * 100 + "1" + ")" * 100, "too deeply"),
        ("calculator", "(" * 5000 + "1" + ")" * 5000, "too long"),
        ("calculator", "1+" * 600 + "1", "too long"),
        ("calculator", "10/0", "divided by zero"),
        ("calculator", "combien font 10/0 ?", "diviser par zéro"),
        ("calculator", "(-1)^(1/2)", "real numbers"),
        ("calculator", "sqrt(-4)", "real numbers"),
        ("clock", "2026-02-30 + 1 d", "no such day"),
        ("units", "5 km in kg", "measure different things"),
        ("units", "9^3000 * 9^3000 km -> m", "too large"),
    ],
)
def test_what_stands_in_the_way_of_a_sum_is_its_answer(
    tool: str, question: str, answer: str
) -> None:
    assert answer in compute(tool, question)


@pytest.mark.parametrize(
    ("tool", "question", "reason"),
    [
        ("calculator", "-" * 200 + "1", "too deeply"),
        ("calculator", "-" * 900 + "1", "too deeply"),
        ("calculator", "1+" * 600_000 + "1", "too long"),
        ("calculator", "Tom has 3 apples and buys 4 more. How many are there?", "no expression"),
        ("calculator", "What is 3 + 4 and 5 + 6?", "no expression"),
        ("calculator", "What is x + 3?", "no expression"),
        ("calculator", "__import__('os').getpid()", "no expression"),
        ("calculator", "3 in 9**9**9**9", "no expression"),
        ("calculator", "42 km in miles", "no expression"),
        ("calculator", "", "no expression"),
        ("calculator", "12,34 + 1,2,3", "one way"),
        ("units", "1 meter**9**9**9 in km", "no expression"),
        ("units", "17 km", "no unit"),
        ("clock", "What is the time complexity of quicksort?", "no expression"),
        ("clock", "tell me about the date palm", "no expression"),
        ("clock", "My train left 3 days ago and I am sad.", "no expression"),
        ("clock", "time in Gotham", "no expression"),
        ("clock", "now(Gotham)", "time zone of Gotham"),
        ("clock", "9999-12-30 + 500000 d", "too far away"),
        ("clock", "2026-01-01 + 999999 y", "too far away"),
    ],
)
def test_what_cant_be_computed_is_refused_with_a_reason(
    tool: str, question: str, reason: str
) -> None:
    with pytest.raises(CannotCompute, match=reason):
        compute(tool, question)


@given(
    st.sampled_from(("calculator", "units", "clock")),
    st.text(alphabet="0123456789+-*/^()%!., \u221aesqrtofkm\u00b0C=\u2248:\n", max_size=60),
)
def test_it_answers_or_refuses_any_request(tool: str, text: str) -> None:
    try:
        said = compute(tool, text)
    except CannotCompute as error:
        said = str(error).removesuffix(".")
    assert said


async def test_the_tools_know_the_real_time(workers: Mapping[str, ToolWorker]) -> None:
    assert await ask(workers["calculator"], "What is 17 + 25?") == "17 + 25 = 42"
    before = datetime.now().astimezone()
    said = await ask(workers["clock"], "What time is it?")
    assert said in {f"It is {before + timedelta(minutes=n):%H:%M}." for n in (0, 1)}


async def test_a_steps_own_text_counts_not_what_it_was_shown(
    workers: Mapping[str, ToolWorker],
) -> None:
    shown = f"What was asked:\n{fenced('What is 1 + 1?')}"
    said = await ask(workers["calculator"], f"{shown}\n\nCalculate 12 \u00d7 4")
    assert said == "12 \u00d7 4 = 48"
    assert await ask(workers["calculator"], f"{shown}\n\nUse the calculator.") == "1 + 1 = 2"


async def test_a_step_is_answered_in_the_language_of_the_request(
    workers: Mapping[str, ToolWorker],
) -> None:
    shown = f"What was asked:\n{fenced('Rechne bitte aus, was das ist.')}"
    said = await ask(workers["calculator"], f"{shown}\n\n2,5 \u00d7 1.000")
    assert said == "2,5 \u00d7 1000 = 2500"


async def test_what_cant_be_computed_is_a_worker_error(workers: Mapping[str, ToolWorker]) -> None:
    for tool in ("calculator", "units", "clock"):
        with pytest.raises(WorkerError, match="can read"):
            await ask(workers[tool], "Write a poem about the sea.")
    with pytest.raises(WorkerError, match="Nothing was asked"):
        async with aclosing(workers["clock"].stream(Request(()))) as chunks:
            await anext(chunks)


async def test_many_calls_at_once_each_get_their_own_answer(
    workers: Mapping[str, ToolWorker],
) -> None:
    answers = await asyncio.gather(*(ask(workers["calculator"], f"{n} * 7") for n in range(50)))
    assert answers == [f"{n} \u00d7 7 = {n * 7}" for n in range(50)]


async def test_all_tools_share_one_child_that_is_replaced_when_it_was_killed(
    workers: Mapping[str, ToolWorker],
) -> None:
    toolbox = workers["clock"].toolbox
    await toolbox.mark("seven")
    first = pid(workers["calculator"])
    assert first == pid(workers["units"])
    os.kill(first, signal.SIGKILL)
    assert (await toolbox.mark("seven")).text == "7"
    assert pid(workers["clock"]) != first


async def test_what_only_computes_starts_no_child() -> None:
    workers = build_tools()
    for tool, asked in (("calculator", "2 + 2"), ("units", "42 km in miles"), ("clock", "now")):
        workers[tool].warm()
        assert await ask(workers[tool], asked)
        assert workers[tool].toolbox.pid is None


async def test_what_is_asked_while_they_are_closed_starts_no_other_child() -> None:
    toolbox = Toolbox()
    await toolbox.mark("seven")
    assert toolbox.pid is not None
    os.kill(toolbox.pid, signal.SIGSTOP)
    asked = asyncio.create_task(toolbox.mark("eight"))
    await asyncio.sleep(0)
    await toolbox.aclose()
    with pytest.raises(WorkerError, match="It was stopped"):
        await asked
    assert toolbox.pid is None


async def test_its_environment_holds_no_key() -> None:
    secret = {"OPENAI_API_KEY": "sk-secret-secret"}
    worker = build_tools(environ={**os.environ, **secret})["clock"]
    try:
        await worker.toolbox.mark("seven")
        child = psutil.Process(pid(worker))
        for process in (child, *child.children(recursive=True)):
            assert "sk-secret-secret" not in process.environ().values()
    finally:
        await worker.aclose()


PARENT = """
import asyncio, sys
from baton.workers.tools.worker import Toolbox

async def main():
    toolbox = Toolbox()
    await toolbox.mark("seven")
    print(toolbox.pid, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


def test_no_process_outlives_its_parent() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent.stdin, parent.stdout:
        child = psutil.Process(int(parent.stdout.readline()))
        family = [child, *child.children(recursive=True)]
        parent.kill()
        parent.wait()
        wait_until_over(family)


def test_the_front_loads_no_engine_of_the_tools() -> None:
    code = """
import asyncio, sys
from baton.core.messages import Message, Request, Role
from baton.workers.tools import build_tools

async def ask(tool, text):
    async for _ in workers[tool].stream(Request((Message(Role.USER, text),))):
        pass

async def ask_several():
    await asyncio.gather(*(ask("units", f"{n} km in miles") for n in range(8)))

workers = build_tools()
print(*sys.modules)
asyncio.run(ask("calculator", "What is 17*23?"))
print(*sys.modules)
asyncio.run(ask("clock", "now"))
print(*sys.modules)
asyncio.run(ask_several())
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    watched = {"pint", "dateutil", "jsonschema", "ctypes", "text_to_num", "numpy"}
    loaded = [watched & {*line.split()} for line in done.stdout.splitlines()]
    assert loaded[:3] == [set(), set(), {"dateutil"}]
    assert "pint" in loaded[3]
    assert not {"text_to_num", "numpy"} & loaded[3]


async def test_a_request_is_marked_and_its_parts_checked(workers: Mapping[str, ToolWorker]) -> None:
    reader = RequestReader(workers["units"].toolbox)
    request = "Convert forty-two km to miles, then write a poem about 3 May 2027"
    assert "42 km" in await reader.mark(request)
    parts = parse_lines("units: 42 km -> mi\nwriting2: write a poem about 2027-05-03")
    checked = await reader.check(request, parts)
    assert [(c.text, c.problem) for c in checked] == [
        ("42 km -> mi", ""),
        ("write a poem about 3 May 2027", ""),
    ]
    (wrong,) = await reader.check(request, parse_lines("calc: 42 + 29"))
    assert wrong.problem


async def test_each_tool_computes_its_expressions(workers: Mapping[str, ToolWorker]) -> None:
    asked = f"What was asked:\n{fenced('Wie viel ist das?')}\n\n"
    for tool, expression, says in (
        ("calculator", "17 * 23", "17 \u00d7 23 = 391"),
        ("units", "42 km -> mi", "26,1 Meilen"),
        ("clock", "days(2027-01-01, 2027-01-31)", "30 Tage"),
    ):
        request = Request((Message(Role.USER, asked + expression),))
        chunks = [chunk async for chunk in workers[tool].stream(request)]
        assert says in "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))


async def test_what_is_not_an_expression_is_refused_in_a_sentence(
    workers: Mapping[str, ToolWorker],
) -> None:
    request = Request((Message(Role.USER, "a fathom of rope"),))
    with pytest.raises(WorkerError, match="no expression"):
        [chunk async for chunk in workers["units"].stream(request)]


async def test_a_text_of_any_size_ends_in_an_answer_or_a_sentence(
    workers: Mapping[str, ToolWorker],
) -> None:
    reader = RequestReader(workers["units"].toolbox)
    assert await reader.mark("7 " * 50_000)
    with pytest.raises(WorkerError, match="too long"):
        await reader.mark("7" * 40_000_000)
