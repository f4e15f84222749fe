"""GGUF files, written as the format says, and also as it doesn't."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from baton.gguf.header import BLOCK_SIZES


class TypedValue(NamedTuple):
    """A value with its type's number, where that matters; bytes stand for themselves."""

    type: int
    value: int | float | bool | str | bytes


Value = int | float | bool | str | TypedValue | Sequence[int] | Sequence[float] | Sequence[str]

TEXT, ARRAY, U32, I32 = 8, 9, 4, 5
_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Tensor(NamedTuple):
    """A tensor of a file: its name, its shape (the row's length first), and its type's number."""

    name: str
    shape: tuple[int, ...]
    type: int = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        numbers = 1
        for length in self.shape:
            numbers *= length
        block, size = BLOCK_SIZES[self.type]
        return numbers // block * size


def text(value: str | bytes) -> bytes:
    """Write a text."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _type_of(value: object) -> int:
    match value:
        case bool():
            return 7
        case int():
            return 4 if 0 <= value < 2**32 else 11
        case float():
            return 6
        case _:
            return TEXT


def _bare(type: int, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return text(str(value)) if type == TEXT else struct.pack(f"<{_FORMS[type]}", value)


def value_bytes(value: Value) -> bytes:
    """Write a value with its type."""
    if isinstance(value, TypedValue):
        return struct.pack("<I", value.type) + _bare(value.type, value.value)
    if isinstance(value, bool | int | float | str):
        type = _type_of(value)
        return struct.pack("<I", type) + _bare(type, value)
    type = max(_type_of(item) for item in value) if value else U32
    small = all(isinstance(item, int) and item < 2**31 for item in value)
    type = I32 if type == U32 and small else type  # as the usual writer does
    items = b"".join(_bare(type, item) for item in value)
    return struct.pack("<IIQ", ARRAY, type, len(value)) + items


def header(
    values: Mapping[str, Value] | Sequence[tuple[str, Value]],
    tensors: Sequence[Tensor] = (),
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """Write a header, padded to where the tensors begin."""
    pairs = list(values.items() if isinstance(values, Mapping) else values)
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    data += b"".join(text(key) + value_bytes(value) for key, value in pairs)
    offset = 0
    for tensor in tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        data += text(tensor.name) + shape + struct.pack("<IQ", tensor.type, offset)
        offset += tensor.size + -tensor.size % alignment
    return data + bytes(-len(data) % alignment)


def whole(
    values: Mapping[str, Value], tensors: Sequence[Tensor], seed: int = 0, strength: float = 0.05
) -> bytes:
    """Write a file with numbers about 0, always the same, in tensors of 32 bits; others are zero.

    `strength` is their standard deviation.
    """
    chance = random.Random(seed)
    data = bytearray(header(values, tensors))
    for tensor in tensors:
        if tensor.type == 0:
            count = tensor.size // 4
            data += struct.pack(f"<{count}f", *(chance.gauss(0, strength) for _ in range(count)))
        else:
            data += bytes(tensor.size)
        data += bytes(-tensor.size % 32)
    return bytes(data)


def facts(architecture: str = "llama", **own: Value) -> dict[str, Value]:
    """Return the keys of a small model of a kind; `own` ones are without its name, "__" for "."."""
    usual: dict[str, Value] = {
        "block_count": 4,
        "context_length": 4096,
        "embedding_length": 64,
        "feed_forward_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    }
    usual |= {key.replace("__", "."): value for key, value in own.items()}
    keys = {f"{architecture}.{key}": value for key, value in usual.items()}
    return {"general.architecture": architecture, **keys}


def vocabulary(words: int) -> dict[str, Value]:
    """Return the keys of a vocabulary: words, scores, types, and as many merges."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += [f"▁word{number}" for number in range(words - len(names))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": names[:words],
        "tokenizer.ggml.scores": [-float(number) for number in range(words)],
        "tokenizer.ggml.token_type": ([2, 3, 3] + [6] * 256 + [1] * words)[:words],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def mutate_header(data: bytes, chance: random.Random) -> bytes:
    """Return a header with something wrong: bytes, lengths, missing and doubled pieces."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 40))):
        at = chance.randrange(len(out) or 1)
        match chance.randrange(6):
            case 0:
                out[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                out[at : at + 8] = struct.pack("<Q", chance.choice(_LENGTHS))
            case 2:
                out[at : at + 4] = struct.pack("<I", chance.choice((9, 8, 13, 2**31, 0)))
            case 3:
                del out[at : at + chance.randrange(200)]
            case 4:
                out[at:at] = out[at : at + chance.randrange(200)]
            case 5:
                del out[at:]
    return bytes(out)


_LENGTHS = (0, 1, 255, 2**16, 2**20, 2**31 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def hostile() -> Iterator[bytes]:
    """Yield headers that are made to do harm."""
    named = text("general.architecture") + value_bytes("llama")

    def begun(tensors: int, keys: int, rest: bytes) -> bytes:
        return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest

    def array(type: int, count: int, rest: bytes = b"") -> bytes:
        key = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, type, count)
        return begun(0, 2, named + key + rest)

    for count in _LENGTHS[4:]:
        yield begun(count, 1, named)
        yield begun(0, count, named)
        yield begun(0, 1, struct.pack("<Q", count))
        yield begun(0, 1, text("general.architecture") + struct.pack("<IQ", TEXT, count))
        for type in (0, 4, TEXT, 12):
            yield array(type, count, bytes(4096))
            yield array(type, count, b"\xff" * 4096)
        yield begun(1, 1, named + text("w") + struct.pack("<I4QIQ", 4, count, count, 1, 1, 0, 0))
        yield begun(1, 1, named + text("w") + struct.pack("<IQIQ", 1, 32, 0, count))
    yield array(ARRAY, 1, struct.pack("<IQ", ARRAY, 1) * 200_000)  # arrays within arrays
    yield array(TEXT, 1_000_000, bytes(8_000_000))  # as many texts as a header may have
    yield array(TEXT, 3, struct.pack("<Q", 2**63) * 3)
    yield begun(0, 1000, b"".join(text(f"key{n:0500}") + value_bytes(1) for n in range(1000)))
    series = [text(f"{n}.attention.head_count") + value_bytes([1] * 512) for n in range(1000)]
    yield begun(0, 1000, b"".join(series))
    yield begun(0, 2, named + named)
    yield begun(0, 1, text(b"\xff\xfe") + value_bytes(1))
    yield begun(0, 1, text("general.architecture") + struct.pack("<I", TEXT) + text(b"\xff"))
    yield header(facts(block_count=513))
    yield header(facts(block_count=-1))
    yield header(facts(block_count=True))
    yield header(facts(attention__head_count_kv=[1, 2]))
    yield header(facts(attention__head_count_kv=[-3, 2, 1, 4]))
    yield header(facts(embedding_length=2.5))
    yield header(facts() | {"general.alignment": 0})
    yield header(facts() | {"general.alignment": 48})
    yield header(facts() | {"tokenizer.chat_template": 7})
    yield header(facts(), [Tensor("w", (64,)), Tensor("w", (64,))])
    yield header(facts(), [Tensor("n" * 64, (64,))])
    yield header(facts(), [Tensor("w", (33,), 8)])
    yield begun(1, 1, named + text("w") + struct.pack("<I", 2**32 - 1))
    yield begun(1, 1, named + text("w") + struct.pack("<IQIQ", 1, 32, 99, 0))
    yield begun(1, 1, named + text("w") + struct.pack("<IQIQ", 1, 32, 4, 0))
    names = b"".join(text(f"t{n}") + struct.pack("<IIQ", 0, 0, n * 32) for n in range(16_384))
    yield begun(16_384, 1, named + names)
