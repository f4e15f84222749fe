"""What a file is that was taken for a model: said by its first bytes."""

from __future__ import annotations

import re
from contextlib import suppress

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


def foreign_format(data: bytes) -> tuple[str, str]:
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
