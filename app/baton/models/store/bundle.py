"""A folder of models to carry to another machine: their files, and one that describes them.

What comes on a stick is untrusted: no path or name in it may lead out of the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from baton.core.catalogue_types import UNKNOWN_SOURCE, FilePart, Source
from baton.core.errors import ConfigError, ModelFileError
from baton.core.sanitiser import one_line
from baton.gguf.split_files import name_without_part, part_paths
from baton.models.model_types import ModelRecord
from baton.models.store.manifest import (
    RECORD_SCHEMA,
    UnreadableRecord,
    check_record,
    clean_record,
    decode_json,
    encode_json,
    read_limited,
)
from baton.models.store.store_files import is_model_file, is_regular_file, is_sha256, replace_json

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
    """Describe models whose files lie in a folder, beside what it held before.

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
            f"{_path_text(folder)} can't be written: {error.strerror or error}.",
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
            f"{_path_text(folder / BUNDLE_FILE)} can't be used: {one_line(why).rstrip('.')}.",
            "Export the models again, into an empty folder.",
        ) from error
    return records


def _portable_record(record: ModelRecord) -> ModelRecord:
    """Return the part of a record that is exported: not where and how the file lies here."""
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
    """Return the error for a folder without a description, with the models that lie in it."""
    try:
        files = sorted(path.name for path in folder.iterdir() if is_model_file(path.name))
    except OSError as error:
        return ModelFileError(
            f"{_path_text(folder)} can't be read: {error.strerror or error}.",
            "Check its owner and permissions.",
        )
    hint = "Name a .gguf file."
    if files:
        more = f" ({len(files)} are in it)" if len(files) > 1 else ""
        hint = f"Name the model files in it, such as {one_line(files[0])!r}{more}."
    return ModelFileError(
        f"{_path_text(folder)} is a folder that `baton models export` didn't make.", hint
    )


def _incomplete_error(path: Path, what: str) -> ModelFileError:
    return ModelFileError(
        f"{_path_text(path)} {what}; nothing was taken from this folder.",
        "Copy the folder again, or export the models again.",
    )


def _path_text(path: Path) -> str:
    return one_line(str(path), 300)
