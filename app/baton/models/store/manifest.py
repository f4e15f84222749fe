"""Records of models: in a small file beside each, and in a folder of models to carry elsewhere.

A file is replaced as a whole and checked when it is read. What comes on a stick is untrusted: no
path or name in it may lead out of the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

from baton.core.catalogue_types import UNKNOWN_SOURCE, FilePart, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.gguf.split_files import (
    is_plain_name,
    is_sha256,
    name_without_part,
    part_names,
    part_paths,
)
from baton.models.ports import ModelRecord
from baton.models.store.store_files import (
    RECORD_FILE,
    check_model_file,
    check_model_id,
    is_model_file,
    is_model_id,
    is_regular_file,
    open_regular_file,
    replace_json,
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


def decode_json(data: bytes, record_type: type[T]) -> T:
    """Return what JSON says, of that form. Raises UnreadableRecord."""
    import msgspec

    try:
        return msgspec.json.decode(data, type=record_type)
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
            raise ConfigError(f"{one_line(sha256, 80)!r} isn't a sha256.", "It has 64 hex digits.")
    if record.parts and len(record.parts) != len(part_names(record.file)):
        raise ConfigError(f"{record.id} has another number of parts.", "Look at its source again.")
    sizes = (
        record.size,
        *(part.size for part in record.parts),
        record.stamp.size if record.stamp is not None else 0,
    )
    if not all(0 <= size < _MAX_MODEL_BYTES for size in sizes):
        raise ConfigError(f"No model has {sizes[0]} bytes.", "Look at its source again.")


BUNDLE_FILE = "baton-models.json"
"""The file that describes the others."""

MAX_BUNDLE_BYTES = 1 << 20
"""How many bytes it may have."""

_REPO = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}", re.ASCII)
_REVISION = re.compile(r"[0-9a-f]{40}|")


@dataclass(frozen=True, slots=True)
class _Bundle:
    schema: int
    records: tuple[ModelRecord, ...]


def read_bundle(folder: Path) -> Sequence[tuple[ModelRecord, Path]]:
    """Return the models that a folder holds, and where their files are.

    Raises ModelFileError where one isn't there or isn't of its size, and for a description with
    impossible values.
    """
    records = _read_description(folder)
    if records is None:
        raise _undescribed_error(folder)
    for record in records:
        wanted = record.parts or (FilePart(record.size, record.sha256),)
        for path, part in zip(part_paths(folder / record.file), wanted, strict=False):
            if not is_regular_file(path):
                raise _incomplete_error(path, "isn't there")
            if (size := path.stat().st_size) != part.size:
                raise _incomplete_error(path, f"has {size:,} bytes instead of {part.size:,}")
    return [(record, folder / record.file) for record in records]


def bundled_record(folder: Path, record: ModelRecord) -> ModelRecord:
    """Return a model's record as it goes into a folder, with the name that its file gets there.

    No other model there has that name, and no foreign file. Raises ModelFileError where what the
    folder holds can't be read.
    """
    carried = _portable_record(record)
    models = _read_description(folder) or ()
    if again := [model for model in models if model.id == record.id]:
        return replace(carried, file=again[0].file)
    taken = {model.file.lower() for model in models}
    end = record.file[len(name_without_part(record.file)) - 5 : -5] + ".gguf"  # which part it is
    size = record.parts[0].size if record.parts else record.size
    names = (f"{record.id}-{number}{end}" for number in count(2))
    for name in chain([record.file, f"{record.id}{end}"], names):
        if is_model_file(name) and name.lower() not in taken:
            there = (folder / name).lstat().st_size if is_regular_file(folder / name) else None
            if there == size or not os.path.lexists(folder / name):
                return replace(carried, file=name)
    raise AssertionError("names never end")


def write_bundle(folder: Path, records: Sequence[ModelRecord]) -> None:
    """Describe models whose files are in a folder, beside what it held before.

    Raises ConfigError where two models want the same file, ModelFileError where what the folder
    held before can't be read, or nothing can be written.
    """
    models = {record.id: record for record in _read_description(folder) or ()}
    for record in records:
        models[record.id] = _portable_record(record)
        _check_bundled(models[record.id])
    files = [record.file.lower() for record in models.values()]
    if twice := {file for file in files if files.count(file) > 1}:
        raise ConfigError(
            f"Two models have a file named {min(twice)}.", "Export them into two folders."
        )
    content = {"schema": RECORD_SCHEMA, "records": [models[id] for id in sorted(models)]}
    try:
        replace_json(folder / BUNDLE_FILE, encode_json(content))
    except OSError as error:
        raise ModelFileError(
            f"{path_text(folder)} can't be written: {error.strerror or error}.",
            "Check that it is there, that it isn't full, and that you may write there.",
        ) from error


def _read_description(folder: Path) -> Sequence[ModelRecord] | None:
    """Return the records that a folder's description holds, None where there is none."""
    try:
        data = read_limited(folder / BUNDLE_FILE, MAX_BUNDLE_BYTES)
        if data is None:
            return None
        found = decode_json(data, _Bundle)
        if found.schema != RECORD_SCHEMA:
            raise UnreadableRecord("it was written by another version of Baton")
        records = [_portable_record(record) for record in found.records]
        for record in records:
            _check_bundled(record)
        if len({record.id for record in records}) < len(records):
            raise UnreadableRecord("it names a model twice")
    except (UnreadableRecord, ConfigError) as error:
        why = error.message if isinstance(error, ConfigError) else str(error)
        raise ModelFileError(
            f"{path_text(folder / BUNDLE_FILE)} can't be used: {one_line(why).rstrip('.')}.",
            "Export the models again, into an empty folder.",
        ) from error
    return records


