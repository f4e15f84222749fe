"""The header of a GGUF file: what a model is, before any of its weights are read.

A header is untrusted: every count and length is checked against what a header may have and against
the file's size, arrays are stepped over without being built, and every defect is one kind of error.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import repeat
from mmap import mmap
from operator import length_hint
from typing import NamedTuple

from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sampling_settings import recommended_sampling
from baton.gguf.metadata import MAX_LAYERS, MalformedHeader, Metadata, Series, Value, layer_memory

Data = bytes | bytearray | memoryview | mmap

MAX_HEADER_BYTES = 32 << 20
"""Bytes that a header may have. The longest known has 16 MB: a vocabulary of 262,144 words."""

MAX_KEYS = 1024
MAX_TENSORS = 16_384
MAX_TEXTS = 1_200_000
"""Texts in all arrays together: that longest header has 777,000."""

MAX_KEY_BYTES = 512
MAX_NAME_BYTES = 63
MAX_TEXT_BYTES = 1 << 20
"""Bytes of a text that is wanted, such as the chat template; a longer one is left out."""

MAX_SIZE = 2**63 - 1

WANTED_TEXTS = frozenset(
    {
        "general.architecture",
        "general.license",
        "general.name",
        "general.type",
        "tokenizer.chat_template",
    }
)
"""The texts that are wanted."""

WANTED_ARRAYS = (
    ".attention.head_count",
    ".attention.head_count_kv",
    ".attention.recurrent_layers",
    ".attention.sliding_window_pattern",
    ".feed_forward_length",
)
"""The ends of the keys whose arrays are wanted, a number for each layer."""

NUMBER_FORMATS = {
    type: struct.Struct(f"<{code}")
    for type, code in {
        0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"
    }.items()
}  # fmt: skip
TEXT, ARRAY = 8, 9

BLOCK_SIZES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    9: (32, 36), 10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
    15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18),
    21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8),
    28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36),
    41: (128, 18), 42: (64, 18),
}  # fmt: skip
"""Of each type of ggml: how many numbers make up a block, and its bytes."""

PROBE_BYTES = 4096
"""How much of a file is looked at."""

_FIND_GGUF = "Look for the same model as GGUF: most have it in a repository of a similar name."
_AGAIN = "Download it again, from the address of the file itself."
_UNPACK = "Unpack it, and name the .gguf file in it."
_POINTER = "Get the model itself: `git lfs pull` in its repository, or `baton models pull`."

_FORMATS = (
    (rb"version https://git-lfs\.github\.com/|# xet version", "a Git LFS pointer", _POINTER),
    (rb"\s*(?:<!--.*?-->\s*)*<(?i:!doctype html|html|head|body|script)\b", "a web page", _AGAIN),
    (rb"\s*<(?:\?xml|Error>)", "an XML document, such as a server's error", _AGAIN),
    (rb".{5}\0\0\0\s*\{\s*\"", "a safetensors file", _FIND_GGUF),
    (rb"PK\x03\x04.{0,300}\.pkl|\x80[\x02-\x05]", "a PyTorch file", _FIND_GGUF),
    (rb"PK(?:\x03\x04|\x05\x06|\x07\x08)", "a zip archive", _UNPACK),
    (rb"\x1f\x8b|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|.{257}ustar", "an archive", _UNPACK),
    (rb"lmgg|fmgg|tjgg", "a GGML file, the format before GGUF", _FIND_GGUF),
    (rb"\x89HDF\r\n", "an HDF5 file, as Keras writes it", _FIND_GGUF),
    (rb"\x08[\x03-\x0d]\x12", "an ONNX file", _FIND_GGUF),
    (rb"%PDF-", "a PDF", _AGAIN),
    (rb"\0*\Z", "zeros alone, as a download that was cut off leaves them", _AGAIN),
)
"""By the first bytes: what the file is, and what to do."""

_STEP_BYTES = 1 << 20
"""Bytes that are asked for at first, and at most at a time: more would be in memory twice."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_TENSORS = [struct.Struct(f"<{dimensions}QIQ") for dimensions in range(5)]


class HeaderIncomplete(Exception):
    """The data ends within the header, which needs about `needed` bytes from the start.

    `needed` is more than there was, at most the file's size, and often a little more than the
    header really has: so that few rounds suffice.
    """

    def __init__(self, needed: int) -> None:
        super().__init__(f"the header continues, to byte {needed:,} or so")
        self.needed = needed


