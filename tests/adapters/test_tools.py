"""Calculator and clock, in their real child process."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.adapters.tools import ToolWorker, sandbox, tools
from baton.children.arithmetic import evaluate, shown
from baton.children.calculator import calculate
from baton.children.clock import tell
from baton.children.exact import CannotCompute
from baton.domain.chat import Message, Request, Role, Text, Usage, fenced
from baton.domain.errors import WorkerError
from baton.domain.labels import Label
from baton.domain.prices import FREE
from support.processes import wait_until_over

NOW = datetime(2026, 11, 21, 14, 50, tzinfo=UTC)


@pytest.fixture(scope="module")
def workers() -> Iterator[Mapping[str, ToolWorker]]:
    """The tools of this machine, whose child is started once."""
    workers = tools()
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
    for name, worker in tools().items():
        card = worker.card
        assert (card.id, card.kind, card.is_tool, card.is_outside) == (name, "tool", True, False)
        assert (card.privacy, card.price, card.slots) == (Label.LOCAL, FREE, 4)
    assert tools()["calculator"].card.skills == {"calculation": 5}
    assert tools(False) == {}


def test_there_is_a_sandbox_wherever_the_kernel_has_one() -> None:
    """Tests of what it holds in are skipped without it."""
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    is_known = platform.machine() in ("x86_64", "aarch64") and actions.exists()
    assert bool(sandbox()) is (is_known and "errno" in actions.read_text().split())
    assert ("python" in tools()) is bool(sandbox())


def test_nothing_is_started_before_the_first_call() -> None:
    assert all(worker.toolbox.pid is None for worker in tools().values())


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 17 + 25?", "42"),
        ("17+25=", "42"),
        ("What's 17 plus 25?", "42"),
        ("Was ist 17 mal 3?", "51"),
        ("Combien font 3 fois 4 ?", "12"),
        ("\u00bfCu\u00e1nto es 15 por 3?", "45"),
        ("Calculate 1,234,567 \u00d7 2 \u2212 1.", "2469133"),
        ("1.234.567,5 \u00f7 0,5", "2469135"),
        ("Compute 12*(3+4), give only the number.", "84"),
        ("Can you please tell me what is 2+2?", "4"),
        ("What is 15% of 80?", "12"),
        ("200 + 10%", "220"),
        ("How much is 20% off 50?", "40"),
        ("1/3 + 1/6", "0.5"),
        ("1/3", "0.333333333333"),
        ("0.1 + 0.2", "0.3"),
        ("2**10 - 2^3", "1016"),
        ("What is the square root of 144?", "12"),
        ("sqrt(2)", "1.41421356237"),
        ("8^(1/3)", "2"),
        ("-2^2", "-4"),
        ("10 mod 3", "1"),
        ("5!", "120"),
        ("gcd(12,18) * max(1, 2)", "12"),
        ("12345678901234567890 * 98765432109876543210", "1219326311370217952237463801111263526900"),
        ("Is 17 + 25 = 43?", "No: 17 + 25 = 42"),
        ("1/3 = 0.33", "Yes: 1/3 = 0.333333333333"),
        ("10/4 = 2", "No: 10/4 = 2.5"),
        ("5 km in miles", "5 km = 3.106856 miles"),
        ("How many miles are in 5 km?", "5 km = 3.106856 miles"),
        ("how many grams in a pound", "1 pound = 453.59237 grams"),
        ("Convert 100 degrees Fahrenheit to Celsius", "100 degrees Fahrenheit = 37.77778 Celsius"),
        ("60 mph to km/h", "60 mph = 96.56064 km/h"),
        ("5 mb in kb", "5 mb = 5000 kb"),
        ("8 Mb in MB", "8 Mb = 1 MB"),
        ("1 kwh in kj", "1 kwh = 3600 kj"),
        ("how many feet make up 2 miles?", "2 miles = 10560 feet"),
        ("1 acre in m\u00b2", "1 acre = 4046.873 m\u00b2"),
        ("1 light year in km", "1 light year = 9460730472581 km"),
    ],
)  # fmt: skip
def test_the_calculator_answers_plainly(question: str, answer: str) -> None:
    assert calculate(question) == answer


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("9**9**9", "too large"),
        ("9^9^9^9^9", "too large"),
        ("(1+1e-9)^1e12", "too large"),
        ("2000!", "too large"),
        ("((((1e900)^2)^2)^2)^2", "too large"),
        ("(" * 400 + "1" + ")" * 400, "too deeply"),
        ("-" * 900 + "1", "too deeply"),
        ("1+" * 550 + "1", "longer than"),
        ("1+" * 600_000 + "1", "too long"),
        ("10/0", "by zero"),
        ("(-1)^(1/2)", "no real root"),
        ("5 km in kg", "can't be converted"),
        ("Tom has 3 apples and buys 4 more. How many are there?", "no expression"),
        ("What is 3 + 4 and 5 + 6?", "no expression"),
        ("What is x + 3?", "no expression"),
        ("__import__('os').getpid()", "no expression"),
        ("3 in 9**9**9**9", "no expression"),
        ("1 meter**9**9**9 in km", "no expression"),
        ("", "no expression"),
        ("12,34 + 1,2,3", "one way"),
    ],
)
def test_the_calculator_refuses_with_a_reason(question: str, reason: str) -> None:
    with pytest.raises(CannotCompute, match=reason):
        calculate(question)


@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_sums_are_exact(a: Fraction, b: Fraction) -> None:
    def written(x: Fraction) -> str:
        return f"({x.numerator}/{x.denominator})"

    assert evaluate(f"{written(a)} + {written(b)}").number == a + b
    assert evaluate(f"{written(a)} - {written(b)} * 3").number == a - b * 3


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=4, min_value=-(10**9), max_value=10**9
    )
)
def test_decimals_come_out_as_they_went_in(number: object) -> None:
    assert Fraction(shown(evaluate(f"{number:,f}"))) == Fraction(str(number))


@given(st.text(alphabet="0123456789+-*/^()%!., \u221aesqrtof=\u2248", max_size=60))
def test_whatever_is_asked_it_answers_or_refuses(text: str) -> None:
    try:
        answer = calculate(text)
    except CannotCompute:
        return
    assert any(character.isdigit() for character in answer)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What time is it?", "Saturday, 2026-11-21, 14:50 UTC (UTC+0000)"),
        ("What time is it in Tokyo?", "Saturday, 2026-11-21, 23:50 JST (UTC+0900)"),
        ("current time in new york right now", "Saturday, 2026-11-21, 09:50 EST (UTC-0500)"),
        ("What's the date today?", "Saturday, 2026-11-21"),
        ("Wie viel Uhr ist es jetzt?", "Saturday, 2026-11-21, 14:50 UTC (UTC+0000)"),
        ("quel jour est-on aujourd'hui", "Saturday, 2026-11-21"),
        ("今天几号", "Saturday, 2026-11-21"),
        ("Welches Datum ist heute?", "Saturday, 2026-11-21"),
        ("What day is tomorrow?", "Sunday, 2026-11-22"),
        ("Which day of the week was 20 July 1969?", "Sunday, 1969-07-20"),
        ("How many days are there between 2024-02-28 and 2024-03-01?", "2 days"),
        ("How many days until Christmas?", "34 days"),
        ("weeks until 2027-03-01", "14 weeks and 2 days"),
        ("how many years between 1990-05-17 and today", "36 years, 6 months and 4 days"),
        ("What date is 30 days from now?", "Monday, 2026-12-21"),
        ("1 month after 2024-01-31", "Thursday, 2024-02-29"),
        ("2026-11-21 + 2 weeks", "Saturday, 2026-12-05"),
        ("what date was two days ago", "Thursday, 2026-11-19"),
        ("in 3 months", "Sunday, 2027-02-21"),
    ],
)
def test_the_clock_knows_dates(question: str, answer: str) -> None:
    assert tell(question, NOW) == answer


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("What is the time complexity of quicksort?", "no question"),
        ("tell me about the date palm", "no question"),
        ("My train left 3 days ago and I am sad.", "no question"),
        ("time in Gotham", "no time zone"),
        ("2026-02-30 + 1 day", "no such date"),
        ("9999-12-30 + 500000 days", "no such date"),
        ("2026-01-01 + 999999 years", "no such date"),
    ],
)
def test_the_clock_refuses_with_a_reason(question: str, reason: str) -> None:
    with pytest.raises(CannotCompute, match=reason):
        tell(question, NOW)


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(0, 9999))
def test_days_count_back_and_forth(day: date, count: int) -> None:
    later = day + timedelta(days=count)
    assert tell(f"{day} + {count} days", NOW).endswith(later.isoformat())
    assert tell(f"days between {day} and {later}", NOW).replace(",", "").split()[0] == str(count)


async def test_the_child_answers_and_knows_the_real_time(workers: Mapping[str, ToolWorker]) -> None:
    assert await ask(workers["calculator"], "What is 17 + 25?") == "42"
    before = datetime.now(UTC).date()
    told = await ask(workers["clock"], "What is the date in UTC?")
    assert any(day.isoformat() in told for day in (before, before + timedelta(days=1)))


async def test_a_steps_own_text_counts_not_what_it_was_shown(
    workers: Mapping[str, ToolWorker],
) -> None:
    shown = f"What was asked:\n{fenced('What is 1 + 1?')}"
    assert await ask(workers["calculator"], f"{shown}\n\nCalculate 12 * 4") == "48"
    assert await ask(workers["calculator"], f"{shown}\n\nUse the calculator.") == "2"


async def test_what_cant_be_computed_is_a_worker_error(workers: Mapping[str, ToolWorker]) -> None:
    for tool in ("calculator", "clock"):
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
    await ask(workers["clock"], "now")
    first = pid(workers["calculator"])
    assert first == pid(workers["clock"])
    os.kill(first, signal.SIGKILL)
    assert await ask(workers["calculator"], "2 + 2") == "2 + 2 = 4"
    assert pid(workers["clock"]) != first


async def test_what_is_asked_while_they_are_closed_starts_no_other_child() -> None:
    worker = tools()["calculator"]
    await ask(worker, "1 + 1")
    os.kill(pid(worker), signal.SIGSTOP)
    asked = asyncio.create_task(ask(worker, "2 + 2"))
    await asyncio.sleep(0)
    await worker.aclose()
    with pytest.raises(WorkerError, match="It was stopped"):
        await asked
    assert worker.toolbox.pid is None


async def test_its_environment_holds_no_key() -> None:
    secret = {"OPENAI_API_KEY": "sk-secret-secret"}
    worker = tools(environ={**os.environ, **secret})["clock"]
    try:
        await ask(worker, "now")
        child = psutil.Process(pid(worker))
        for process in (child, *child.children(recursive=True)):
            assert "sk-secret-secret" not in process.environ().values()
    finally:
        await worker.aclose()


PARENT = """
import asyncio, sys
from baton.adapters.tools import tools
from baton.domain.chat import Message, Request, Role

async def main():
    worker = tools()["clock"]
    async for _ in worker.stream(Request((Message(Role.USER, "now"),))):
        pass
    print(worker.toolbox.pid, flush=True)
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
    code = "import sys; from baton.adapters.tools import tools; tools(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"pint", "dateutil", "jsonschema", "ctypes"} & set(done.stdout.split())
