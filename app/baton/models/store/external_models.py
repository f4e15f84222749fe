"""Model files that are on this machine already: other programs', and loose ones in the folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from baton.core.sanitiser import one_line
from baton.models.model_types import ExternalModel, LibraryModel, ModelRecord
from baton.models.store.external_stores import Candidate, FolderScan, candidates
from baton.models.store.gguf_detection import chat_model_bytes
from baton.models.store.manifest import list_records

MAX_OFFERED = 500
"""How many are offered."""

MODELS_FOLDER = "the models folder"
"""What stands in a program's place for files that a person put there by hand."""


def find_external_models(
    folder: Path,
    environ: Mapping[str, str],
    held: Iterable[LibraryModel],
    walk: FolderScan | None = None,
) -> list[ExternalModel]:
    """Return the models that could be used where they lie, but those that are used already."""
    walk = walk or FolderScan()
    models = [model for model in held if model.state.is_usable]
    known = {model.record.sha256 for model in models} - {""}
    seen = {os.path.realpath(model.path) for model in models}
    seen |= {os.path.realpath(model.record.link) for model in held if model.record.link}
    home = os.path.realpath(folder)
    found: list[ExternalModel] = []
    for candidate in chain(_loose_files(folder, walk), candidates(environ, walk)):
        if len(found) == MAX_OFFERED or walk.is_over():
            break
        real = os.path.realpath(candidate.path)
        own = candidate.program == MODELS_FOLDER
        if real in seen or candidate.sha256 in known or _is_in(real, home) is not own:
            continue
        seen.add(real)
        if (offered := _to_external_model(candidate)) is not None:
            found.append(offered)
    return sorted(found, key=lambda model: (model.program, model.name, model.path))


def _to_external_model(candidate: Candidate) -> ExternalModel | None:
    """Return a file as it can be offered, if it looks like a model."""
    path = candidate.path
    size = chat_model_bytes(path, candidate.name) if str(path).isprintable() else 0
    if not size or candidate.size not in (0, size):
        return None
    name = one_line(candidate.name, 120)
    return ExternalModel(name, path, size, candidate.program, candidate.sha256, candidate.source)


def _loose_files(folder: Path, walk: FolderScan) -> Iterator[Candidate]:
    """Yield what a person has put into the models folder, or what a lost record leaves."""
    places = [folder]
    places += [
        model for model, record in list_records(folder) if not isinstance(record, ModelRecord)
    ]
    for place in places:
        for path in walk.models(place, 0):
            yield Candidate(MODELS_FOLDER, path.stem, path)


def _is_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)
