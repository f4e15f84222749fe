"""LoRA adapters on the real starter model: put on and off for one answer or another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from baton.core.errors import ContextTooLong, ModelFileError, WorkerError, WorkerUnavailable
from baton.core.messages import Loading
from baton.workers.local import GenerationSettings, LocalWorker, starter
from support.adapter_files import adapter
from support.local_worker_calls import CAPITAL, ask, small

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

OTHER = replace(starter().card, id="other")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adapter(tmp_path_factory.mktemp("lora") / "chance.gguf")


@pytest.fixture(scope="module")
def plain() -> Iterator[LocalWorker]:
    """A worker that is loaded once for all tests here."""
    worker = small()
    yield worker
    asyncio.run(worker.aclose())


def worker_with_adapter(plain: LocalWorker, file: Path, scale: float = 1.0) -> LocalWorker:
    return LocalWorker(
        OTHER, plain.model, GenerationSettings(0.0, adapter=file, adapter_scale=scale)
    )


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


async def test_two_workers_share_one_model_and_each_writes_in_its_own_way(
    plain: LocalWorker, file: Path
) -> None:
    await plain.aclose()
    before = children()
    other = worker_with_adapter(plain, file)
    first = await ask(plain, CAPITAL, max_tokens=8)
    changed = await ask(other, CAPITAL, max_tokens=8)
    assert not [chunk for chunk in changed.chunks if isinstance(chunk, Loading)]
    again = await ask(plain, CAPITAL, max_tokens=8)
    assert (await ask(other, CAPITAL, max_tokens=8)).text == changed.text
    assert changed.text != first.text
    assert (again.text, again.usage.confidence) == (first.text, first.usage.confidence)
    assert len(set(children()) - set(before)) == 1
    assert plain.process == other.process is not None
    assert plain.resident == other.resident > 0
    assert (plain.card.id, other.card.id) == ("small", "other")
    assert other.card.parameters == plain.card.parameters


async def test_what_was_read_with_another_adapter_is_not_reused(
    plain: LocalWorker, file: Path
) -> None:
    other = worker_with_adapter(plain, file, 0.5)
    await ask(plain, CAPITAL, max_tokens=5)
    assert (await ask(plain, CAPITAL, max_tokens=5)).usage.cached > 0
    assert (await ask(other, CAPITAL, max_tokens=5)).usage.cached == 0
    assert (await ask(other, CAPITAL, max_tokens=5)).usage.cached > 0
    assert (await ask(plain, CAPITAL, max_tokens=5)).usage.cached > 0, "its own is still there"


async def test_an_adapter_with_a_prompt_of_its_own_reads_plain_text_and_costs_the_chat_nothing(
    plain: LocalWorker, tmp_path: Path
) -> None:
    file = adapter(tmp_path / "plan.gguf", prompt="One, two, three, {prompt},")
    planner = worker_with_adapter(plain, file, 0.0)
    await ask(plain, CAPITAL, max_tokens=5)
    assert (await ask(planner, "four, five", max_tokens=2)).text.startswith(" six")
    assert (await ask(planner, "four, five", max_tokens=2)).usage.cached > 0
    assert (await ask(plain, CAPITAL, max_tokens=5)).usage.cached > 0


async def test_a_plain_prompt_that_is_too_long_is_refused(
    plain: LocalWorker, tmp_path: Path
) -> None:
    planner = worker_with_adapter(plain, adapter(tmp_path / "plan.gguf", prompt="{prompt}"))
    with pytest.raises(ContextTooLong):
        await ask(planner, "word " * 5000, max_tokens=5)


async def test_a_scale_of_nothing_changes_nothing(plain: LocalWorker, file: Path) -> None:
    first = await ask(plain, CAPITAL)
    assert (await ask(worker_with_adapter(plain, file, 0.0), CAPITAL)).text == first.text


@pytest.mark.parametrize(
    ("make", "says"),
    [
        ({"architecture": "qwen2"}, "was made for another one"),
        ({"width": 512}, "was made for another one"),
        ({"layer": "blk.{}.nothing.weight"}, "was made for another one"),
        ({"kind": "model"}, "isn't a LoRA adapter"),
    ],
)
async def test_what_does_not_fit_is_refused_in_a_sentence_and_the_model_stays(
    plain: LocalWorker, tmp_path: Path, make: dict[str, str], says: str
) -> None:
    assert "Paris" in (await ask(plain, CAPITAL)).text
    process = plain.process
    wrong = adapter(tmp_path / "wrong.gguf", **make)  # type: ignore[arg-type]
    with pytest.raises(ModelFileError, match=says) as refused:
        await ask(worker_with_adapter(plain, wrong), CAPITAL)
    assert "wrong.gguf" in refused.value.message
    assert "\n" not in str(refused.value)
    assert "Paris" in (await ask(plain, CAPITAL)).text
    assert plain.process == process


@pytest.fixture
def cut(file: Path) -> Path:
    cut = file.with_name("cut.gguf")
    cut.write_bytes(file.read_bytes()[:-5000])
    return cut


async def test_broken_and_missing_files_are_refused(
    plain: LocalWorker, file: Path, cut: Path
) -> None:
    model = worker_with_adapter(plain, starter().path)
    for worker, says in (
        (worker_with_adapter(plain, cut), "it ends after"),
        (worker_with_adapter(plain, file.with_name("none.gguf")), "There is no file"),
        (worker_with_adapter(plain, Path(__file__)), "isn't a GGUF file"),
        (model, "isn't a LoRA adapter"),
    ):
        with pytest.raises(ModelFileError, match=says):
            await ask(worker, CAPITAL)
    assert "Paris" in (await ask(plain, CAPITAL)).text


async def test_those_that_share_take_turns(plain: LocalWorker, tmp_path: Path) -> None:
    """How sure each was tells whose words they are.

    The adapter is a weak one: a strong one made of chance chooses its words by the last digits of
    its sums, and those differ with what is computed beside it.
    """
    other = worker_with_adapter(plain, adapter(tmp_path / "weak.gguf", strength=0.3, layers=2))
    workers = (plain, other, plain, other)

    async def confidence(worker: LocalWorker) -> float:
        return (await ask(worker, CAPITAL, max_tokens=6)).usage.confidence or 0.0

    alone = [await confidence(worker) for worker in workers]
    together = await asyncio.gather(*(confidence(worker) for worker in workers))
    assert together == pytest.approx(alone, abs=0.03)
    assert abs(alone[0] - alone[1]) > 0.09


async def test_an_adapter_over_which_the_model_dies_is_left_alone_and_the_model_is_not(
    plain: LocalWorker, tmp_path: Path
) -> None:
    deadly = worker_with_adapter(plain, adapter(tmp_path / "deadly.gguf", alpha="much"))
    for land in ("France", "Spain", "Italy"):
        with pytest.raises(WorkerError, match="It crashed") as died:
            await ask(deadly, f"What is the capital of {land}?")
        assert "without the adapter deadly.gguf" in died.value.hint
    with pytest.raises(WorkerUnavailable, match="is not started for now"):
        await ask(deadly, CAPITAL)
    assert "Paris" in (await ask(plain, CAPITAL)).text
    with pytest.raises(WorkerUnavailable, match="is not started for now"):
        await ask(deadly, CAPITAL)
    await plain.aclose()
