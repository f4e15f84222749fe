"""Files that go along with a prompt: text, code, Markdown, CSV, and the text of PDFs.

Everything that isn't an ordinary file full of text is refused with one sentence, and nothing here
can hang: a pipe or a device is detected before it is opened. What of a PDF has no meaning is
counted.

A guess at an encoding that is wrong would change what a worker reads without a word. So only
Unicode is read: with its mark, or without one where NUL bytes and the scripts show which it is.
What an older encoding likely is stands in the sentence that refuses the bytes, with the command
that converts them.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import re
import stat
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

from baton.core.errors import ConfigError
from baton.core.machine import show_size
from baton.core.messages import EMPTY_PAGE, NO_MEANING, Attachment
from baton.core.sanitiser import one_line, remove_terminal_codes

MAX_TEXT_BYTES = 4 * 10**6
"""How many bytes of text a file may hold."""

MAX_PDF_BYTES = 64 * 10**6
"""How many bytes a PDF may have; its text may have as many as any other."""

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_UNREADABLE = re.compile(
    "[\0-\x08\x0b\x0e-\x1f\x7f-\x9f\ufffd-\uffff\ue000-\uf8ff\U000f0000-\U0010ffff]"
)
"""What stands in a PDF's text for a glyph whose meaning its font doesn't say."""

_GLYPH_NAMES = re.compile(r"/(?:gid|cid|glyph|index)\d+|(?:/[A-Za-z]\d{1,4}){3,}")
"""How pypdf writes glyphs of which it knows the name only."""

_BULLETS = str.maketrans("\uf0b7\uf0a7\uf0d8\uf0fc\uf076\uf0e0", "•▪➢✓❖→")
"""Glyphs of Symbol and Wingdings, which word processors put before the lines of a list."""

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),  # before the mark of UTF-16, with which it begins
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_ESCAPES = {b"\x1b$B": "iso-2022-jp", b"\x1b$@": "iso-2022-jp", b"\x1b$)C": "iso-2022-kr"}
_UNICODE = ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE")
_MULTIBYTE = ("CP932", "EUC-JP", "GB18030", "BIG5-HKSCS", "CP949")
_SINGLE_BYTE = (
    "WINDOWS-1252 KOI8-R KOI8-U WINDOWS-1251 CP866 ISO-8859-5 MAC-CYRILLIC WINDOWS-1250 ISO-8859-2"
    " WINDOWS-1253 WINDOWS-1254 WINDOWS-1255 WINDOWS-1256 CP874 WINDOWS-1257 WINDOWS-1258"
    " MACINTOSH CP850 CP437"
)
_OLDER = (*_MULTIBYTE, *_SINGLE_BYTE.split())
"""Encodings as `iconv` calls them. Of two as likely ones, the first is meant."""

_WESTERN = "‘’“”„–—…€äöüßÄÖÜáàâãåæçéèêëíìîïñóòôøúùûÉÈÀÇÑÅØœ¿¡«»£§°·•™©®\xa0´".encode("cp1252")  # noqa: RUF001
"""What a text with few bytes outside of ASCII has of them if it is Western."""

_CONTROLS = re.compile("[\x01-\x08\x0e-\x1a\x7f]")
_ORDINARY_CONTROLS = dict.fromkeys(b"\a\b\t\n\f\r\x1b", " ")
_COMMON_NAMES = {"CP932": "Shift-JIS", "GB18030": "GBK", "BIG5-HKSCS": "Big5", "CP949": "EUC-KR"}

_MIN_CLEAR_BYTES = 8
"""With fewer bytes outside of ASCII nothing is said of their encoding, unless each stands alone."""

_CHAOS, _COHERENCE = 0.03, 0.05
"""How much worse than the best a reading may be and still count as likely (charset-normalizer's
measures). Over 45 texts in 24 encodings it named 38 rightly, and the others have up to 7 bytes or
are Central European; of 1,616 pieces of programs and pictures it took none for Unicode."""


def read_attachment(path: Path, limit: int = MAX_TEXT_BYTES) -> Attachment:
    """Read a file's text, at most `limit` bytes of it. Raises ConfigError with one sentence.

    The message names the path as it was given.
    """
    name = one_line(str(path))
    data = _read_bytes(path, name, max(limit, MAX_PDF_BYTES))
    # A page about PDF isn't one, and a mail's head may stand before one.
    if data.startswith(b"%PDF-") or (b"%PDF-" in data[:1024] and b"endobj" in data):
        text = _read_pdf_text(data, name, limit)
    elif len(data) > limit:
        raise _too_large_error(name, limit)
    else:
        text = decode_text(data, name)
    if not text.strip():
        raise ConfigError(f"{name} is empty.", "Choose a file with text in it.")
    return Attachment(one_line(path.name or str(path)), text, len(data))


def _read_bytes(path: Path, name: str, limit: int) -> bytes:
    """Read an ordinary file, at most one byte more than `limit`."""
    try:
        _require_ordinary_file(path.stat().st_mode, name)
        # Without blocking, in case the file was changed for a pipe just now.
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            _require_ordinary_file(os.fstat(file.fileno()).st_mode, name)
            data = file.read(limit + 1)
    except FileNotFoundError:
        raise ConfigError(f"There is no file {name}.", "Check the path.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{name} can't be read: {why}.", "Check the path and its owner."
        ) from error
    if len(data) > limit:
        raise _too_large_error(name, limit)
    return data


def _require_ordinary_file(mode: int, name: str) -> None:
    if stat.S_ISDIR(mode):
        raise ConfigError(f"{name} is a folder.", "Name the files in it one by one.")
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{name} is not an ordinary file.", "Pipe it into `baton ask` instead.")


def _too_large_error(name: str, limit: int) -> ConfigError:
    return ConfigError(
        f"{name} holds more than {show_size(limit)}.", "Attach the part of it that matters."
    )


def _read_pdf_text(data: bytes, name: str, limit: int) -> str:
    """Return the text of a PDF's pages, with a mark for each page and glyph that has none."""
    from pypdf import PdfReader
    from pypdf.errors import FileNotDecryptedError

    # It would print its doubts about a file's syntax into the middle of the screen.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    pages: list[str] = []
    size = 0
    try:
        for page in PdfReader(io.BytesIO(data)).pages:
            text = page.extract_text().encode("utf-8", "replace").decode()
            text = _GLYPH_NAMES.sub(lambda names: NO_MEANING * names[0].count("/"), text)
            pages.append(remove_terminal_codes(text).strip())
            size += len(pages[-1])
            if size > limit:
                raise _too_large_error(name, limit)
    except FileNotDecryptedError:
        raise ConfigError(
            f"{name} needs a password.", "Save it without one and try again."
        ) from None
    except ConfigError:
        raise
    except Exception as error:  # pypdf warns that broken files raise anything
        raise ConfigError(f"{name} is a broken PDF.", "Save it as text and attach that.") from error
    texts = [_UNREADABLE.sub(NO_MEANING, page.translate(_BULLETS)) for page in pages]
    if not "".join(texts).strip(f"{NO_MEANING} \n"):
        why = "its fonts don't say what they write" if any(texts) else "only pictures of pages"
        raise ConfigError(f"{name} has no text in it, {why}.", "Run it through OCR first.")
    return "\n\n".join(text or EMPTY_PAGE.format(number) for number, text in enumerate(texts, 1))


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
    if data.isascii() and (shown := [codec for sign, codec in _ESCAPES.items() if sign in data]):
        return shown[0]
    return _wide_encoding(data) if b"\0" in data and not _is_list(data) else "utf-8"


