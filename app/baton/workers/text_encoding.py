"""Bytes to text: what is certain is read, for all else the likely encoding is named.

A guess that is wrong would change what a worker reads without a word. So only Unicode is read: with
its mark, or without one where NUL bytes show which it is. What an older encoding likely is stands
in the sentence that refuses the bytes, with the command that converts them.
"""

from __future__ import annotations

import codecs
import re
from itertools import pairwise

from baton.core.errors import ConfigError
from baton.core.sanitiser import remove_terminal_codes

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),  # before the mark of UTF-16, with which it begins
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_UNICODE = ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE")
_MULTIBYTE = ("CP932", "EUC-JP", "GB18030", "BIG5-HKSCS", "CP949")
_SINGLE_BYTE = (
    "WINDOWS-1252 KOI8-R KOI8-U WINDOWS-1251 CP866 ISO-8859-5 MAC-CYRILLIC WINDOWS-1250 ISO-8859-2"
    " WINDOWS-1253 WINDOWS-1254 WINDOWS-1255 WINDOWS-1256 CP874 WINDOWS-1257 WINDOWS-1258"
    " MACINTOSH CP850 CP437"
)
_OLDER = (*_MULTIBYTE, *_SINGLE_BYTE.split())
"""Encodings as `iconv` calls them. Of two as likely ones, the first is meant."""

_CONTROLS = re.compile("[\x01-\x08\x0e-\x1a\x7f]")
_COMMON_NAMES = {"CP932": "Shift-JIS", "GB18030": "GBK", "BIG5-HKSCS": "Big5", "CP949": "EUC-KR"}

_MIN_CLEAR_BYTES = 8
"""With fewer bytes outside of ASCII nothing is said of their encoding, unless each stands alone."""

_CHAOS, _COHERENCE = 0.03, 0.05
"""How much worse than the best a reading may be and still count as likely (charset-normalizer's
measures). Over 45 texts in 24 encodings it named 38 rightly, and the others have up to 7 bytes or
are Central European; of 1,616 pieces of programs and pictures it took none for Unicode."""


def decode_text(data: bytes, name: str) -> str:
    """Return the text in Unicode bytes, without terminal codes. Raises ConfigError.

    The message calls the bytes by `name`.
    """
    encoding = _certain_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable_error(data, name, encoding, error.start) from None
    if "\0" in text:
        raise _binary_error(name)
    return remove_terminal_codes(text)


def _certain_encoding(data: bytes) -> str:
    """Return the encoding that a mark, NUL bytes or escape sequences show, else UTF-8."""
    if marked := next((codec for mark, codec in _MARKS if data.startswith(mark)), ""):
        return marked
    if data.isascii() and (b"\x1b$B" in data or b"\x1b$@" in data):
        return "iso-2022-jp"
    if b"\0" not in data or _is_list(data):
        return "utf-8"
    likely = _likely_encoding(data)
    return likely if likely in _UNICODE else "utf-8"


def _is_list(data: bytes) -> bool:
    """Whether NULs only end texts in UTF-8, as those of `find -print0`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return data.count(0) < 0.4 * len(data) and not _CONTROLS.search(text)


def _likely_encoding(data: bytes) -> str:
    """Return the encoding that bytes are likely in, as `iconv` calls it; "" where none is."""
    from charset_normalizer import from_bytes

    data = data[: len(data) // 4 * 4] if b"\0" in data else data  # the last character may be cut
    has_nul, high = b"\0" in data, data.translate(None, bytes(range(128)))
    if not has_nul and len(high) < _MIN_CLEAR_BYTES:
        is_alone = not any(a > 127 < b for a, b in pairwise(data))
        return "WINDOWS-1252" if high and is_alone else ""
    found = list(from_bytes(data, cp_isolation=[*_UNICODE, *_OLDER]))
    likely, multibyte = set[str](), set(map(_codec, _MULTIBYTE))
    for match in found:
        is_clear = match.coherence >= found[0].coherence - _COHERENCE
        is_clear |= match.encoding in multibyte and not has_nul
        if is_clear and match.chaos <= found[0].chaos + _CHAOS:
            likely.update((match.encoding, *match.could_be_from_charset))
    names = (*_UNICODE, *_OLDER) if has_nul else (*_OLDER, *_UNICODE)
    best = next((name for name in names if _codec(name) in likely), "")
    if best == "UTF-16LE" and data[::2].count(0) > data[1::2].count(0):
        return "UTF-16BE"
    if best == "WINDOWS-1250" and not any(0x80 <= byte < 0xA0 for byte in high):
        return "ISO-8859-2"
    return best


def _codec(encoding: str) -> str:
    """Return what charset-normalizer calls an encoding."""
    return codecs.lookup(encoding).name.replace("-", "_")


def _undecodable_error(data: bytes, name: str, encoding: str, at: int) -> ConfigError:
    if encoding == "utf-8" and b"\0" in data:
        return _binary_error(name)
    replaced = data.decode("utf-8", "replace")
    good = sum(sign > "\x7f" and sign != "\ufffd" for sign in replaced)
    if encoding != "utf-8" or good > 2 * replaced.count("\ufffd"):
        return ConfigError(
            f"{name} is broken {encoding.upper()} text (byte {at:,}), so nothing of it was sent.",
            f"`iconv -c -f {encoding.upper()} -t UTF-8` drops what is broken.",
        )
    likely = _likely_encoding(data)
    seems = f" but seems to be {_COMMON_NAMES.get(likely, likely)}" if likely else ""
    return ConfigError(
        f"{name} is not UTF-8 text (byte {at:,}){seems}, so nothing of it was sent.",
        f"`iconv -f {likely or 'ENCODING'} -t UTF-8` converts it.",
    )


def _binary_error(name: str) -> ConfigError:
    return ConfigError(f"{name} is not text.", "Text, code, Markdown, CSV and PDF can be read.")
