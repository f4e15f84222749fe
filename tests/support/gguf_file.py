"""Small GGUF files, made by hand: a header as long as wanted, and a tensor of so many bytes."""

from __future__ import annotations

import struct

_NUMBERS = {
    "block_count": 2,
    "context_length": 512,
    "embedding_length": 64,
    "feed_forward_length": 128,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}


def gguf(words: int = 10, weights: int = 4096, name: str = "Tiny") -> bytes:
    """Return a whole file; each word of its vocabulary makes the header 27 bytes longer."""
    keys = [
        _text("general.architecture") + struct.pack("<I", 8) + _text("llama"),
        _text("general.name") + struct.pack("<I", 8) + _text(name),
        *(_text(f"llama.{key}") + struct.pack("<II", 4, n) for key, n in _NUMBERS.items()),
        _text("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, words)
        + _text("a word of the model") * words,
    ]
    tensor = _text("token_embd.weight") + struct.pack("<IQQIQ", 2, 64, weights // 256, 0, 0)
    header = struct.pack("<4sIQQ", b"GGUF", 3, 1, len(keys)) + b"".join(keys) + tensor
    header += b"\0" * (-len(header) % 32)
    return header + bytes(i % 251 for i in range(256)) * (weights // 256)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()
