"""The catalogue: the models that Baton knows, as they ship with it and as the user adds to them.

`models/CATALOGUE.md` says how its entries were chosen and proved; `scripts/catalogue` checks them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

import baton
from baton.core.catalogue_types import CatalogueEntry, ModelRole, Score, Source, ThinkingMode
from baton.core.errors import ModelFileError
from baton.core.plan_types import KINDS

CATALOGUE_FILE = "catalogue.toml"

_MAX_FILE_BYTES = 4_000_000
"""A larger file is refused."""

_MAX_COUNT = 10**15
"""Sizes and numbers of parameters or tokens are below this."""

Count = Annotated[int, msgspec.Meta(ge=1, lt=_MAX_COUNT)]
Level = Annotated[float, msgspec.Meta(ge=1, le=5)]
Points = Annotated[float, msgspec.Meta(ge=0, le=100)]
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=300, pattern=r"\A[^\x00-\x1f\x7f]+\Z")]
Id = Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9][a-z0-9._-]{0,63}\Z")]
Repo = Annotated[str, msgspec.Meta(pattern=r"\A\w[\w.-]{0,95}/\w[\w.-]{0,95}\Z")]
File = Annotated[str, msgspec.Meta(pattern=r"\A(\w[\w.+-]*/){0,4}\w[\w.+-]{0,180}\.gguf\Z")]
Layers = Annotated[tuple[Count, ...], msgspec.Meta(min_length=3, max_length=4)]
Address = Annotated[str, msgspec.Meta(max_length=2000, pattern=r"\Ahttps?://\S+\Z")]


class CatalogueModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file; unknown values are left out."""

    id: Id
    name: Line
    file: File
    repo: Repo | None = None
    revision: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")] = ""
    url: Address | None = None
    size: Count | None = None
    sha256: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")] = ""
    licence: Line | None = None
    parameters: Count | None = None
    active: Count | None = None
    context: Count | None = None
    attention: tuple[Layers, ...] = ()
    kv_bytes: Count | None = None
    roles: tuple[ModelRole, ...] = (ModelRole.CHAT,)
    thinking: ThinkingMode = ThinkingMode.NONE
    skills: Mapping[str, Level] = {}
    scores: tuple[tuple[Line, Points, Line], ...] = ()
    note: Line | None = None


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    model: tuple[CatalogueModel, ...] = ()


def shipped_catalogue() -> Path:
    """Return the catalogue's file: in the installed package, else in the checkout."""
    package = Path(baton.__file__).resolve().parent
    inside = package / "models" / CATALOGUE_FILE
    return inside if inside.is_file() else package.parents[1] / "models" / CATALOGUE_FILE


def read_catalogue(own: Path | None = None) -> tuple[CatalogueEntry, ...]:
    """Return the catalogue, with the user's own entries from a file that need not be there.

    An own entry replaces one of the same id. Raises ModelFileError that says what is wrong where.
    """
    entries = {entry.id: entry for entry in _read_file(shipped_catalogue(), must=True)}
    if own is not None:
        entries |= {entry.id: entry for entry in _read_file(own, must=False)}
    return tuple(entries.values())


def parse_models(text: str) -> tuple[CatalogueModel, ...]:
    """Read a catalogue's text. Raises ValueError with a part of a sentence for the message.

    Whether an entry is true isn't checked here; `scripts/catalogue` does that.
    """
    import tomllib

    try:
        found = msgspec.convert(tomllib.loads(text), _Catalogue).model
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_models(found)
    return found


def _read_file(file: Path, must: bool) -> tuple[CatalogueEntry, ...]:
    try:
        status = file.stat()
    except FileNotFoundError:
        if not must:
            return ()
        hint = "Get it again: `git checkout models` in a checkout, else install Baton again."
        raise ModelFileError(f"The catalogue of models isn't in {file}.", hint) from None
    except OSError as error:
        raise _read_error(file, error) from error
    if status.st_size > _MAX_FILE_BYTES:
        raise ModelFileError(
            f"{file} is too large for a catalogue of models.", _repair_hint(file, must)
        )
    return _parse_cached(file, status.st_mtime_ns, status.st_size, must)


@lru_cache(maxsize=4)
def _parse_cached(file: Path, _changed: int, _size: int, must: bool) -> tuple[CatalogueEntry, ...]:
    """Read a file once, and again when it has changed."""
    try:
        return tuple(_to_entry(model) for model in parse_models(file.read_text("utf-8")))
    except OSError as error:
        raise _read_error(file, error) from error
    except ValueError as error:  # UnicodeDecodeError and TOMLDecodeError are
        # The pattern itself explains nothing to the user.
        why = re.sub(
            r"Expected `str` matching regex '.*'", "this text has another form", f"{error}"
        )
        message = f"The catalogue {file} can't be used: {why}."
        raise ModelFileError(message, _repair_hint(file, must)) from error


def _check_models(found: Sequence[CatalogueModel]) -> None:
    seen: set[str] = set()
    for model in found:
        if model.id in seen:
            raise ValueError(f"two models are called {model.id!r}")
        seen.add(model.id)
        if (model.repo is None) == (model.url is None):
            raise ValueError(f"{model.id!r} needs either a `repo` or a `url`")
        if model.revision and model.repo is None:
            raise ValueError(f"{model.id!r} has a `revision` of no `repo`")
        if strange := sorted(set(model.skills) - set(KINDS)):
            raise ValueError(f"{model.id!r} has a skill in {strange[0]!r}, which isn't a task kind")
        if model.active and model.active > (model.parameters or 0):
            raise ValueError(f"{model.id!r} has more active parameters than parameters")


def _to_entry(model: CatalogueModel) -> CatalogueEntry:
    known: dict[str, Any] = {
        name: value
        for name in ("size", "licence", "parameters", "context", "kv_bytes", "note")
        if (value := getattr(model, name)) is not None
    }
    return CatalogueEntry(
        id=model.id,
        name=model.name,
        source=Source(model.repo or "", model.file, model.revision, model.url or ""),
        sha256=model.sha256,
        active=model.active or model.parameters or 0,
        roles=tuple(dict.fromkeys(model.roles)),
        skills=dict(model.skills),
        scores=tuple(Score(*score) for score in model.scores),
        thinking=model.thinking,
        **known,
    )


def _repair_hint(file: Path, must: bool) -> str:
    if must:
        return "Get it again: `git checkout models` in a checkout, else install Baton again."
    return f"Correct it, or move {file} away."


def _read_error(file: Path, error: OSError) -> ModelFileError:
    reason = error.strerror or str(error)
    return ModelFileError(f"{file} can't be read: {reason}.", "Check its owner and its folder's.")
