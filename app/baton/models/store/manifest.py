"""A model's record: a small file beside it, replaced as a whole, and checked when it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.gguf.split_files import part_names
from baton.models.model_types import ModelRecord
from baton.models.store.store_files import (
    RECORD_FILE,
    check_model_file,
    check_model_id,
    is_model_id,
    is_plain_name,
    is_sha256,
    open_regular_file,
)

RECORD_SCHEMA = 1
"""The version of the records; a later Baton writes a higher one."""

MAX_RECORD_BYTES = 1 << 16
"""How many bytes a record may have."""

T = TypeVar("T")

_MAX_MODEL_BYTES = 1 << 50


class UnreadableRecord(Exception):
    """A record can't be used; the text is a part of a sentence saying why."""


@frozen_dataclass
class _SchemaOnly:
    schema: int


@frozen_dataclass
class _RecordFile:
    record: ModelRecord


def load_record(folder: Path) -> ModelRecord | None:
    """Return what is recorded in a model's folder, None if nothing is. Raises UnreadableRecord."""
    data = read_limited(folder / RECORD_FILE, MAX_RECORD_BYTES)
    if data is None:
        return None
    record = _decode_record(data)
    if record.id != folder.name:
        raise UnreadableRecord(f"it is the record of {one_line(record.id, 80)!r}")
    return record


def list_records(folder: Path) -> Iterator[tuple[Path, ModelRecord | str | None]]:
    """Yield each folder of the models folder with its record, by name.

    In place of a record that can't be used stands a part of a sentence; None where there is no
    record.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
    except OSError:
        return
    for name in names:
        model = folder / name
        try:
            if model.is_symlink():
                yield model, "it is a link to somewhere else"
            else:
                yield model, load_record(model) if is_model_id(name) else None
        except UnreadableRecord as error:
            yield model, str(error)


def read_limited(path: Path, limit: int) -> bytes | None:
    """Return an ordinary file's contents, None where there is none. Raises UnreadableRecord.

    A link isn't followed, and a pipe never waited for.
    """
    try:
        with open_regular_file(path, itself=True) as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableRecord(error.strerror or str(error)) from error
    if len(data) > limit:
        raise UnreadableRecord("it is too large")
    return data


def _decode_record(data: bytes) -> ModelRecord:
    if decode_json(data, _SchemaOnly).schema != RECORD_SCHEMA:
        raise UnreadableRecord("it was written by another version of Baton")
    record = decode_json(data, _RecordFile).record
    try:
        check_record(record)
    except ConfigError as error:
        raise UnreadableRecord(error.message.rstrip(".")) from error
    return record


def decode_json(data: bytes, form: type[T]) -> T:
    """Return what JSON says, of that form. Raises UnreadableRecord."""
    import msgspec

    try:
        return msgspec.json.decode(data, type=form)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:  # bytes that aren't UTF-8
        raise UnreadableRecord(
            f"it isn't what it should be ({one_line(str(error), 120)})"
        ) from error


def encode_record(record: ModelRecord) -> bytes:
    """Return a record's file contents. Raises ConfigError."""
    return encode_json({"schema": RECORD_SCHEMA, "record": record})


def encode_json(content: Mapping[str, Any]) -> bytes:
    """Return indented JSON. Raises ConfigError where a text can't be encoded."""
    import msgspec

    try:
        return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise ConfigError(
            "A name isn't text that can be written down.", "Rename the file or its folder."
        ) from error


def clean_record(record: ModelRecord) -> ModelRecord:
    """Return a record whose foreign texts are cut to one line of a terminal."""
    return replace(
        record,
        name=one_line(record.name, 120) or record.id,
        licence=one_line(record.licence, 120),
        wrong=one_line(record.wrong, 400),
        fault=one_line(record.fault, 400),
        note=one_line(record.note, 200),
    )


def check_record(record: ModelRecord) -> None:
    """Raise ConfigError where a record could lead out of the folder, or has impossible values."""
    check_model_id(record.id)
    if not record.link:
        check_model_file(record.file)
    elif not is_plain_name(record.file):
        raise ConfigError(
            f"A model's file can't be named {one_line(record.file, 80)!r} here.",
            "Rename it, or link it under another name.",
        )
    elif not (Path(record.link).is_absolute() and record.link.isprintable()):
        raise ConfigError(
            f"{one_line(record.link, 80)!r} can't be linked.", "Name the file with its whole path."
        )
    for sha256 in (record.sha256, *(part.sha256 for part in record.parts)):
        if sha256 and not is_sha256(sha256):
            raise ConfigError(f"{one_line(sha256, 80)!r} is no sha256.", "It has 64 hex digits.")
    if record.parts and len(record.parts) != len(part_names(record.file)):
        raise ConfigError(f"{record.id} has another number of parts.", "Look at its source again.")
    sizes = (
        record.size,
        *(part.size for part in record.parts),
        record.stamp.size if record.stamp is not None else 0,
    )
    if not all(0 <= size < _MAX_MODEL_BYTES for size in sizes):
        raise ConfigError(f"No model has {sizes[0]} bytes.", "Look at its source again.")
