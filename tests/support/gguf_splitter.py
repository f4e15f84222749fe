"""Cuts a GGUF file into parts, as llama.cpp's gguf-split does: tensors in their order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from baton.gguf.header import BLOCK_SIZES, NUMBER_FORMATS
from support.gguf_writer import ARRAY, TEXT, TypedValue, text, value_bytes

U16, I32 = 2, 5


def split_gguf(data: bytes, count: int) -> list[bytes]:
    """Return a model's parts; the first one has all of its keys."""
    _, tensors, keys = struct.unpack_from("<IQQ", data, 4)
    at = 24 + sum(len(text(key) + value_bytes(value)) for key, value in typed_values(data))
    kept, infos = data[24:at], []
    for _ in range(tensors):
        start = at
        at = _after_text(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        *shape, kind, offset = struct.unpack_from(f"<{dimensions}QIQ", data, at + 4)
        at += 4 + 8 * dimensions + 12
        numbers = 1
        for length in shape:
            numbers *= length
        block, size = BLOCK_SIZES[kind]
        infos.append((data[start : at - 8], offset, numbers // block * size))
    base = at + -at % 32
    share = -(-len(infos) // count)
    parts = []
    for number in range(count):
        mine = infos[number * share : (number + 1) * share]
        split = {"no": (U16, number), "count": (U16, count), "tensors.count": (I32, tensors)}
        own = b"".join(
            text(f"split.{key}") + value_bytes(TypedValue(*value)) for key, value in split.items()
        )
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(mine), 3 + (keys if number == 0 else 0))
        head += (kept if number == 0 else b"") + own
        body, length = [], 0
        for info, offset, size in mine:
            head += info + struct.pack("<Q", length)
            body += [data[base + offset : base + offset + size], bytes(-size % 32)]
            length += size + -size % 32
        parts.append(b"".join((head, bytes(-len(head) % 32), *body)))
    return parts


def write_parts(folder: Path, name: str, data: bytes, count: int) -> list[Path]:
    """Write a model's parts under the names that llama.cpp gives them."""
    paths = [folder / f"{name}-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]
    for path, part in zip(paths, split_gguf(data, count), strict=True):
        path.write_bytes(part)
    return paths


def typed_values(data: bytes) -> Iterator[tuple[str, TypedValue]]:
    """Yield a file's keys and their values, as bytes."""
    at, (keys,) = 24, struct.unpack_from("<Q", data, 16)
    for _ in range(keys):
        end = _after_text(data, at)
        key = data[at + 8 : end].decode()
        (kind,) = struct.unpack_from("<I", data, end)
        at = _after_value(data, end + 4, kind)
        yield key, TypedValue(kind, data[end + 4 : at])


def _after_text(data: bytes, at: int) -> int:
    return at + 8 + int(struct.unpack_from("<Q", data, at)[0])


def _after_value(data: bytes, at: int, kind: int) -> int:
    if kind == TEXT:
        return _after_text(data, at)
    if kind != ARRAY:
        return at + NUMBER_FORMATS[kind].size
    inner, length = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner != TEXT:
        return at + NUMBER_FORMATS[inner].size * int(length)
    for _ in range(length):
        at = _after_text(data, at)
    return at
