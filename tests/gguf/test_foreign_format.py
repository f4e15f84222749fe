"""A file that was taken for a model is named as what it is."""

from __future__ import annotations

import pytest

from baton.gguf.header import parse_header
from baton.gguf.metadata import MalformedHeader

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 5\n"


@pytest.mark.parametrize(
    ("data", "what", "hint"),
    [
        (POINTER, "a Git LFS pointer", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "a web page", "Download it again"),
        (b"\xef\xbb\xbf\n <HTML lang=en>", "a web page", "Download it again"),
        (b"<!-- cached -->\n<html>", "a web page", "Download it again"),
        (b"<?xml version='1.0'?><Error><Code>AccessDenied", "an XML document", "Download it again"),
        (b'{"error":"Repository not found"}', 'JSON that begins \'{"error":"Repos', "Download"),
        (b"Entry not found", "a text that begins 'Entry not found'", "Download it again"),
        ("Zugriff verweigert: ü".encode() * 400, "a text that begins 'Zugriff", "Download"),
        (b"PK\x03\x04\x14\0\0\0m.gguf", "a zip archive", "Unpack it"),
        (b"PK\x03\x04\0\0\x08\x08archive/data.pkl", "a PyTorch file", "as GGUF"),
        (b"\x80\x02}q\x00", "a PyTorch file", "as GGUF"),
        (b'\x48\x02\0\0\0\0\0\0{"__metadata__":{}', "a safetensors file", "as GGUF"),
        (b"tjgg\x03\0\0\0", "a GGML file", "as GGUF"),
        (b"\x1f\x8b\x08\0", "an archive", "Unpack it"),
        (b"m" * 257 + b"ustar\x0000" + bytes(200), "an archive", "Unpack it"),
        (b"%PDF-1.7", "a PDF", "Download it again"),
        (bytes(9000), "zeros alone", "Download it again"),
    ],
)
def test_what_is_not_a_gguf_file_is_named(data: bytes, what: str, hint: str) -> None:
    with pytest.raises(MalformedHeader, match="it isn't a GGUF file, but ") as refused:
        parse_header(data, len(data))
    assert what in str(refused.value)
    assert hint in refused.value.hint


def test_unknown_bytes_are_only_no_gguf_file() -> None:
    with pytest.raises(MalformedHeader, match=r"it isn't a GGUF file$") as refused:
        parse_header(b"\x7fELF\x02\x01\x01" + bytes(range(256)))
    assert refused.value.hint == ""
