"""What other programs wish of an answer, kept to by the real model: schemas, and where it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import pytest

from baton.core.errors import ConfigError
from baton.core.messages import AnswerFormat, Finish, Text
from baton.workers.local import LoadSettings, LocalWorker, Memory, ModelProcess, starter
from support.local_worker_calls import listen, request

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer"},
        "kind": {"enum": ["cat", "dog"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def worker() -> Iterator[LocalWorker]:
    """A worker that is loaded once for all tests but those of what it has read."""
    model = starter()
    made = LocalWorker(model.card, ModelProcess(model.path, Memory(0), LoadSettings(2048)))
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
async def fresh(worker: LocalWorker) -> LocalWorker:
    """The same, when it has read nothing."""
    await worker.aclose()
    return worker


async def test_an_answer_keeps_to_a_schema(worker: LocalWorker) -> None:
    asked = request("Invent a pet.", max_tokens=80, temperature=0)
    answer = await listen(worker, replace(asked, shape=AnswerFormat("", json.dumps(PERSON))))
    made = json.loads(answer.text)
    assert [*made] == ["name", "age", "kind"]
    assert isinstance(made["age"], int)
    assert made["kind"] in ("cat", "dog")


async def test_any_object_can_be_asked_for(worker: LocalWorker) -> None:
    asked = request('Say {"a": 1}', max_tokens=60, temperature=0)
    answer = await listen(worker, replace(asked, shape=AnswerFormat("", '{"type": "object"}')))
    assert answer.text.startswith("{")


@pytest.mark.parametrize(
    "schema", ['{"$ref": "https://example.org/schema.json"}', '{"type": "nothing"}', "[]"]
)
async def test_a_schema_that_cannot_be_kept_to_is_refused(worker: LocalWorker, schema: str) -> None:
    asked = replace(request("Hello", max_tokens=20), shape=AnswerFormat("", schema))
    with pytest.raises(ConfigError, match="can't keep to the form"):
        await listen(worker, asked)


async def test_an_answer_ends_before_a_stop_text(worker: LocalWorker) -> None:
    asked = request("Write a long story about a river.", max_tokens=80, temperature=0)
    whole = (await listen(worker, asked)).text
    stop = whole[40:47]
    answer = await listen(worker, replace(asked, stop=("never said", stop)))
    assert answer.text == whole[: whole.index(stop)]
    assert answer.usage.finish is Finish.STOP
    assert answer.usage.tokens_out < 80


async def test_what_was_read_for_a_client_is_not_reused_for_another(fresh: LocalWorker) -> None:
    asked = request("Tell me about the sea in a few words.", max_tokens=4, temperature=0)
    own, one, other = (replace(asked, client=client) for client in ("", "one", "other"))
    for first in (own, one, other):
        assert (await listen(fresh, first)).usage.cached == 0
        assert (await listen(fresh, first)).usage.cached > 0
    assert (await listen(fresh, own)).usage.cached == 0, "two slots have room for the latest two"


async def test_what_is_read_for_a_client_is_not_shared_while_it_is_used(
    fresh: LocalWorker,
) -> None:
    asked = request("Tell me about the sea.", max_tokens=120, temperature=0)
    one, other = (replace(asked, client=client) for client in ("one", "other"))
    async with aclosing(fresh.stream(one)) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Text):
                break
        assert (await listen(fresh, replace(other, max_tokens=2))).usage.cached == 0
        assert (await listen(fresh, replace(one, max_tokens=2))).usage.cached > 0
