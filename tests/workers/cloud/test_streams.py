"""Streams of 24 families of providers, as described and changed in many ways.

Text, thoughts, end, counts and charge are right, or the call is unconfirmed and charged no less
than its bill. The real readers read them in this process; test_streams_through_gateway.py sends
some through the real gateway and ledger.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable

import pytest

from support.stream_checks import description_problems, mutant_problems
from support.stream_corpus import RecordedStream, load_corpus
from support.stream_mutations import KINDS, Mutant, mutant_of, plain_mutant
from support.stream_replayer import StreamReplayer

CORPUS = load_corpus()
BY_ID = {stream.id: stream for stream in CORPUS}
FAMILIES = sorted({stream.family for stream in CORPUS})
SEED = os.environ["BATON_TEST_SAMPLE"]
"""Of this run's changes; the run's head shows it."""

KINDS_A_STREAM = 8
"""How many kinds of change a usual run draws for each stream."""


async def replay(streams: Iterable[RecordedStream], kinds: Iterable[str], seed: str) -> list[str]:
    """Replay streams changed in these ways; return what must not be, each with its stream."""
    names, found = [*kinds], list[str]()
    async with StreamReplayer() as replayer:
        for stream in streams:
            plain = await replayer.replay(plain_mutant(stream))
            for kind in names:
                mutant = mutant_of(stream, kind, seed)
                if mutant is None:
                    continue
                problems = mutant_problems(mutant, plain, await replayer.replay(mutant))
                found += [f"{mutant.id}, seed {seed}: {problem}" for problem in problems]
    return found


def test_the_corpus_has_what_it_says() -> None:
    assert len(FAMILIES) == 24
    shapes = {"plain", "thoughts", "cached", "length", "filter", "tool", "error", "long", "bytes"}
    for family in FAMILIES:
        streams = [stream for stream in CORPUS if stream.family == family]
        assert len(streams) >= 5
        assert shapes <= {shape for stream in streams for shape in stream.shapes}, family
    for stream in CORPUS:
        assert "~" not in stream.text, stream.id
        if isinstance(stream.charge, int) and stream.charge:
            assert stream.charge == stream.bill, stream.id


@pytest.mark.parametrize("family", FAMILIES)
async def test_streams_are_read_as_described(family: str) -> None:
    async with StreamReplayer() as replayer:
        found = {
            stream.id: problems
            for stream in CORPUS
            if stream.family == family
            if (
                problems := description_problems(
                    stream, await replayer.replay(plain_mutant(stream))
                )
            )
        }
    assert not found


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("family", FAMILIES)
async def test_changed_streams_are_read_alike_or_stay_unconfirmed(family: str) -> None:
    """Each stream in some ways, which are others for each seed."""
    found: list[str] = []
    for stream in (stream for stream in CORPUS if stream.family == family):
        drawn = random.Random(f"{SEED} {stream.id}").sample([*KINDS], KINDS_A_STREAM)
        found += await replay([stream], drawn, SEED)
    assert not found


@pytest.mark.long
@pytest.mark.parametrize("turn", range(4))
@pytest.mark.parametrize("family", FAMILIES)
async def test_every_change_of_every_stream(family: str, turn: int) -> None:
    streams = [stream for stream in CORPUS if stream.family == family]
    assert not await replay(streams, KINDS, f"{SEED} {turn}")


def test_every_stream_is_changed_in_twenty_ways() -> None:
    for family in FAMILIES:
        for stream in [stream for stream in CORPUS if stream.family == family][:3]:
            mutants = [mutant for kind in KINDS if (mutant := mutant_of(stream, kind, SEED))]
            assert len(mutants) >= 20, stream.id
            again = [mutant_of(stream, mutant.kind.split()[0], SEED) for mutant in mutants]
            assert again == mutants


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_whole_answer_is_read_as_its_stream_is(family: str) -> None:
    replayed = 0
    async with StreamReplayer() as replayer:
        for stream in (each for each in CORPUS if each.family == family):
            if mutant := mutant_of(stream, "whole_json", SEED):
                assert not description_problems(stream, await replayer.replay(mutant)), stream.id
                replayed += 1
    assert replayed


@pytest.mark.parametrize("id", ["anthropic/two_deltas"])
async def test_a_count_from_before_the_end_is_not_confirmed(id: str) -> None:
    """Counts that grow with the answer aren't a bill before its end."""
    async with StreamReplayer() as replayer:
        plain = await replayer.replay(plain_mutant(BY_ID[id]))
        mutant = mutant_of(BY_ID[id], "last_count_lost", SEED)
        assert mutant is not None
        assert not mutant_problems(mutant, plain, await replayer.replay(mutant))


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens"])
async def test_a_count_below_nothing_is_not_a_count(field: str) -> None:
    stream = BY_ID["anthropic/two_deltas"]
    text = b'"output_tokens":5' if field == "output_tokens" else b'"input_tokens":21,"cache_c'
    body = b"".join(plain_mutant(stream).pieces)
    at = body.rindex(text)
    broken = text.replace(b":", b":-")
    async with StreamReplayer() as replayer:
        whole = plain_mutant(stream)
        changed = Mutant(
            stream, field, whole.rule, (body[:at] + broken + body[at + len(text) :],), stream.bill
        )
        assert not (await replayer.replay(changed)).is_confirmed


@pytest.mark.parametrize("value", [b'""', b"[]", b"{}"])
@pytest.mark.parametrize("field", [b"cache_read_input_tokens", b"cache_creation_input_tokens"])
async def test_what_is_not_a_number_is_not_a_count_of_nothing(field: bytes, value: bytes) -> None:
    stream = BY_ID["anthropic/cached_and_written"]
    body = b"".join(plain_mutant(stream).pieces)
    number = b"1000" if b"read" in field else b"400"
    head, _, tail = body.rpartition(b'"%b":%b' % (field, number))
    async with StreamReplayer() as replayer:
        whole = plain_mutant(stream)
        body = b'%b"%b":%b%b' % (head, field, value, tail)
        replayed = await replayer.replay(Mutant(stream, "empty", whole.rule, (body,), stream.bill))
    assert not (replayed.is_confirmed and replayed.charge < (stream.bill or 0))


@pytest.mark.parametrize("delta", [b"null", b"0", b'{"a":{}}'])
@pytest.mark.parametrize("family", ["openai_responses", "azure_responses"])
async def test_what_is_not_text_is_none(family: str, delta: bytes) -> None:
    stream = BY_ID[f"{family}/plain"]
    body = b"".join(plain_mutant(stream).pieces).replace(b'"delta":"is "', b'"delta":' + delta)
    async with StreamReplayer() as replayer:
        changed = Mutant(stream, "delta", plain_mutant(stream).rule, (body,), stream.bill)
        assert "The depot open.".startswith((await replayer.replay(changed)).text)