def _portable_record(record: ModelRecord) -> ModelRecord:
    """Return the part of a record that is exported: not where and how the file is stored here."""
    plain = replace(record, link="", stamp=None, forced=False, paused=False, wrong="", added=0.0)
    return clean_record(replace(plain, source=_credible_source(record.source)))


def _credible_source(source: Source) -> Source:
    """Return a file's source, if it is a possible one."""
    if source.url:
        plain = source.url.startswith(("https://", "http://")) and source.url.isprintable()
        return source if plain and not source.repo and len(source.url) < 2000 else UNKNOWN_SOURCE
    known = _REPO.fullmatch(source.repo) and _REVISION.fullmatch(source.revision)
    inside = source.file.isprintable() and ".." not in source.file.split("/")
    return source if known and inside and len(source.file) < 1000 else UNKNOWN_SOURCE


def _check_bundled(record: ModelRecord) -> None:
    """Raise ConfigError where a record doesn't describe a file beside it."""
    check_record(record)
    if not is_model_file(record.file) or record.size < 1 or not is_sha256(record.sha256):
        raise ConfigError(
            f"{record.id} isn't verified yet.", f"Run `baton models verify {record.id}` first."
        )


def _undescribed_error(folder: Path) -> ModelFileError:
    """Return the error for a folder without a description, with the models that are in it."""
    try:
        files = sorted(path.name for path in folder.iterdir() if is_model_file(path.name))
    except OSError as error:
        return ModelFileError(
            f"{path_text(folder)} can't be read: {error.strerror or error}.",
            "Check its owner and permissions.",
        )
    hint = "Name a .gguf file."
    if files:
        more = f" ({len(files)} are in it)" if len(files) > 1 else ""
        hint = f"Name the model files in it, such as {one_line(files[0])!r}{more}."
    return ModelFileError(
        f"{path_text(folder)} is a folder that `baton models export` didn't make.", hint
    )


def _incomplete_error(path: Path, what: str) -> ModelFileError:
    return ModelFileError(
        f"{path_text(path)} {what}; nothing was taken from this folder.",
        "Copy the folder again, or export the models again.",
    )


def path_text(path: Path) -> str:
    """Return a path as messages show it: on one line, cut where it is too long."""
    return one_line(str(path), 300)
