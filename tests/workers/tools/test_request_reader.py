"""What the tools' real process does for the conductor."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from baton.core.errors import WorkerError
from baton.core.messages import Message, Request, Role, Text, fenced
from baton.core.plan.plan_lines import parse_lines
from baton.workers.tools import RequestReader, ToolWorker, build_tools


@pytest.fixture
async def workers() -> AsyncIterator[dict[str, ToolWorker]]:
    made = dict(build_tools())
    yield made
    await made["units"].aclose()


async def test_a_request_is_marked_and_its_parts_checked(workers: dict[str, ToolWorker]) -> None:
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


async def test_each_tool_computes_its_expressions(workers: dict[str, ToolWorker]) -> None:
    asked = f"What was asked:\n{fenced('Wie viel ist das?')}\n\n"
    for tool, expression, says in (
        ("calculator", "17 * 23", "17 \u00d7 23 = 391"),
        ("units", "42 km -> mi", "26,1 Meilen"),
        ("clock", "days(2027-01-01, 2027-01-31)", "30 Tage"),
    ):
        request = Request((Message(Role.USER, asked + expression),))
        chunks = [chunk async for chunk in workers[tool].stream(request)]
        assert says in "".join(chunk.text for chunk in chunks if isinstance(chunk, Text))


async def test_what_is_no_expression_is_refused_in_a_sentence(
    workers: dict[str, ToolWorker],
) -> None:
    request = Request((Message(Role.USER, "a fathom of rope"),))
    with pytest.raises(WorkerError, match="no expression"):
        [chunk async for chunk in workers["units"].stream(request)]


async def test_a_text_of_any_size_ends_in_an_answer_or_a_sentence(
    workers: dict[str, ToolWorker],
) -> None:
    reader = RequestReader(workers["units"].toolbox)
    assert await reader.mark("7 " * 50_000)
    with pytest.raises(WorkerError, match="too long"):
        await reader.mark("7" * 40_000_000)
