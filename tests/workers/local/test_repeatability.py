"""What a seed promises: the same answer, whatever the model has read and written before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prompt_context import PromptContext

from baton.workers.local.child import llama
from baton.workers.local.child.batch_plan import batch_shares
from baton.workers.local.child.llama_loader import c
from baton.workers.local.model_file import starter
from support.local_worker_calls import Answer, ask, listen, request, small

pytestmark = pytest.mark.local_model

STORY = "Tell me a short story about a river and a town near the sea."


@pytest.mark.parametrize(
    ("turns", "temperature", "seed"),
    [((STORY,), 0.0, 1), ((STORY, "Once there was a river.", "Go on."), 1.2, 7)],
)
async def test_an_answer_with_a_seed_does_not_depend_on_what_was_before(
    turns: tuple[str, ...], temperature: float, seed: int
) -> None:
    asked = replace(request(*turns, max_tokens=16, temperature=temperature), seed=seed)
    worker = small()
    try:
        cold = (await listen(worker, asked)).text
        warm = (await listen(worker, asked)).text
        await ask(worker, "What is the capital of France?", max_tokens=5)
        after = (await listen(worker, asked)).text
        await ask(worker, *turns, cold, "And then?", max_tokens=5)
        again = (await listen(worker, asked)).text
    finally:
        await worker.aclose()
    assert {warm, after, again} == {cold}


async def test_a_conversation_with_a_seed_continues_alike_in_a_new_process() -> None:
    """The answer's words, which were computed one by one, are read again."""
    worker = small()
    first: Answer = await listen(worker, request(STORY, max_tokens=20, temperature=0))
    asked = replace(request(STORY, first.text, "Go on.", max_tokens=20, temperature=1.2), seed=3)
    warm = (await listen(worker, asked)).text
    await worker.aclose()
    cold = (await listen(worker, asked)).text
    await worker.aclose()
    assert warm == cold


def test_the_figures_after_a_prompt_are_the_same_to_the_last_bit_however_it_was_read() -> None:
    model = llama.Model(starter().path)
    prompt = model.tokenise(STORY * 20, False)[: model.batch + 1]

    def figures(ctx: PromptContext) -> list[float]:
        row = c.llama_get_logits_ith(ctx.native, -1)
        return row[: model.vocabulary]  # type: ignore[no-any-return]

    def read(known: int) -> list[float]:
        ctx = PromptContext(model, 2048, 1, lambda: False)
        if known:
            ctx.read(prompt[:known] + [5] * 9, lambda *_: None)
        ctx.read(prompt, lambda *_: None)
        return figures(ctx)

    cold = read(0)
    for known in (40, len(prompt) - 2, len(prompt) - 1, len(prompt)):
        assert read(known) == cold, known
    model.free()


def test_no_prompt_ends_with_a_token_alone() -> None:
    for count in range(2, 600):
        left = count
        while left > 1:
            (share,) = batch_shares([left], 128)
            assert share > 0
            left -= share
        assert left == 0, count
