"""Files that go along with a prompt: text, code, Markdown, CSV, and the text of PDFs.

Everything that isn't an ordinary file full of text is refused with one sentence, and nothing here
can hang: a pipe or a device is detected before it is opened.
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
from baton.core.messages import Attachment
from baton.core.sanitiser import one_line

MAX_TEXT_BYTES = 4 * 10**6
"""How many bytes of text a file may hold."""

MAX_PDF_BYTES = 64 * 10**6
"""How many bytes a PDF may have; its text may have as many as any other."""

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_ENCODINGS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_MENTION = re.compile(r"""(?:(?<=[\s(\["'])|^)@(?:"([^"\n]+)"|(\S+))""")
_FILE_NAME = re.compile(r"/|[^.]\.\w{1,8}\Z")
_TRAILING_PUNCTUATION = ".,;:!?)]}'\""


def read_attachment(path: Path, limit: int = MAX_TEXT_BYTES) -> Attachment:
    """Read a file's text, at most `limit` bytes of it. Raises ConfigError with one sentence.

    The message names the path as it was given.
    """
    name = one_line(str(path))
    data = _read_bytes(path, name, max(limit, MAX_PDF_BYTES))
    if b"%PDF-" in data[:1024]:
        text = _read_pdf_text(data, name, limit)
    elif len(data) > limit:
        raise _too_large_error(name, limit)
    else:
        text = decode_text(data, name)
    if not text.strip():
        raise ConfigError(f"{name} is empty.", "Choose a file with text in it.")
    return Attachment(one_line(path.name or str(path)), text, len(data))


def decode_text(data: bytes, name: str) -> str:
    """Return the text in UTF-8 bytes, or in UTF-16 ones that say so. Raises ConfigError.

    Nothing is guessed or replaced: a wrong guess would change what the worker reads unseen.
    """
    encoding = next((codec for mark, codec in _ENCODINGS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise _binary_error(name) from None
        raise ConfigError(
            f"{name} is not UTF-8 text (byte {error.start:,}), so nothing of it was sent.",
            "`iconv -f latin1 -t utf-8` converts it, `iconv -c -t utf-8` drops bad bytes.",
        ) from error
    if "\0" in text:
        raise _binary_error(name)
    return text


def mentioned_files(text: str) -> list[Path]:
    """Return the existing files that a prompt names as `@path` or `@"a path"`, each once.

    Mail addresses and @names of nothing stay plain text.
    """
    found: dict[Path, None] = {}
    for quoted, bare in _MENTION.findall(text):
        candidates = [quoted] if quoted else [bare, bare.rstrip(_TRAILING_PUNCTUATION)]
        for candidate in candidates:
            if candidate and (path := _existing_path(candidate)) and path.is_file():
                found[path] = None
                break
    return list(found)


def missing_files(text: str) -> list[str]:
    """Return the `@paths` in a prompt that look like files which aren't there, each once.

    With a slash or an ending they do; an @name alone may mean anything.
    """
    found: dict[str, None] = {}
    for quoted, bare in _MENTION.findall(text):
        name = quoted or bare.rstrip(_TRAILING_PUNCTUATION)
        if _FILE_NAME.search(name) and _existing_path(name) is None:
            found[name] = None
    return list(found)


def _existing_path(candidate: str) -> Path | None:
    try:
        path = Path(candidate).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long, a ~user that isn't there, a null byte
        return None


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


def _binary_error(name: str) -> ConfigError:
    return ConfigError(f"{name} is not text.", "Text, code, Markdown, CSV and PDF can be read.")


def _read_pdf_text(data: bytes, name: str, limit: int) -> str:
    from pypdf import PdfReader
    from pypdf.errors import FileNotDecryptedError

    # It would print its doubts about a file's syntax into the middle of the screen.
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    pages: list[str] = []
    size = 0
    try:
        for page in PdfReader(io.BytesIO(data)).pages:
            pages.append(page.extract_text().encode("utf-8", "replace").decode().strip())
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
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise ConfigError(
            f"{name} has no text in it, only pictures of pages.", "Run it through OCR first."
        )
    return text
