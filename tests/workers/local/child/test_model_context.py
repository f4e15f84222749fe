"""A context with several slots, with tiny models, whose figures show any difference."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.workers.local.child import batch_plan, llama
from baton.workers.local.child.batch_plan import common_prefix
from baton.workers.local.child.llama_loader import c
from baton.workers.local.child.model_context import (
    NO_ADAPTER,
    AppliedAdapter,
    Context,
    Reading,
    Share,
    Slot,
    places,
)
from support.tiny_models import WORDS, tiny, tiny_adapter

pytestmark = pytest.mark.local_model

KINDS = ["llama", "gemma3", "qwen35"]
SLOTS = 3


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[llama.Model]:
    llama.start(lambda _: None)
    model = llama.Model(tiny(tmp_path, request.param))
    yield model
    model.free()


def prompt(seed: int, length: int) -> list[int]:
    return [3 + (7 * n * n + n * seed + seed) % 256 for n in range(length)]


def context(model: llama.Model, limit: int = 4096, slots: int = SLOTS) -> Context:
    return Context(model, limit, 1, lambda: False, slots=slots)


def figures(ctx: Context, place: int) -> list[float]:
    return list(c.llama_get_logits_ith(ctx.native, place)[:WORDS])


def taken(ctx: Context, tokens: list[int]) -> Slot:
    slot = ctx.take(tokens)
    assert slot is not None
    return slot


def read_together(ctx: Context, prompts: list[list[int]], step: int = 40) -> list[list[float]]:
    """Read prompts in batches that hold a piece of each; return the figures at their ends."""
    slots = [taken(ctx, tokens) for tokens in prompts]
    found: list[list[float]] = [[] for _ in prompts]
    while not all(found):
        reading = []
        for n, (slot, tokens) in enumerate(zip(slots, prompts, strict=True)):
            at = len(slot.tokens)
            if piece := tokens[at : at + step]:
                reading.append((n, Share(slot, piece, at + len(piece) == len(tokens))))
        shares = [share for _, share in reading]
        assert ctx.decode(shares) is Reading.DONE
        for (n, share), place in zip(reading, places(shares), strict=True):
            if share.is_sampled:
                found[n] = figures(ctx, place)
    for slot in slots:
        ctx.release(slot)
    return found


def read_alone(model: llama.Model, tokens: list[int], slots: int = SLOTS) -> list[float]:
    return read_together(context(model, slots=slots), [tokens], step=128)[0]


def test_prompts_that_are_read_together_are_read_as_alone(
    model: llama.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_plan, "MIN_CONTEXT_TOKENS", 256)
    prompts = [prompt(1, 300), prompt(2, 90), prompt(3, 410)]
    ctx = context(model)
    for _ in range(2):  # the second time, much of it is known
        for found, tokens in zip(read_together(ctx, prompts), prompts, strict=True):
            assert found == pytest.approx(read_alone(model, tokens), abs=2e-3)


def test_what_another_slot_is_reading_is_not_read_again(model: llama.Model) -> None:
    ctx = context(model)
    shared, tail = prompt(1, 100), [5, 6, 7]
    first = taken(ctx, [*shared, 9, 9])
    assert ctx.decode([Share(first, shared, False)]) is Reading.DONE
    second = taken(ctx, [*shared, *tail])
    assert len(second.tokens) == len(shared)
    assert second is not first
    shares = [Share(first, [9, 9], True), Share(second, tail, True)]
    assert ctx.decode(shares) is Reading.DONE
    for place, rest in zip(places(shares), ([9, 9], tail), strict=True):
        alone = read_alone(model, [*shared, *rest])
        assert figures(ctx, place) == pytest.approx(alone, abs=2e-3)


def test_slots_with_and_without_an_adapter_take_turns(tmp_path: Path) -> None:
    llama.start(lambda _: None)
    model = llama.Model(tiny(tmp_path, "llama"))
    on = AppliedAdapter(model.adapter(tiny_adapter(tmp_path)), 1.0)
    strong = AppliedAdapter(on.adapter, 3.0)
    tokens, found, alone = prompt(1, 90), [], []
    for adapter in (NO_ADAPTER, on, strong):
        ctx = context(model)
        assert ctx.take(tokens, adapter)
        assert ctx.decode([Share(ctx.slots[0], tokens, True)]) is Reading.DONE
        alone.append(figures(ctx, -1))
    ctx = context(model)
    slots = [ctx.take(tokens, adapter) for adapter in (NO_ADAPTER, on, strong)]
    for at in range(0, 90, 30):
        for slot in slots:
            assert slot is not None
            assert len(slot.tokens) == at, "nothing is taken over from another adapter's slot"
            assert ctx.decode([Share(slot, tokens[at : at + 30], True)]) is Reading.DONE
            if at == 60:
                found.append(figures(ctx, -1))
    ctx.release(ctx.slots[0])
    other = ctx.take([*tokens, 1], AppliedAdapter(on.adapter, 2.0))
    assert other is not None
    assert other.tokens == []
    for one, expected in zip(found, alone, strict=True):
        assert one == pytest.approx(expected, abs=2e-3)
    assert alone[0] != pytest.approx(alone[1], abs=5e-3)
    assert alone[1] != pytest.approx(alone[2], abs=5e-3)
    model.free()


def test_what_was_read_for_a_client_is_known_to_it_alone(model: llama.Model) -> None:
    ctx, tokens = context(model), prompt(1, 90)

    def known(client: str) -> int:
        slot = ctx.take([*tokens, 1, 1], client=client)
        assert slot is not None
        count = len(slot.tokens)
        if rest := tokens[count:]:
            assert ctx.decode([Share(slot, rest, False)]) is Reading.DONE
        return count

    assert [known("one"), known("other")] == [0, 0], "while the first one's is being used, too"
    for slot in ctx.slots:
        ctx.release(slot)
    for client in ("third", "one"):
        known(client)
        ctx.release(next(slot for slot in ctx.slots if not slot.is_free))
    for _ in range(2):
        assert known("one") == len(tokens), "others' slots are used, and its own is kept"
        for slot in ctx.slots:
            ctx.release(slot)


@pytest.mark.parametrize("seed", range(4))
def test_a_client_is_never_given_what_only_others_read(tmp_path: Path, seed: int) -> None:
    llama.start(lambda _: None)
    rng = random.Random(seed)
    model = llama.Model(tiny(tmp_path, rng.choice(KINDS)))
    ctx = context(model, 2048, rng.randint(1, 4))
    read: dict[str, list[list[int]]] = {}
    for _ in range(60):
        client = rng.choice(["", "one", "other"])
        tokens = [*prompt(rng.randint(1, 2), rng.randint(1, 300)), rng.randint(3, 6)]
        slot = ctx.take(tokens, client=client)
        if slot is not None:
            own = read.setdefault(client, [])
            assert max((common_prefix(tokens, one) for one in own), default=0) >= len(slot.tokens)
            while rest := tokens[len(slot.tokens) :]:
                assert ctx.decode([Share(slot, rest[:100], len(rest) <= 100)]) is Reading.DONE
            own.append(list(slot.tokens))
        for held in ctx.slots:
            if rng.random() < 0.6:
                ctx.release(held)
    assert len(read) == 3
    model.free()


def test_two_slots_compute_exactly_what_one_does(model: llama.Model) -> None:
    tokens = prompt(1, 200)
    assert read_alone(model, tokens, slots=2) == read_alone(model, tokens, slots=1)


def test_what_others_left_gives_way_before_the_context_grows(model: llama.Model) -> None:
    ctx = context(model)
    read_together(ctx, [prompt(1, 900)])
    read_together(ctx, [prompt(2, 900)])
    read_together(ctx, [prompt(3, 900)])
    most = 4096 if model.can_split(False) else 2048
    assert c.llama_n_ctx(ctx.native) <= most
    assert sum(len(slot.tokens) for slot in ctx.slots) <= most
    assert len(taken(ctx, [*prompt(3, 900), 1, 1]).tokens) == 900


def test_what_was_read_is_known_in_every_layout(tmp_path: Path) -> None:
    llama.start(lambda _: None)
    model = llama.Model(tiny(tmp_path, "llama"))
    ctx, long, short = context(model, 2048, 4), prompt(1, 1200), prompt(2, 300)
    layouts = []

    def ask(tokens: list[int]) -> int:
        slot = taken(ctx, tokens)
        known = len(slot.tokens)
        while rest := tokens[len(slot.tokens) :]:
            assert ctx.decode([Share(slot, rest[:128], len(rest) <= 128)]) is Reading.DONE
        assert figures(ctx, -1) == pytest.approx(read_alone(model, tokens), abs=2e-3)
        ctx.release(slot)
        layouts.append(ctx.layout)
        return known

    assert [ask(short), ask(prompt(3, 400))] == [0, 0]
    assert ask([*short, 1, 1]) == 300, "it is in a wider room now"
    assert ask(prompt(8, 100)) == 0
    assert ask([*prompt(3, 400), 1, 1]) == 400, "it was the second one of that room"
    assert ask(long) == 0
    assert ask(prompt(4, 500)) == 0, "beside the long one, in a room that both share"
    assert ask([*long, 1, 1]) == 1200
    assert ask([*prompt(4, 500), 1, 1]) == 0, "for the long one it had to go"
    held = [taken(ctx, prompt(seed, 400)) for seed in (5, 6, 7)]
    assert all(slot.tokens == [] for slot in held)
    layouts.append(ctx.layout)
    assert [(one.width, one.is_split) for one in layouts] == [
        *[(1, True), (2, True), (2, True), (4, True), (4, True), (1, True)],
        *[(4, False), (4, False), (4, False), (4, True)],
    ]
    model.free()


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("seed", range(24))
def test_whatever_was_read_before_figures_are_those_of_a_fresh_context(
    tmp_path: Path, seed: int
) -> None:
    llama.start(lambda _: None)
    rng = random.Random(seed)
    model = llama.Model(tiny(tmp_path, rng.choice(KINDS)))
    limit, slots = rng.choice([300, 1000, 2048, 4096]), rng.choice([1, 2, 3, 7, 16])
    ctx, held = context(model, limit, slots), dict[Slot, list[int]]()
    for _ in range(40):
        tokens = [*prompt(rng.randint(1, 3), rng.randint(1, limit // 2)), 5, rng.randint(3, 9)]
        if rng.random() < 0.5 and (slot := ctx.take(tokens)) is not None:
            assert slot.tokens == tokens[: len(slot.tokens)]
            held[slot] = tokens
        shares = []
        for slot, tokens in [*held.items()][:4]:
            if rest := tokens[len(slot.tokens) :][: rng.choice([1, 7, 30])]:
                is_whole = len(slot.tokens) + len(rest) == len(tokens)
                shares.append(Share(slot, rest, is_whole))
        if shares and ctx.decode(shares) is Reading.DONE:
            for share, place in zip(shares, places(shares), strict=True):
                if share.is_sampled:
                    alone = read_alone(model, held[share.slot], slots=1)
                    assert figures(ctx, place) == pytest.approx(alone, abs=5e-3)
        for slot in [slot for slot in held if rng.random() < 0.2]:
            ctx.release(slot)
            del held[slot]
        cells = ctx.layout.size * (ctx.layout.width if ctx.layout.is_split else 1)
        assert cells <= limit
    model.free()


def test_who_finds_no_room_waits_and_one_alone_may_use_it_all(model: llama.Model) -> None:
    ctx = context(model, 2048)
    first = taken(ctx, prompt(1, 1500))
    assert ctx.take(prompt(2, 600)) is None
    assert ctx.decode([Share(first, prompt(1, 100), False)]) is Reading.DONE
    ctx.release(first)
    second = taken(ctx, prompt(2, 2048))
    assert ctx.take(prompt(3, 1)) is None
    ctx.release(second)


def test_answers_that_outgrow_the_context_are_noticed(model: llama.Model) -> None:
    ctx = context(model, 512)
    slots = [taken(ctx, prompt(seed, 60)) for seed in (1, 2)]
    for slot in slots:
        for at in range(0, 240, 120):
            assert ctx.decode([Share(slot, prompt(slot.number, 240)[at : at + 120], False)])
    assert [len(slot.tokens) for slot in slots] == [240, 240]
    shares = [Share(slot, [7] * 20, True) for slot in slots]
    assert ctx.decode(shares) is Reading.FULL
    ctx.release(slots[1])
    assert ctx.decode(shares[:1]) is Reading.DONE
