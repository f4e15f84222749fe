"""Files that go along with a prompt: text, code, Markdown, CSV, and the text of PDFs.

Everything that isn't an ordinary file full of text is refused with one sentence, and nothing here
can hang: a pipe or a device is detected before it is opened. What of a PDF has no meaning is
counted.
"""

from __future__ import annotations

import io
import logging
import os
import re
import stat
from pathlib import Path

from baton.core.byte_format import show_size
from baton.core.errors import ConfigError
from baton.core.messages import EMPTY_PAGE, NO_MEANING, Attachment
from baton.core.sanitiser import one_line, remove_terminal_codes
from baton.workers.text_encoding import decode_text

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
