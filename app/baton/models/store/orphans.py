"""What lies in the models folder without a purpose, and what somebody else has put there.

Only what Baton gives such names to is ever counted as left over. Whatever else is found is told of
and left alone: it may be gigabytes of the person's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from baton.core.byte_format import show_size
from baton.core.errors import ConfigError
from baton.core.sanitiser import one_line
from baton.models.model_types import ModelRecord
from baton.models.store.deletion import delete_files
from baton.models.store.folder_changes import is_locked, is_regular_file
from baton.models.store.manifest import list_records
from baton.models.store.safe_names import DRAFT_PREFIX, RECORD_FILE, is_baton_file, is_model_id


def find_leftovers(folder: Path) -> Iterator[Path]:
    """Yield what belongs to no model, or to one that is here anyway.

    To be asked while nobody else changes the folder: what is being written looks the same.
    """
    found = list(list_records(folder))
    linked = {link for _, record in found for link in _linked_paths(record)}
    for model, record in found:
        if not isinstance(record, str) and is_model_id(model.name):
            yield from _leftovers_in(model, record, linked)


def delete_leftover(folder: Path, path: Path) -> int:
    """Delete a file of a model's, or a folder without one; return the bytes freed.

    Raises ConfigError for everything else. To be asked while nobody else changes the folder.
    """
    inside = path.parts[len(folder.parts) :] if path.is_relative_to(folder) else ()
    found = dict(list_records(folder))
    linked = {link for record in found.values() for link in _linked_paths(record)}
    model = folder.joinpath(*inside[:1])
    if ".." not in inside and len(inside) in (1, 2) and is_model_id(model.name) and model in found:
        record = found[model]
        if not isinstance(record, str):
            if path == model and list(_leftovers_in(model, record, linked)) == [model]:
                freed = delete_files(_folder_entries(model))
                model.rmdir()
                return freed
            if path != model and path.name != RECORD_FILE and path not in linked and _is_idle(path):
                return delete_files([path])
    raise ConfigError(
        f"{_path_text(path)} isn't left over from Baton, so it was not deleted.",
        "Delete it by hand if you don't need it.",
    )


def find_problems(folder: Path) -> Iterator[str]:
    """Yield a sentence for each thing in the folder that isn't a model as it should be."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"The models folder {_path_text(folder)} can't be read: {error.strerror}."
        return
    found = list(list_records(folder))
    linked = {link for _, record in found for link in _linked_paths(record)}
    for model, record in found:
        where = f"What is in it ({_folder_size(model)}) is kept"
        if isinstance(record, str):
            yield f"{_path_text(model)} can't be used as a model: {record}. {where}."
        elif record is None and not (_is_leftover_folder(model) or (model / RECORD_FILE).exists()):
            yield f"{_path_text(model)} is no model that Baton has put there. {where}."
        elif isinstance(record, ModelRecord):
            yield from _unknown_model_files(model, record, linked)


def _unknown_model_files(
    folder: Path, record: ModelRecord, linked: Collection[Path]
) -> Iterator[str]:
    """Tell of gigabytes that may be anybody's: a LoRA adapter, or another model."""
    for path in _folder_entries(folder):
        theirs = path.suffix.lower() == ".gguf" and not is_baton_file(path.name)
        if theirs and not _is_wanted(path, record) and path not in linked:
            yield f"{_path_text(path)} belongs to no model, and Baton leaves it alone."


def _leftovers_in(
    folder: Path, record: ModelRecord | None, linked: Collection[Path]
) -> Iterator[Path]:
    """Yield what is left over in a model's folder."""
    if any(is_locked(lock) for lock in folder.glob("*.lock")):
        return
    if record is None and _is_leftover_folder(folder):
        yield folder
        return
    for path in _folder_entries(folder):
        wanted = record is not None and _is_wanted(path, record)
        if (
            is_baton_file(path.name)
            and not wanted
            and path not in linked
            and (path.is_symlink() or is_regular_file(path))
        ):
            yield path


def _is_wanted(path: Path, record: ModelRecord) -> bool:
    """Tell whether a model has, or still needs, that file of its folder."""
    if not record.link and path.name == record.file:
        return True
    coming = not (
        record.link or record.stamp or record.wrong or is_regular_file(path.parent / record.file)
    )
    return coming and path.name.startswith(record.sha256) and not path.name.startswith(DRAFT_PREFIX)


def _is_leftover_folder(folder: Path) -> bool:
    """Tell whether a folder without a record holds nothing but what Baton left there."""
    return is_model_id(folder.name) and all(
        is_baton_file(path.name) and not path.is_dir() for path in _folder_entries(folder)
    )


def _is_idle(path: Path) -> bool:
    """Tell whether that is a file that nobody is writing."""
    if not (path.is_symlink() or is_regular_file(path)):
        return False
    return not (
        is_baton_file(path.name) and any(is_locked(lock) for lock in path.parent.glob("*.lock"))
    )


def _linked_paths(record: ModelRecord | str | None) -> tuple[Path, ...]:
    return (Path(record.link),) if isinstance(record, ModelRecord) and record.link else ()


def _path_text(path: Path) -> str:
    return one_line(str(path), 300)


def _folder_size(folder: Path) -> str:
    size = 0
    for path in _folder_entries(folder):
        with suppress(OSError):
            size += path.lstat().st_size
    return show_size(size)


def _folder_entries(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it went just now."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
