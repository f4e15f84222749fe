"""Every reader of strangers' bytes, fed a drawn sample; `scripts/fuzz` looks further."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from support.fuzz_targets import FOUND, SEEDS, TARGETS, change_json
from support.gguf_writer import mutate_header


def test_every_reader_has_something_to_begin_with() -> None:
    assert TARGETS.keys() == SEEDS.keys() >= FOUND.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_that_is_known_breaks_a_reader(name: str) -> None:
    for data in (b"", *SEEDS[name], *FOUND.get(name, ())):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_changed_input_breaks_a_reader(name: str) -> None:
    chance = random.Random(name)
    for _ in range(60):
        data = chance.choice(SEEDS[name])
        TARGETS[name](mutate_header(data, chance))
        for _ in range(chance.randrange(4)):
            data = change_json(data, chance)
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=200))
def test_no_bytes_break_a_reader(name: str, data: bytes) -> None:
    TARGETS[name](data)