@frozen_dataclass
class Header:
    """What a header says. Numbers are 0 and texts "" where it doesn't.

    `kv_heads` counts the heads of keys and values by layer (0 where a layer keeps none: recurrent
    ones, and those that share another's). `window` is how far sliding attention looks back, in
    tokens, and `windowed` says by layer whether it is of that kind; such layers have their own
    lengths of keys and values. `state` is what recurrent layers keep in all, in bytes.

    `weights` are the bytes of all tensors, `size` those of the whole file as its header promises
    it. Of a model in several `parts`, this is one part.
    `sampling` is how the file recommends that words are chosen.
    """

    architecture: str
    name: str = ""
    licence: str = ""
    parameters: int = 0
    context: int = 0
    layers: int = 0
    kv_heads: tuple[int, ...] = ()
    key_length: int = 0
    value_length: int = 0
    window: int = 0
    windowed: tuple[bool, ...] = ()
    window_key_length: int = 0
    window_value_length: int = 0
    state: int = 0
    vocabulary: int = 0
    embedding: int = 0
    feed_forward: int = 0
    heads: int = 0
    weights: int = 0
    size: int = 0
    parts: int = 1
    template: str = ""
    sampling: Mapping[str, float] = field(default_factory=dict, hash=False)


class ModelKind(NamedTuple):
    """The architecture and the type that a header names, "" where it doesn't."""

    architecture: str
    type: str
    has_weights: bool


def parse_header(data: Data, size: int | None = None) -> Header:
    """Read a header from a file's beginning; `size` is the whole file's, if known.

    Raises HeaderIncomplete when it continues after `data`, and MalformedHeader; that too where the
    file, of that `size`, is shorter than its header promises.
    """
    return _parse(_Reader(data, size), size)


def read_header(more: Callable[[int], bytes], size: int) -> Header:
    """Read a header through `more(count)`, which returns the next bytes of a file.

    Each byte is read and looked at once. Raises MalformedHeader.
    """
    return _parse(_Reader(bytearray(more(min(size, _STEP_BYTES))), size, more), size)


def read_kind(data: Data) -> ModelKind:
    """Return what a file's first bytes say of its kind. Raises MalformedHeader."""
    reader, values = _Reader(data, None), dict[str, Value]()
    with suppress(HeaderIncomplete):
        _read_keys(reader, values)
    has_weights = len(data) >= 16 and _U64.unpack_from(data, 8)[0] > 0
    architecture, kind = (values.get(f"general.{key}", "") for key in ("architecture", "type"))
    return ModelKind(str(architecture), str(kind), has_weights)


def read_part(more: Callable[[int], bytes], size: int) -> tuple[int, int]:
    """Return which part of how many a file says that it is, from 1; (1, 1) of a whole model.

    Raises MalformedHeader, also where the file is cut off.
    """
    reader = _Reader(bytearray(more(min(size, _STEP_BYTES))), size, more)
    values: dict[str, Value] = {}
    _TensorSizes(reader, _read_keys(reader, values), values, size)
    number, count = (values.get(f"split.{key}", n) for key, n in (("no", 0), ("count", 1)))
    if not isinstance(number, int) or not isinstance(count, int):
        raise MalformedHeader("it doesn't say which part it is")
    return number + 1, count


def _parse(reader: _Reader, size: int | None) -> Header:
    values: dict[str, Value] = {}
    tensors = _read_keys(reader, values)
    data = Metadata(values)
    weights = _TensorSizes(reader, tensors, values, size)
    zeros = (0,) * data.layers
    parts = data.count("split.count", 1)
    parameters = data.count("general.parameter_count", most=MAX_SIZE)
    return Header(
        architecture=data.architecture,
        name=data.text("general.name"),
        licence=data.text("general.license"),
        parameters=weights.numbers if parts <= 1 else parameters,
        context=data.own("context_length"),
        layers=data.layers,
        **layer_memory(data)._asdict(),
        vocabulary=data.length("tokenizer.ggml.tokens") or data.own("vocab_size"),
        embedding=data.own("embedding_length"),
        feed_forward=max(data.by_layer("feed_forward_length", zeros), default=0),
        heads=max(data.by_layer("attention.head_count", zeros), default=0),
        weights=weights.bytes,
        size=weights.end,
        parts=max(parts, 1),
        template=data.text("tokenizer.chat_template"),
        sampling=recommended_sampling(values.get),
    )


