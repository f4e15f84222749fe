"""Reading headers of GGUF files: honest ones of every kind, and hostile ones."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import struct
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as some

from baton.gguf.header import (
    BLOCK_SIZES,
    MAX_TEXT_BYTES,
    Header,
    HeaderIncomplete,
    parse_header,
    read_header,
)
from baton.gguf.metadata import MAX_LAYERS, MalformedHeader
from baton.workers.local import starter
from support.gguf_writer import (
    Tensor,
    TypedValue,
    Value,
    facts,
    header,
    hostile,
    mutate_header,
    text,
    vocabulary,
    whole,
)

texts = some.text(max_size=30)
numbers = some.integers(-(2**31), 2**63 - 1)
values = some.one_of(
    texts,
    numbers,
    some.booleans(),
    some.floats(width=32),
    some.lists(texts, max_size=8),
    some.lists(some.integers(0, 2**32 - 1), max_size=8),
    some.lists(some.booleans(), max_size=8),
)
others = some.dictionaries(
    some.text(some.characters(codec="ascii"), min_size=1, max_size=20).map("other.{}".format),
    values,
    max_size=8,
)
shapes = some.lists(some.integers(0, 5), max_size=3).map(lambda rest: (256, *rest))
tensors = some.lists(some.tuples(shapes, some.sampled_from(sorted(BLOCK_SIZES))), max_size=8).map(
    lambda found: [Tensor(f"t{n}", shape, type) for n, (shape, type) in enumerate(found)]
)


def by_pieces(data: bytes) -> tuple[Header, int]:
    """Read a header as from a network: a little, then as much as was said; and how often."""
    wanted = 1024
    for times in range(1, 40):
        try:
            return parse_header(data[:wanted]), times
        except HeaderIncomplete as cut:
            if cut.needed <= wanted:
                raise AssertionError("it doesn't get on") from cut
            wanted = cut.needed
    raise AssertionError("it never ends")


@given(texts, texts, some.integers(0, 2**31 - 1), others, tensors, some.sampled_from([2, 3]))
@settings(max_examples=100, deadline=None)
def test_every_header_says_what_was_written(
    name: str,
    licence: str,
    context: int,
    other: dict[str, Value],
    weights: list[Tensor],
    version: int,
) -> None:
    keys = facts(context_length=context) | other
    keys |= {"general.name": name, "general.license": licence}
    data = header(keys, weights, version=version)
    found = parse_header(data)
    assert (found.name, found.licence, found.context) == (name, licence, context)
    assert (found.layers, found.kv_heads, found.key_length) == (4, (2, 2, 2, 2), 16)
    assert found.weights == sum(tensor.size for tensor in weights)
    assert (
        found
        == by_pieces(data)[0]
        == parse_header(memoryview(data))
        == parse_header(bytearray(data))
    )
    assert found == read_header(io.BytesIO(data).read, max(found.size, len(data)))
    ends = found.size
    assert parse_header(data, ends) == found == parse_header(data, ends + 99)
    if found.weights and weights[-1].size:
        with pytest.raises(MalformedHeader, match=f"it ends after {ends - 1:,} of {ends:,} bytes"):
            parse_header(data, ends - 1)


def test_the_whole_file_is_as_long_as_its_header_says() -> None:
    data = whole(facts(), [Tensor("a", (64, 3)), Tensor("b", (7,)), Tensor("c", (32,), 8)])
    found = parse_header(data, len(data))
    assert len(data) - 32 < found.size <= len(data)
    assert (found.parameters, found.weights) == (64 * 3 + 7 + 32, 64 * 3 * 4 + 7 * 4 + 34)


def test_the_starter_says_what_llama_cpp_says_of_it() -> None:
    path = starter().path
    with path.open("rb") as file:
        found = parse_header(file.read(4 << 20), path.stat().st_size)
    assert (found.architecture, found.licence) == ("llama", "apache-2.0")
    assert (found.layers, found.parameters, found.context) == (30, 134_515_008, 8192)
    assert (found.kv_heads, found.key_length, found.value_length) == ((3,) * 30, 64, 64)
    assert (found.vocabulary, found.embedding, found.heads) == (49_152, 576, 9)
    assert found.size == path.stat().st_size
    assert "im_start" in found.template


def test_a_large_vocabulary_takes_few_rounds() -> None:
    data = header(facts() | vocabulary(60_000))
    found, rounds = by_pieces(data)
    assert found.vocabulary == 60_000
    assert rounds <= 12
    assert read_header(io.BytesIO(data).read, len(data)) == found


def test_a_file_that_is_cut_off_while_it_is_read_is_reported() -> None:
    data = header(facts() | vocabulary(60_000))
    for end in (0, 3, 10, 1 << 20, len(data) - 100):
        with pytest.raises(MalformedHeader, match="being changed"):
            read_header(io.BytesIO(data[:end]).read, len(data))


def kind(name: str, **own: Value) -> Header:
    return parse_header(header(facts(name, **own)))


def test_heads_may_differ_by_layer() -> None:
    found = kind("deci", attention__head_count_kv=[2, 0, 4, 1])
    assert found.kv_heads == (2, 0, 4, 1)
    assert found.state == 0


def test_keys_and_values_have_lengths_of_their_own() -> None:
    found = kind("qwen3", attention__key_length=128, attention__value_length=96)
    assert (found.key_length, found.value_length) == (128, 96)


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [
        ("llama", {}, "0000"),
        ("phi3", {}, "0000"),
        ("gemma2", {}, "1010"),
        ("gemma3", {"sliding_window_pattern": 2}, "1010"),
        ("gpt-oss", {}, "1010"),
        ("cohere2", {}, "1110"),
        ("smallthinker", {}, "0111"),
        ("lfm2", {}, "1111"),
        ("gemma4", {"sliding_window_pattern": [True, True, False, True]}, "1101"),
        ("step35", {"sliding_window_pattern": [0, 1, 1, 0]}, "0110"),
        ("step35", {"sliding_window_pattern": [0, 1]}, "0100"),
    ],
)
def test_windows_are_where_llama_cpp_has_them(
    name: str, own: dict[str, Value], expected: str
) -> None:
    found = kind(name, attention__sliding_window=512, **{f"attention.{k}": own[k] for k in own})
    assert "".join(str(int(windowed)) for windowed in found.windowed) == expected
    assert found.window == (512 if "1" in expected else 0)


def test_no_window_is_none() -> None:
    assert not any(kind("gemma3").windowed)
    assert kind("gemma2").window == 4096


def test_windows_may_have_shorter_keys_and_later_layers_share_theirs() -> None:
    found = kind(
        "gemma4",
        attention__sliding_window_pattern=[1, 0, 1, 0],
        attention__shared_kv_layers=1,
        attention__sliding_window=512,
        attention__key_length=512,
        attention__value_length=512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
    )
    assert found.kv_heads == (2, 2, 2, 0)
    assert (found.key_length, found.window_key_length) == (512, 256)


def test_recurrent_layers_keep_a_state_and_no_keys() -> None:
    ssm: dict[str, Value] = {
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 2048,
        "ssm.state_size": 128,
        "ssm.group_count": 16,
    }
    each = 4 * (3 * (2048 + 2 * 16 * 128) + 128 * 2048)
    found = kind("qwen35", **ssm)
    assert found.kv_heads == (0, 0, 0, 2)
    assert found.state == 3 * each
    assert kind("qwen35", full_attention_interval=2, **ssm).kv_heads == (0, 2, 0, 2)
    assert kind("qwen35", full_attention_interval=1, **ssm).kv_heads == (2, 2, 2, 2)
    assert kind("qwen35", **ssm | {"attention.recurrent_layers": [0, 1, 0, 0]}).state == each
    found = kind("granitehybrid", attention__head_count_kv=[0, 0, 2, 0], **ssm)
    assert (found.kv_heads, found.state) == ((0, 0, 2, 0), 3 * each)
    assert kind("falcon-h1", **ssm).kv_heads == (2, 2, 2, 2)
    assert kind("falcon-h1", **ssm).state == 4 * each
    assert kind("mamba", attention__head_count_kv=0, **ssm).state == 4 * each
    heads: list[int] = [0, 0, 2, 0]
    found = kind(
        "nemotron_h", attention__head_count_kv=heads, feed_forward_length=[0, 9, 0, 0], **ssm
    )
    assert found.state == 2 * each
    keys = facts("nemotron_h", attention__head_count_kv=heads, **ssm)
    del keys["nemotron_h.feed_forward_length"]
    assert parse_header(header(keys)).state == 3 * each


def test_layers_that_only_look_ahead_keep_nothing() -> None:
    assert kind("qwen35", nextn_predict_layers=1, block_count=5).kv_heads == (0, 0, 0, 2, 0)


def test_compressed_keys_hold_the_values() -> None:
    found = kind(
        "deepseek2",
        attention__head_count_kv=1,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
    )
    assert (found.kv_heads, found.key_length, found.value_length) == ((1,) * 4, 576, 0)


def test_other_recurrent_kinds() -> None:
    assert kind("rwkv6", wkv__head_size=64).state == 4 * 4 * 64 * (2 + 64)
    found = kind("lfm2", attention__head_count_kv=[0, 2, 0, 0], shortconv__l_cache=3)
    assert found.state == 3 * 4 * 64 * 2
    kimi = kind("kimi-linear", attention__head_count_kv=[0, 0, 0, 1], kda__head_dim=8)
    assert kimi.state == 3 * 4 * 4 * 8 * (3 * 3 + 8)


def test_parts_and_alignment() -> None:
    keys = facts()
    keys |= {"split.count": TypedValue(2, 3), "general.parameter_count": TypedValue(10, 7 * 10**9)}
    found = parse_header(header(keys, [Tensor("a", (64,))]))
    assert (found.parts, found.parameters) == (3, 7 * 10**9)
    assert kind("mixed", attention__head_count=[1, 4, 2, 0]).heads == 4
    wide = header(facts() | {"general.alignment": 256}, [Tensor("a", (1,))], alignment=256)
    assert parse_header(wide).size % 256 == 4


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PK\x03\x04", "isn't a GGUF file"),
        (header({}, version=1), "unknown version"),
        (header({}, version=4), "unknown version"),
        (header({}, version=3 << 24), "another byte order"),
        (header({}), "what kind of model"),
        (header(facts() | {"general.type": "adapter"}), "is a LoRA adapter"),
        (header({"general.type": "imatrix"}), "is an importance matrix"),
        (header(facts("clip")), "is a projector"),
        (header(facts("clip") | {"general.type": "mmproj"}), "is a projector"),
        (header([("a", 1), ("a", 1)]), "a key twice"),
        (header(facts(block_count=513)), "block_count isn't a number"),
        (header(facts(), [Tensor("w", (33,), 8)]), "half a block"),
        (
            header(facts() | {"general.name": TypedValue(8, text(b"\xff"))}),
            "general.name isn't UTF-8",
        ),
    ],
)
def test_what_is_wrong_is_said(data: bytes, why: str) -> None:
    with pytest.raises(MalformedHeader, match=why):
        parse_header(data, len(data))


def test_a_file_that_ends_within_its_last_text_is_refused() -> None:
    data = header(facts() | {"tokenizer.ggml.tokens": ["one", "two"]}, alignment=1)
    parse_header(data, len(data))
    with pytest.raises(MalformedHeader, match="ends before its header"):
        parse_header(data[:-1], len(data) - 1)


@pytest.mark.parametrize("dimensions", [5, 6, 2**32 - 1])
def test_a_tensor_has_at_most_four_dimensions(dimensions: int) -> None:
    good = header(facts(), [Tensor("w", (32, 1, 1, 1))])
    assert parse_header(good, None).weights == 128
    shape = struct.pack("<I4Q", 4, 32, 1, 1, 1)
    bad = good.replace(shape, struct.pack("<I4Q", dimensions, 32, 1, 1, 1) + bytes(64))
    with pytest.raises(MalformedHeader, match=f"a tensor of {dimensions:,} dimensions"):
        parse_header(bad, None)


def test_an_array_longer_than_a_model_has_layers_is_stepped_over() -> None:
    for count, kept in ((MAX_LAYERS, True), (MAX_LAYERS + 1, False), (100_000, False)):
        data = header(facts() | {"llama.attention.head_count": [1] * count})
        with pytest.raises(MalformedHeader) if not kept else contextlib.nullcontext():
            parse_header(data, None)  # without its values it has no number for each layer
    tracemalloc.start()
    with contextlib.suppress(MalformedHeader):
        parse_header(data, None)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100_000, "as many numbers take 800 kB and more"


def test_a_template_that_is_too_long_is_left_out() -> None:
    def template(length: int) -> str:
        return parse_header(
            header(facts() | {"tokenizer.chat_template": "x" * length}), None
        ).template

    assert template(MAX_TEXT_BYTES) == "x" * MAX_TEXT_BYTES
    assert template(MAX_TEXT_BYTES + 1) == ""


def outcome(data: bytes, size: int | None) -> str:
    """Read what may be anything; any other error ends the test."""
    try:
        parse_header(data, size)
    except HeaderIncomplete as cut:
        return "cut" if cut.needed > len(data) else "stuck"
    except MalformedHeader as error:
        return "malformed" if str(error).isprintable() else "unprintable"
    return "read"


def survive(headers: Iterable[bytes]) -> set[str]:
    """Read headers with and without a known size, within 50 MB of memory.

    Only the reading with the fewest limits is traced: that takes thirty times as long.
    """
    seen = set()
    for data in headers:
        seen |= {outcome(data, len(data)), outcome(data, 1 << 40)}
        with contextlib.suppress(MalformedHeader):
            read_header(io.BytesIO(data).read, len(data))
        gc.collect(0)
        tracemalloc.start()
        seen.add(outcome(data, None))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 50_000_000
    return seen


@pytest.mark.sampled(0.34)
def test_hostile_headers_are_refused() -> None:
    headers = list(hostile())
    assert len(headers) > 100
    outcomes = [outcome(data, len(data)) for data in headers]
    assert set(outcomes) == {"malformed", "read"}
    assert outcomes.count("read") == 1, "the one with as many texts as a header may have"
    assert survive(headers) == {"cut", "malformed", "read"}


@pytest.mark.parametrize(("length", "ends"), [(31 << 20, "read"), (60 << 20, "malformed")])
def test_a_header_that_really_is_long_is_in_memory_once(length: int, ends: str) -> None:
    file = io.BytesIO(header(facts() | {"other.text": "x" * length}))
    found = "malformed"
    tracemalloc.start()
    with contextlib.suppress(MalformedHeader):
        read_header(file.read, 100 << 30)
        found = "read"
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == ends
    assert most < 50_000_000


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_mutated_headers_are_read_or_refused(count: int) -> None:
    chance = random.Random(count)
    tensors = [Tensor(f"blk.{n}.w", (256, 2), 12) for n in range(8)]
    keys = facts("gemma3", attention__sliding_window=512, attention__head_count_kv=[1, 2, 3, 4])
    keys |= vocabulary(300) | {"general.name": "x", "tokenizer.chat_template": "{{ messages }}"}
    honest = header(keys, tensors)
    assert outcome(honest, None) == "read"
    seen = survive(mutate_header(honest, chance) for _ in range(count))
    assert seen == {"cut", "malformed", "read"}
