"""What is noted beside an installation: small files, always whole, read with suspicion."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from baton.download.releases import RELEASE_SCHEMA, Build, Receipt, Switch
from baton.platform.durable_files import sync_folder

MAX_NOTE_BYTES = 1 << 20

T = TypeVar("T")


def read_receipt(path: Path) -> Receipt:
    """Return a receipt; an empty one where there is none, or none that can be read."""
    return _read_note(path, Receipt) or Receipt()


def read_switch(path: Path) -> Switch | None:
    """Return which switch is under way, None where none is."""
    return _read_note(path, Switch)


def read_build(path: Path) -> Build | None:
    """Return what is noted of a binary, None where nothing is."""
    return _read_note(path, Build)


def write_note(path: Path, note: Receipt | Switch | Build) -> None:
    """Write a note so that it is the old one or the new one, whatever happens. Raises OSError."""
    import json

    content: dict[str, Any] = {"schema": RELEASE_SCHEMA, **asdict(note)}
    data = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    draft = path.with_name(f".{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(data.encode("utf-8", "surrogateescape"))
        file.flush()
        os.fchmod(handle, 0o644)  # one that root installed is everybody's
        os.fsync(handle)
    draft.replace(path)
    sync_folder(path.parent)


def _read_note(path: Path, form: type[T]) -> T | None:
    import msgspec

    try:
        if not path.is_file() or path.stat().st_size > MAX_NOTE_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes(), type=form)
    except (OSError, msgspec.MsgspecError, RecursionError, ValueError):
        return None