def _wide_encoding(data: bytes) -> str:
    """Return which UTF-16 or UTF-32 bytes with NULs are in, "utf-8" if that isn't clear.

    A text has NULs in every other place, or is in fewer scripts than with its bytes swapped. What
    isn't text holds characters that there aren't.
    """
    data = data[: len(data) // 4 * 4 or len(data) // 2 * 2]  # the last character may be cut
    upper = [set(data[place::4]) for place in range(4)]
    if upper[3] == {0} and max(upper[2], default=17) <= 16:
        encoding = "UTF-32LE"
    elif upper[0] == {0} and max(upper[1], default=17) <= 16:
        encoding = "UTF-32BE"
    elif 3 * data.count(0) >= len(data):
        encoding = "UTF-16BE" if data[::2].count(0) > data[1::2].count(0) else "UTF-16LE"
    else:
        little, big = (_scripts(data.decode(name, "replace")) for name in _UNICODE[:2])
        if little == big or 10 * min(little, big) > len(data):
            return "utf-8"
        encoding = "UTF-16LE" if little < big else "UTF-16BE"
    signs = Counter(data.decode(encoding, "replace").translate(_ORDINARY_CONTROLS))
    odd = sum(n for sign, n in signs.items() if unicodedata.category(sign) in ("Cc", "Cn", "Co"))
    return encoding if 20 * (odd + signs["\ufffd"]) < signs.total() else "utf-8"


def _scripts(text: str) -> int:
    return len({unicodedata.name(sign, "").partition(" ")[0] for sign in set(text)})


def _is_list(data: bytes) -> bool:
    """Whether NULs only end texts in UTF-8, as those of `find -print0`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return data.count(0) < 0.4 * len(data) and not _CONTROLS.search(text)


def _likely_encoding(data: bytes) -> str:
    """Return the encoding that bytes without a NUL are likely in; "" where none is."""
    from charset_normalizer import from_bytes

    high = data.translate(None, bytes(range(128)))
    if len(high) < _MIN_CLEAR_BYTES:
        is_alone = not any(a > 127 < b for a, b in pairwise(data))
        return "WINDOWS-1252" if high and is_alone else ""
    if 6 * len(high) < len(data) and not high.translate(None, _WESTERN):
        return "WINDOWS-1252"
    found = list(from_bytes(data, cp_isolation=[*_UNICODE, *_OLDER]))
    likely, multibyte = set[str](), set(map(_codec, _MULTIBYTE))
    for match in found:
        is_clear = match.coherence >= found[0].coherence - _COHERENCE
        is_clear |= match.encoding in multibyte
        if is_clear and match.chaos <= found[0].chaos + _CHAOS:
            likely.update((match.encoding, *match.could_be_from_charset))
    best = next((name for name in (*_OLDER, *_UNICODE) if _codec(name) in likely), "")
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
        shown = encoding.upper().removesuffix("-SIG")
        return ConfigError(
            f"{name} is broken {shown} text (byte {at:,}), so none of it was sent.",
            f"`iconv -c -f {shown} -t UTF-8` drops what is broken.",
        )
    likely = _likely_encoding(data)
    seems = f" but seems to be {_COMMON_NAMES.get(likely, likely)}" if likely else ""
    return ConfigError(
        f"{name} is not UTF-8 text (byte {at:,}){seems}, so none of it was sent.",
        f"`iconv -f {likely or 'ENCODING'} -t UTF-8` converts it.",
    )


def _binary_error(name: str) -> ConfigError:
    return ConfigError(f"{name} is not text.", "Text, code, Markdown, CSV and PDF can be read.")
