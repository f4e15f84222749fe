"""Texts become vectors by the encoder on board, in OpenAI's protocol."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from baton.platform.settings import ServeSettings, Settings
from baton.routing import LearnedRouter
from baton.routing.scorer_process import ScorerLimits
from baton.server import embeddings
from support.served_baton import Served, served_baton

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENT = ScorerLimits(warm=10, cold=60)
ALIASED = Settings(serve=ServeSettings(aliases={"text-embedding-*": "baton/embedding"}))
TEXTS = ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose."]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """The endpoint with the encoder, which takes half a second to load."""
    router = LearnedRouter(limits=PATIENT)
    try:
        async with served_baton(
            tmp_path_factory.mktemp("home"), settings=ALIASED, router=router
        ) as served:
            yield served
    finally:
        await router.aclose()


def likeness(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_what_means_the_same_is_near(served: Served) -> None:
    async with served.openai_client() as client:
        made = await client.embeddings.create(model="baton/embedding", input=TEXTS)
        cat, kitten, rates = (one.embedding for one in made.data)
        assert [one.index for one in made.data] == [0, 1, 2]
        assert likeness(cat, kitten) > 0.6 > 0.2 > likeness(cat, rates)
        assert all(math.isclose(likeness(one, one), 1, rel_tol=1e-5) for one in (cat, rates))
        assert made.usage.total_tokens == made.usage.prompt_tokens > 20
        alone = await client.embeddings.create(model="baton/embedding", input=TEXTS[1])
        assert alone.data[0].embedding == kitten


async def test_both_formats_are_the_same_numbers(served: Served) -> None:
    async with served.client() as client:
        body: dict[str, Any] = {"model": "text-embedding-3-small", "input": TEXTS[0]}
        plain = (await client.post("/embeddings", json=body)).json()
        body["encoding_format"] = "base64"
        packed = (await client.post("/embeddings", json=body)).json()
    numbers = plain["data"][0]["embedding"]
    assert plain["model"] == "text-embedding-3-small"
    assert len(numbers) == 384
    data = base64.b64decode(packed["data"][0]["embedding"])
    assert list(struct.unpack("<384f", data)) == pytest.approx(numbers)
    assert plain["usage"] == packed["usage"]


async def test_fewer_dimensions_are_of_length_one_again(served: Served) -> None:
    async with served.openai_client() as client:
        made = await client.embeddings.create(
            model="baton/embedding", input=TEXTS[0], dimensions=64
        )
        whole = await client.embeddings.create(model="baton/embedding", input=TEXTS[0])
    numbers = made.data[0].embedding
    assert len(numbers) == 64
    assert math.isclose(likeness(numbers, numbers), 1, rel_tol=1e-5)
    assert numbers[0] / numbers[1] == pytest.approx(
        whole.data[0].embedding[0] / whole.data[0].embedding[1], rel=1e-4
    )


async def test_of_a_long_text_all_parts_count(served: Served) -> None:
    sea = "The sea is calm. "
    middle = f"{sea * 150}{TEXTS[2] * 300}{sea * 150}"
    async with served.openai_client() as client:
        made = await client.embeddings.create(
            model="baton/embedding", input=[middle, sea, TEXTS[2]]
        )
        long, calm, rates = (one.embedding for one in made.data)
        assert likeness(long, calm) > 0.3 > 0.2 > likeness(calm, rates)
        assert likeness(long, rates) > 0.3
        assert made.usage.prompt_tokens > 2_500


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"input": [[1, 2, 3]]}, "check_embedding_ctx_length=False"),
        ({"input": [1, 2, 3]}, "tokens"),
        ({"input": ""}, "is empty"),
        ({"input": ["a", ""]}, "is empty"),
        ({"input": []}, "1 to 2,048 texts"),
        ({"input": ["a"] * 2_049}, "1 to 2,048 texts"),
        ({"input": "a" * 65_537}, "65,537 characters"),
        ({"dimensions": 0}, "384 dimensions"),
        ({"dimensions": 1536}, "384 dimensions"),
        ({"encoding_format": "int8"}, "int8"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    async with served_baton(tmp_path) as served, served.client() as client:
        body = {"model": "baton/embedding", "input": "Hello", **fields}
        answer = await client.post("/embeddings", json=body)
        assert answer.status_code == 400
        assert said in answer.json()["error"]["message"]


async def test_a_text_of_too_many_tokens_is_refused_with_their_number(served: Served) -> None:
    async with served.client() as client:
        body = {"model": "baton/embedding", "input": ["Hello", "1 # " * 5_000]}
        answer = await client.post("/embeddings", json=body)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert "maximum context length of baton/embedding is 8,192 tokens" in error["message"]
        assert "10,002" in error["message"]


async def test_only_the_encoder_embeds_and_it_does_not_chat(served: Served) -> None:
    async with served.client() as client:
        for model, said in ("baton/auto", "makes no vectors"), ("ada", "no model 'ada'"):
            answer = await client.post("/embeddings", json={"model": model, "input": "Hello"})
            assert answer.status_code == 404
            assert said in answer.json()["error"]["message"]
            assert "serve.aliases" in answer.json()["error"]["message"]
        hello = [{"role": "user", "content": "Hello"}]
        for model in "baton/embedding", "text-embedding-x":
            body = {"model": model, "messages": hello, "max_tokens": 5}
            for path in "/chat/completions", "/messages", "/messages/count_tokens":
                answer = await client.post(path, json=body)
                assert answer.status_code == 400
                assert "/v1/embeddings" in answer.json()["error"]["message"]


async def test_it_is_listed_last_and_for_those_only_who_can_ask_it(served: Served) -> None:
    async with served.client() as client:
        listed = (await client.get("/models")).json()
        assert [one["id"] for one in listed["data"]][-1] == listed["last_id"] == "baton/embedding"
        claude = await client.get("/models", headers={"anthropic-version": "2023-06-01"})
        assert "baton/embedding" not in claude.text
        assert (await client.get("/models/text-embedding-x")).json()["id"] == "text-embedding-x"


async def test_without_the_encoder_it_says_what_to_do(tmp_path: Path) -> None:
    router = LearnedRouter(tmp_path / "nowhere")
    for used in None, router:
        async with served_baton(tmp_path, router=used) as served, served.client() as client:
            body = {"model": "baton/embedding", "input": "Hello"}
            answer = await client.post("/embeddings", json=body)
            assert answer.status_code == 503
            assert "`baton doctor`" in answer.json()["error"]["message"]
            assert "baton/embedding" not in (await client.get("/models")).text


async def test_others_are_answered_between_the_texts(served: Served) -> None:
    async with served.client() as client:
        many = {"model": "baton/embedding", "input": TEXTS * 100}
        asking = asyncio.create_task(client.post("/embeddings", json=many))
        few = {"model": "baton/embedding", "input": TEXTS[0]}
        assert (await client.post("/embeddings", json=few)).status_code == 200
        assert not asking.done()
        assert len((await asking).json()["data"]) == 300


async def test_a_client_that_leaves_ends_its_work(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []
    real = embeddings._shown

    def noted(*arguments: Any) -> Any:
        shown.append(1)
        return real(*arguments)

    monkeypatch.setattr(embeddings, "_shown", noted)
    body: dict[str, Any] = {"model": "baton/embedding"}
    async with served.client(timeout=1.0) as client:
        body["input"] = ["word " * 2_000] * 700
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/embeddings", json=body)
    body["input"] = "Hello"
    async with served.client() as client:
        await client.post("/embeddings", json=body)
        before = len(shown)
        for _ in range(3):
            await client.post("/embeddings", json=body)
    assert len(shown) == before + 3