def _foreign_format(data: bytes) -> tuple[str, str]:
    """Return what a file is instead of GGUF, with its article, and what to do; ("", "") if unknown.

    `data` is its beginning. Of a text the first words are shown: often they are an error.
    """
    data = data[:PROBE_BYTES].removeprefix(b"\xef\xbb\xbf")
    for pattern, what, hint in _FORMATS:
        if re.match(pattern, data, re.DOTALL):
            return what, hint
    with suppress(UnicodeDecodeError):
        # The last sign may be cut.
        text = data.decode() if len(data) < PROBE_BYTES else data[:-4].decode("utf-8", "ignore")
        if not re.search(r"[\x00-\x08\x0e-\x1f\x7f]", text):
            kind = "JSON" if re.match(r"\s*[{[]", text) else "a text"
            return f"{kind} that begins {' '.join(text.split())[:80]!r}", _AGAIN
    return "", ""


class _Reader:
    """Reads a header from its beginning; `more` returns bytes beyond its data.

    Raises MalformedHeader for a file of another format.
    """

    def __init__(
        self, data: Data, size: int | None, more: Callable[[int], bytes] | None = None
    ) -> None:
        if not b"GGUF".startswith(data[:4]):
            what, hint = _foreign_format(bytes(data[:PROBE_BYTES]))
            raise MalformedHeader(f"it isn't a GGUF file{what and f', but {what}'}", hint)
        self._data = data
        self._more = more
        self._end = len(data)
        self._most = MAX_HEADER_BYTES if size is None else min(size, MAX_HEADER_BYTES)
        self._texts = 0
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        start = self.skip(count)
        return bytes(self._data[start : self.at])

    def skip(self, count: int) -> int:
        """Go past so many bytes; return where they began."""
        start = self.at
        self._need(start + count)
        self.at += count
        return start

    def number(self, layout: struct.Struct) -> int:
        """Return a number of that form."""
        start = self.skip(layout.size)
        number: int = layout.unpack_from(self._data, start)[0]
        return number

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        """Return numbers of that form."""
        return layout.unpack_from(self._data, self.skip(layout.size))

    def count(self, what: str, most: int) -> int:
        """Return a count of 64 bits, if it is one that a header may have."""
        count = self.number(_U64)
        if count > most:
            raise MalformedHeader(f"it claims to have {count:,} {what}")
        return count

    def text(self, what: str, longest: int) -> str:
        """Return a text that may have so many bytes."""
        return self.decode(self.count(f"bytes of {what}", longest), what)

    def decode(self, size: int, what: str) -> str:
        """Return the next bytes as a text."""
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedHeader(f"its {what} isn't UTF-8") from None

    def skip_texts(self, count: int) -> None:
        """Go past an array of texts. This loop is where nearly all of the time goes."""
        self._texts += count
        if self._texts > MAX_TEXTS:
            raise MalformedHeader(f"it claims to have {self._texts:,} texts")
        self._need(self.at + 8 * count)
        length_at, at = _U64.unpack_from, self.at
        while count:
            left, data, began = repeat(None, count), self._data, at
            try:
                for _ in left:
                    at += length_at(data, at)[0] + 8
                count = 0
            except (struct.error, OverflowError):
                # The last step led past the data; what is left will be about as long as the rest.
                done, count = count - length_hint(left) - 1, length_hint(left) + 1
                seen = min(at, self._end) - began
                self._need(at + 8, at + 8 + (seen // max(done, 1) + 9) * count)
        self._need(at)
        self.at = at

    def _need(self, least: int, about: int = 0) -> None:
        """Make sure that the data reaches `least`."""
        if least > self._most:
            short = self._most < MAX_HEADER_BYTES
            raise MalformedHeader(
                "it ends before its header does" if short else "its header has no end"
            )
        if least > self._end:
            ahead = self._end * 2 + (1 << 16)
            self._read_more(min(max(least, about, ahead), self._most), least)

    def _read_more(self, needed: int, least: int) -> None:
        if self._more is None or not isinstance(self._data, bytearray):
            raise HeaderIncomplete(needed)
        while self._end < needed and (piece := self._more(min(needed - self._end, _STEP_BYTES))):
            self._data += piece
            self._end += len(piece)
        if self._end < least:
            raise MalformedHeader("it is being changed")


def _read_keys(reader: _Reader, values: dict[str, Value]) -> int:
    """Read the keys into `values`, and return the count of tensors that follow them.

    Texts and arrays that nothing here uses are left out.
    """
    reader.skip(4)
    if (version := reader.number(_U32)) not in (2, 3):
        is_swapped = not version & 0xFFFF
        what = (
            "made for machines of another byte order"
            if is_swapped
            else "of an unknown version of GGUF"
        )
        raise MalformedHeader(f"it is {what}")
    tensors = reader.count("tensors", MAX_TENSORS)
    for _ in range(reader.count("keys", MAX_KEYS)):
        key = reader.text("key", MAX_KEY_BYTES)
        if not key or key in values:
            raise MalformedHeader("it has a key twice" if key else "it has a key without a name")
        values[key] = _read_value(reader, key, reader.number(_U32))
    return tensors


def _read_value(reader: _Reader, key: str, type: int) -> Value:
    if type == TEXT:
        return _read_text(reader, key)
    if type == ARRAY:
        return _read_series(reader, key, reader.number(_U32))
    return reader.number(_number_format(type))


def _number_format(type: int) -> struct.Struct:
    if type not in NUMBER_FORMATS:
        raise MalformedHeader("it has values of an unknown kind")
    return NUMBER_FORMATS[type]


def _read_text(reader: _Reader, key: str) -> str:
    length = reader.number(_U64)
    start = reader.skip(length)
    if key not in WANTED_TEXTS or length > MAX_TEXT_BYTES:
        return ""
    reader.at = start
    return reader.decode(length, key)


def _read_series(reader: _Reader, key: str, type: int) -> Series:
    count = reader.number(_U64)
    if type == TEXT:
        reader.skip_texts(count)
        return Series(count)
    layout = _number_format(type)  # of arrays within arrays, too, llama.cpp wants to know nothing
    start = reader.skip(count * layout.size)
    if count > MAX_LAYERS or type in (6, 12) or not key.endswith(WANTED_ARRAYS):
        return Series(count)
    reader.at = start
    return Series(count, reader.numbers(struct.Struct(f"<{count}{layout.format[1:]}")))


def _alignment(values: Mapping[str, Value]) -> int:
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise MalformedHeader("its general.alignment isn't a power of two")
    return alignment


class _TensorSizes:
    """What a header says of the tensors, checked as llama.cpp does; `end` is where they end.

    Raises MalformedHeader also where the file, of that `size`, is shorter.
    """

    def __init__(
        self, reader: _Reader, count: int, values: Mapping[str, Value], size: int | None
    ) -> None:
        alignment = _alignment(values)
        self.bytes = self.numbers = 0
        names = set()
        offset = ends = 0  # with the gap before the next one, and without
        for _ in range(count):
            names.add(reader.text("tensor name", MAX_NAME_BYTES))
            if (dimensions := reader.number(_U32)) > 4:
                raise MalformedHeader(f"it has a tensor of {dimensions:,} dimensions")
            *shape, type, begins = reader.numbers(_TENSORS[dimensions])
            if begins != offset:
                raise MalformedHeader("its tensors don't follow each other")
            numbers, extent = _tensor_extent(shape, type)
            self.numbers += numbers
            self.bytes += extent
            ends = offset + extent
            offset = ends + -ends % alignment
        if len(names) < count:
            raise MalformedHeader("it has a tensor twice")
        self.end = reader.at + -reader.at % alignment + ends if count else reader.at
        if self.end > MAX_SIZE:
            raise MalformedHeader("its tensors are larger than any disk")
        if size is not None and self.end > size:
            raise MalformedHeader(f"it ends after {size:,} of {self.end:,} bytes")


def _tensor_extent(shape: list[int], type: int) -> tuple[int, int]:
    """Return how many numbers a tensor has, and how many bytes."""
    if type not in BLOCK_SIZES:
        raise MalformedHeader("it has tensors of an unknown type")
    numbers = 1
    for length in shape:
        numbers *= length
    block, size = BLOCK_SIZES[type]
    if numbers > MAX_SIZE or max(shape, default=1) > MAX_SIZE:
        raise MalformedHeader("its tensors are larger than any disk")
    if (shape[0] if shape else 1) % block:
        raise MalformedHeader("it has tensors with half a block")
    return numbers, numbers // block * size
