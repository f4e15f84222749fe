"""Model files that are on this machine already: other programs', and loose ones in the folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from baton.core.sanitiser import one_line
from baton.models.model_types import Foreign, Held, Record
from baton.models.store.external_stores import Candidate, Walk, candidates
from baton.models.store.gguf_detection import talks
from baton.models.store.manifest import survey

MOST = 500
"""How many are offered."""

OWN = "the models folder"
"""What stands in a program's place for files that a person put there by hand."""


def find(
    folder: Path, environ: Mapping[str, str], held: Iterable[Held], walk: Walk | None = None
) -> list[Foreign]:
    """Return the models that could be used where they lie, but those that are used already."""
    walk = walk or Walk()
    models = [model for model in held if model.state.usable]
    known = {model.record.sha256 for model in models} - {""}
    seen = {os.path.realpath(model.path) for model in models}
    seen |= {os.path.realpath(model.record.link) for model in held if model.record.link}
    home = os.path.realpath(folder)
    found: list[Foreign] = []
    for candidate in chain(_loose(folder, walk), candidates(environ, walk)):
        if len(found) == MOST or walk.over():
            break
        real = os.path.realpath(candidate.path)
        own = candidate.program == OWN
        if real in seen or candidate.sha256 in known or _is_in(real, home) is not own:
            continue
        seen.add(real)
        if (offered := _offered(candidate)) is not None:
            found.append(offered)
    return sorted(found, key=lambda model: (model.program, model.name, model.path))


def _offered(candidate: Candidate) -> Foreign | None:
    """Return a file as it can be offered, if it looks like a model."""
    path = candidate.path
    size = talks(path, candidate.name) if str(path).isprintable() else 0
    if not size or candidate.size not in (0, size):
        return None
    name = one_line(candidate.name, 120)
    return Foreign(name, path, size, candidate.program, candidate.sha256, candidate.source)


def _loose(folder: Path, walk: Walk) -> Iterator[Candidate]:
    """Yield what a person has put into the models folder, or what a lost record leaves."""
    places = [folder]
    places += [model for model, record in survey(folder) if not isinstance(record, Record)]
    for place in places:
        for path in walk.models(place, 0):
            yield Candidate(OWN, path.stem, path)


def _is_in(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)
